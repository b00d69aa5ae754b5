"""Runs that go on where they ended, and what an epoch in progress needs for that."""

import dataclasses
import itertools
import json
import os
import signal
import types

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.config import ExperimentConfig, TrainingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.training import train
from keras_transformer.training.checkpoints import Checkpoints, run_checkpoints
from keras_transformer.training.csv_tables import read_history, read_metrics
from keras_transformer.training.resume import (
    EpochState,
    RunLimit,
    SaveCheckpoints,
    dropout_states,
    progress_of,
    restore_progress,
)
from keras_transformer.training.validation import Validation
from keras_transformer.translation import Translator
from tests.helpers.arrays import assert_same_weights
from tests.helpers.experiment import epochs_of, interrupted_in_epoch, killed_at_step
from tests.helpers.tiny import (
    tiny_tokenizer,
    toy_experiment,
    toy_pairs,
    toy_training,
    write_toy_text,
)


def weights_after(directory, epoch):
    model = Transformer(ExperimentConfig.from_file(directory / "config.yaml").model)
    model.load_weights(directory / "checkpoints" / f"epoch-{epoch:04d}.weights.h5")
    return model.get_weights()


@pytest.mark.slow
def test_an_interrupted_run_resumes_as_if_uninterrupted(
    tmp_path, without_search, caplog, monkeypatch
):
    directory = toy_training()[0]
    config = ExperimentConfig.from_file(directory / "config.yaml")
    often = dataclasses.replace(config.training, checkpoint_steps=5)
    config = dataclasses.replace(config, training=often)
    caplog.set_level("INFO", logger="keras_transformer")
    seconds = itertools.count(2e9, -1e6)  # The clock is wrong, and goes backwards.
    monkeypatch.setattr("time.time", lambda: next(seconds))
    (tmp_path / "link").symlink_to(tmp_path)
    with interrupted_in_epoch(2):
        train(config, tmp_path / "link")
    for path in tmp_path.rglob("*.weights.h5"):
        os.utime(path, (3e9, 3e9))
    assert epochs_of(tmp_path) == [1]
    for path in (tmp_path / "checkpoints").glob("step-*"):
        path.unlink()  # As if only epochs had checkpoints.
    with killed_at_step(2, 13):
        train(config, tmp_path)
    train(config, tmp_path)
    places = [message[15:] for message in caplog.messages if message.startswith("resuming after ")]
    assert places == ["epoch 1 of 3", "step 10 of epoch 2 of 3"]
    assert epochs_of(tmp_path) == [1, 2, 3]
    for epoch in (2, 3):
        expected = weights_after(directory, epoch)
        assert_same_weights(weights_after(tmp_path, epoch), expected)
    history, expected = read_history(tmp_path), read_history(directory)
    for name in ("loss", "learning_rate", "val_nll"):
        assert history[name] == expected[name]
    assert not list((tmp_path / "checkpoints").glob("step-*"))


@pytest.mark.slow
def test_an_epoch_does_not_go_on_with_another_text(tmp_path, without_scores):
    data = write_toy_text(tmp_path, train=60)
    config = toy_experiment(data, epochs=1, checkpoint_steps=1)
    with killed_at_step(1, 2):
        train(config, tmp_path / "run")
    path = tmp_path / "train.target"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=f"these differ: {path}. Restore them, or choose"):
        train(config, tmp_path / "run")
    for name in ("inputs.json", "SHA256SUMS"):  # As before version 0.2.
        (tmp_path / "run" / name).unlink()
    for side in ("source", "target"):
        with open(data[f"train_{side}"], "a") as file:
            file.write("one two\n")
    with pytest.raises(ValueError, match="goes on with the text it began with, of 6 batches"):
        train(config, tmp_path / "run")


@pytest.mark.slow
def test_training_stops_without_progress_and_is_then_finished(tmp_path, without_scores):
    data = write_toy_text(tmp_path, train=60)
    # No step changes anything, so the first epoch stays the best.
    config = toy_experiment(data, epochs=9, patience=2, learning_rate_scale=1e-12)
    for _ in range(2):
        train(config, tmp_path / "run")
        assert epochs_of(tmp_path / "run") == [1, 2, 3]


@pytest.mark.slow
def test_a_run_ends_within_an_epoch_and_can_be_made_longer_or_shorter(tmp_path, without_scores):
    config = toy_experiment(write_toy_text(tmp_path, train=60), max_steps=8)

    def trained(**ends):
        changed = dataclasses.replace(config, training=dataclasses.replace(config.training, **ends))
        train(changed, tmp_path / "run")
        return json.loads((tmp_path / "run" / "chosen.json").read_text())

    first = trained()
    assert (first["epochs"], first["max_steps"]) == (3, 8)
    assert epochs_of(tmp_path / "run") == [1, 2]  # The second has two steps of six.
    assert read_history(tmp_path / "run")["val_nll"][1] > 0
    assert trained() == first
    assert trained(max_steps=9999)["epochs"] == 3
    assert epochs_of(tmp_path / "run") == [1, 2, 3]
    assert trained(max_steps=5) == trained(epochs=1) == trained(max_steps=9999)
    assert epochs_of(tmp_path / "run") == [1, 2, 3]
    longer = trained(max_steps=None, epochs=4)
    assert longer["epochs"] == 4 and "max_steps" not in longer
    metrics = read_metrics(tmp_path / "run")
    rows = set(zip(metrics["step"], metrics["epoch"], strict=True))
    assert {(6, 1), (8, 2), (14, 3), (20, 4)} <= rows
    assert max(metrics["step"]) == 20


@pytest.mark.slow
def test_a_run_can_be_ended_within_an_epoch_and_go_on(tmp_path, without_scores):
    config = toy_experiment(write_toy_text(tmp_path, train=60), checkpoint_steps=1)
    directory = tmp_path / "run"
    with killed_at_step(1, 3):
        train(config, directory)
    with pytest.raises(FileNotFoundError, match="model.keras does not exist.* needs a complete"):
        Translator.load(directory)
    train(config, directory, finish=True)
    chosen = json.loads((directory / "chosen.json").read_text())
    assert (chosen["epochs"], chosen["checkpoints"]) == (0, ["step-0001-000003.weights.h5"])
    with killed_at_step(2, 1):
        train(config, directory)
    assert epochs_of(directory) == [1]
    train(config, directory, finish=True)
    assert json.loads((directory / "chosen.json").read_text())["epochs"] == 1
    train(config, directory)
    assert epochs_of(directory) == [1, 2, 3]
    assert json.loads((directory / "chosen.json").read_text())["epochs"] == 3


@pytest.mark.slow
def test_an_epoch_that_was_stopped_in_its_validation_goes_on_with_that(
    tmp_path, without_search, monkeypatch
):
    config = toy_experiment(write_toy_text(tmp_path, train=60), epochs=2, average_checkpoints=1)
    train(config, tmp_path / "whole")
    measure, steps = Validation.measure, []

    def stop(self):
        monkeypatch.setattr(Validation, "measure", measure)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Validation, "measure", stop)
    # A job in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run")
    signal.signal(signal.SIGINT, before)
    assert run_checkpoints(tmp_path / "run", config.training).position() == (0, 6)
    end = EpochState.on_train_batch_end
    monkeypatch.setattr(
        EpochState, "on_train_batch_end", lambda self, batch, logs: steps.append(end(self, batch))
    )
    train(config, tmp_path / "run")
    assert len(steps) == 6  # Of the second epoch.
    assert_same_weights(weights_after(tmp_path / "run", 2), weights_after(tmp_path / "whole", 2))
    ours, theirs = read_history(tmp_path / "run"), read_history(tmp_path / "whole")
    for name in ("epoch", "loss", "learning_rate", "val_nll"):
        assert ours[name] == theirs[name]


def make_model():
    inputs = keras.Input([4])
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(inputs)))
    model.compile("sgd", "mse")
    return model


def make_steps(model, steps):
    return [model.train_on_batch(np.ones([2, 4]) * step, np.ones([2, 1])) for step in steps]


def test_metrics_and_dropout_go_on_where_they_were():
    model = make_model()
    make_steps(model, [1, 2])
    arrays, weights = progress_of(model), model.get_weights()
    expected = make_steps(model, [3, 4])
    resumed = make_model()
    resumed.train_on_batch(np.ones([2, 4]), np.ones([2, 1]))  # Something else happened before.
    resumed.set_weights(weights)
    restore_progress(resumed, arrays)
    # The loss is a mean that begins with the first step.
    assert make_steps(resumed, [3, 4]) == expected


@pytest.mark.parametrize("replicas", [1, 3])
def test_another_number_of_replicas_keeps_the_mean_of_the_loss(replicas):
    model = make_model()
    make_steps(model, [1])
    arrays = progress_of(model)
    mean = model.get_metrics_result()["loss"]
    state = dropout_states(model)[0].numpy().tolist()
    # As that many replicas with equal sentences would have saved it.
    arrays = {name: np.repeat(array, replicas, axis=0) for name, array in arrays.items()}
    resumed = make_model()
    restore_progress(resumed, arrays)
    assert float(resumed.get_metrics_result()["loss"]) == pytest.approx(float(mean))
    assert dropout_states(resumed)[0].numpy().tolist() == state


def test_batches_and_dropout_depend_only_on_seed_and_epoch(tmp_path):
    encoded = encode_pairs(toy_pairs(9), tiny_tokenizer(), max_length=50)

    def start(epoch, seed, steps_before):
        inputs = keras.Input([50])
        x = keras.layers.Dropout(0.5)(keras.layers.Dropout(0.5)(inputs))
        model = keras.Model(inputs, x)
        for _ in range(steps_before):
            model(np.ones([1, 50]), training=True)
        callback = EpochState(TokenBatches(encoded, 50, seed=seed), Checkpoints(tmp_path, keep=1))
        callback.set_model(model)
        callback.on_epoch_begin(epoch)
        assert (callback.batches.epoch, callback.batches.step) == (epoch, 0)
        return [model(np.ones([1, 50]), training=True).numpy().tolist() for _ in range(2)]

    first, second = start(epoch=4, seed=1, steps_before=0)
    assert start(epoch=4, seed=1, steps_before=3) == [first, second]
    others = [first, second, *start(5, 1, 0), *start(4, 2, 0)]
    assert len({str(masks) for masks in others}) == 6
    # Two layers with the same mask would keep a half of the values, not a quarter.
    assert 2 < np.count_nonzero(first) < 22


def test_the_time_of_an_epoch_includes_that_before_it_was_interrupted(tmp_path, monkeypatch):
    encoded = encode_pairs(toy_pairs(9), tiny_tokenizer(), max_length=50)
    batches, checkpoints = TokenBatches(encoded, 50, seed=1), Checkpoints(tmp_path, keep=1)
    clock = types.SimpleNamespace(perf_counter=lambda: clock.now, now=100.0)
    monkeypatch.setattr("keras_transformer.training.resume.time", clock)
    inputs = keras.Input([5])
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")

    def begun():
        state = EpochState(batches, checkpoints)
        state.set_model(model)
        state.on_epoch_begin(0)
        return state

    before = begun()
    model.train_on_batch(np.ones([1, 5]), np.ones([1, 1]))
    clock.now += 7.5
    assert before.arrays()["seconds"] == 7.5
    checkpoints.save_step(model, 1, 1, before.arrays())
    clock.now += 1000  # Until the run starts again.
    after = begun()
    clock.now += 2.5
    for made in (len(batches), 1):  # A limit may end a run within an epoch.
        after.step = made
        logs = {}
        after.on_epoch_end(0, logs)
        tokens = batches.tokens * made / len(batches)
        assert logs["tokens_per_second"] == pytest.approx(tokens / 10)


@pytest.mark.parametrize(
    ("limits", "before", "last"),
    [({}, {}, 9), ({"max_steps": 4}, {}, 4), ({"max_steps": 4}, {"run-steps": 3}, 1)]
    + [({"max_minutes": 1}, {}, 3), ({"max_minutes": 1}, {"run-seconds": 45}, 1)]
    + [({"max_minutes": 1, "max_steps": 2}, {}, 2)],
)
def test_a_run_ends_with_the_steps_and_minutes_of_all_its_processes(
    tmp_path, monkeypatch, limits, before, last
):
    clock = types.SimpleNamespace(monotonic=lambda: clock.now, now=100.0)
    monkeypatch.setattr("keras_transformer.training.resume.time", clock)
    checkpoints, training = Checkpoints(tmp_path, keep=1), TrainingConfig(**limits)
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    if before:
        checkpoints.save_step(model, 1, 1, {n: np.float64(v) for n, v in before.items()})
    limit = RunLimit(training, checkpoints)
    model.stop_training = False
    limit.set_model(model)
    clock.now += 1000  # Until the first step.
    limit.on_epoch_begin(0)
    for step in range(1, 10):
        clock.now += 20
        limit.on_train_batch_end(step - 1)
        if model.stop_training:
            break
    assert step == last
    assert limit.is_reached() == bool(limits)
    checkpoints.save_epoch(model, 1, arrays=limit.arrays())
    assert RunLimit(training, checkpoints).is_reached() == bool(limits)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Return a function that makes steps of an epoch, and returns which have got a checkpoint."""

    def saved(count=9, seconds_per_step=0.0, value=1.0, **interval):
        clock = types.SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
        monkeypatch.setattr("keras_transformer.training.resume.time", clock)
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        model.layers[0].kernel.assign([[value]])
        model.stop_training = False
        checkpoints = Checkpoints(tmp_path, keep=1)
        state = types.SimpleNamespace(checkpoints=checkpoints, epoch=0, arrays=dict)
        callback = SaveCheckpoints(state, [], "val_bleu", **interval)
        callback.set_model(model)
        seen = []
        for state.step in range(1, count + 1):
            state.is_over = state.step == count
            clock.now += seconds_per_step
            callback.on_train_batch_end(state.step - 1)
            seen.append(checkpoints.position().steps)
        return sorted(set(seen) - {0})

    return saved


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"seconds_per_step": 1e6}, []),  # By default.
        ({"steps": 3}, [3, 6]),  # The last one is saved with the epoch.
        ({"seconds_per_step": 20, "minutes": 1}, [3, 6]),
        ({"seconds_per_step": 45, "minutes": 1}, [2, 4, 6, 8]),
        ({"seconds_per_step": 20, "minutes": 1, "steps": 4}, [3, 4, 7, 8]),
        ({"value": np.nan, "steps": 3}, []),  # Values that are not finite.
    ],
)
def test_checkpoints_come_after_steps_or_minutes_whichever_are_first(saved, options, expected):
    assert saved(**options) == expected
