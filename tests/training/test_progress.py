import itertools
import types

import keras
import numpy as np
import pytest

from keras_transformer.config import TrainingConfig
from keras_transformer.training import progress
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.progress import Progress, Readings
from keras_transformer.training.resume import EpochState, RunLimit


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, which passes only when a test says so."""
    clock = types.SimpleNamespace(now=1000.0)
    fake = types.SimpleNamespace(perf_counter=lambda: clock.now)
    monkeypatch.setattr(progress, "time", fake)
    return clock


class Batches:
    """The batches of an epoch, of 300 tokens each."""

    seed = 1

    def __init__(self, steps):
        self.tokens = 300 * steps
        self.steps = steps

    def __len__(self):
        return self.steps


@pytest.fixture
def begin(tmp_path):
    """Return a function that begins an epoch of a run, of which steps may be done already."""

    def begin(epochs=3, steps=4, epoch=0, done=0, **limits):
        checkpoints = Checkpoints(tmp_path, keep=1)
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
        model.compile(keras.optimizers.SGD(0.25), "mse")
        model.stop_training = False
        state = EpochState(Batches(steps), checkpoints)
        limit = RunLimit(TrainingConfig(**limits), checkpoints, epoch * steps + done)
        reading = Readings(epochs, state, limit)
        for callback in (state, limit, reading):
            callback.set_model(model)
        if done:
            checkpoints.save_step(model, epoch + 1, done, {"seconds": np.float64(0)})
        begin_epoch(reading, epoch)
        return reading

    return begin


def begin_epoch(reading, epoch):
    reading.model.stop_training = False
    reading.batches = itertools.count()
    for callback in (reading.state, reading):
        callback.on_epoch_begin(epoch)


def make_steps(reading, clock, seconds, *others, logs=None):
    """Make a step for each number of seconds, and return the rows."""
    rows = []
    for number in seconds:
        batch = next(reading.batches)
        for callback in (reading, *others):
            callback.on_train_batch_begin(batch)
        clock.now += number
        for callback in (reading.state, reading.limit, reading, *others):
            callback.on_train_batch_end(batch, logs)
        rows.append(reading.row)
    return rows


def test_speed_and_time_left_leave_out_the_first_step_and_the_validation(begin, clock):
    reading = begin()
    assert reading.seconds_left() is None
    rows = make_steps(reading, clock, [50, 2, 2, 2])
    assert rows[:3] == [None] * 3
    assert rows[3]["step"], rows[3]["epoch"] == (4, 1)
    assert rows[3]["tokens_per_second"] == reading.tokens_per_second == 150
    assert rows[3]["seconds"] == 56
    assert rows[3]["learning_rate"] == 0.25
    assert reading.seconds_left() == 2 * 8
    reading.on_epoch_end(0)
    clock.now += 20  # A validation for 4 steps: 5 seconds a step more.
    assert reading.seconds_left() == (2 + 5) * 8
    begin_epoch(reading, 1)
    rows = make_steps(reading, clock, [3, 3, 3, 3], logs={"gradient_norm": 0.5})
    assert rows[3]["tokens_per_second"] == 100
    assert rows[3]["seconds"] == 32
    assert rows[3]["gradient_norm"] == 0.5


@pytest.mark.parametrize(
    ("limits", "left"),
    [({}, 8 * 2 + 2 * 20), ({"max_steps": 18}, 2 * 2 + 20), ({"max_minutes": 0.5}, 30)],
)
def test_the_time_left_counts_validations_and_ends_with_the_limits(begin, clock, limits, left):
    reading = begin(4, 6, epoch=1, done=5, **limits)  # This process makes its last step.
    make_steps(reading, clock, [9])
    reading.on_epoch_end(1)
    clock.now += 20
    assert reading.seconds_left() is None
    begin_epoch(reading, 2)
    make_steps(reading, clock, [2, 2, 50, 2])  # XLA compiles the step of a new shape.
    assert reading.seconds_left() == left


def test_there_is_a_row_every_100_steps_and_every_minute(begin, clock):
    reading = begin(steps=250)
    rows = make_steps(reading, clock, [0.001] * 250)
    assert [row["step"] for row in rows if row] == [100, 200, 250]
    begin_epoch(reading, 1)
    rows = make_steps(reading, clock, [25] * 6)
    assert [row["step"] for row in rows if row] == [253, 256]


def test_a_process_may_resume_within_an_epoch(begin, clock):
    reading = begin(epoch=1, done=2)
    rows = make_steps(reading, clock, [1, 1])
    assert [row and row["step"] for row in rows] == [None, 8]
    begin_epoch(reading, 2)
    assert reading.step == 8


def test_a_limit_within_an_epoch_ends_it_with_a_row_and_the_next_goes_on_counting(begin, clock):
    reading = begin(max_steps=6)
    rows = make_steps(reading, clock, [1] * 4)
    begin_epoch(reading, 1)
    rows += make_steps(reading, clock, [1] * 2)
    assert [row["step"] for row in rows if row] == [4, 6]
    begin_epoch(reading, 2)
    assert (reading.step, reading.state.step) == (6, 0)


def test_the_loss_of_a_row_is_that_of_its_steps(begin):
    losses = []

    class Losses(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            w = float(self.model.layers[0].kernel[0, 0])
            losses.append((w - 3.0) ** 2)

    reading, rows = begin(epochs=2, steps=250), []
    model = reading.model
    model.layers[0].kernel.assign([[1.0]])
    keep = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: rows.append(reading.row)
    )
    model.optimizer.learning_rate = 0.002
    x = np.ones([250, 1])
    callbacks = [reading.state, reading.limit, Losses(), reading, keep]
    model.fit(x, 3 * x, batch_size=1, epochs=2, callbacks=callbacks, verbose=0)
    rows = [row for row in rows if row]
    assert [row["step"] for row in rows] == [100, 200, 250, 300, 400, 500]
    parts = np.split(np.array(losses), [100, 200, 250, 300, 400])
    expected = [part.mean() for part in parts]
    np.testing.assert_allclose([row["loss"] for row in rows], expected, rtol=1e-4)


LOGS = {"loss": 4.5, "gradient_norm": 0.75}
SCORES = {"val_nll": 2.0, "val_accuracy": 0.25, "val_bleu": 12.345}


def test_without_a_terminal_there_is_a_line_a_minute_and_after_each_epoch(begin, clock, capsys):
    reading = begin(epochs=3, steps=1000)
    shown = Progress(reading, label_smoothing=0.1)
    shown.set_model(reading.model)
    shown.on_epoch_begin(0)
    make_steps(reading, clock, [15, *[1] * 120], shown, logs=LOGS)  # The first says nothing.
    assert capsys.readouterr().out.splitlines() == [
        f"epoch 1 of 3, step {step} of 1,000: smoothed loss 4.500, 300 tokens/s, {left} left, "
        "lr 0.25, gradient norm 0.75"
        for step, left in ((2, "49:58"), (62, "48:58"))
    ]
    reading.on_epoch_end(0)
    shown.on_epoch_end(0, LOGS | SCORES)
    assert capsys.readouterr().out == (
        "epoch 1 of 3: smoothed loss 4.500, val_nll 2.000 (perplexity 7.389), val_accuracy 0.250, "
        "val_bleu 12.35 (greedy), 300 tokens/s, 47:59 left\n"
    )
    make_steps(reading, clock, [1] * 60, shown, logs=LOGS)
    assert capsys.readouterr().out.endswith("gradient norm 0.75, val perplexity 7.389\n")
    shown.on_epoch_end(1, SCORES | {"val_bleu_de": 10, "val_bleu_fr": 14.69})
    assert "val_bleu 12.35 (greedy), val_bleu_de 10.00, val_bleu_fr 14.69, 300" in (
        capsys.readouterr().out
    )


def test_at_a_terminal_one_line_moves(begin, clock, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    reading = begin()
    shown = Progress(reading)
    shown.set_model(reading.model)
    shown.on_epoch_begin(0)
    make_steps(reading, clock, [1, 1], shown, logs={"loss": 4.5})
    line = capsys.readouterr().out.split("\r")[-1]
    assert line.startswith("epoch 1 of 3  50%|")
    assert "| 2/4, loss 4.500, 300 tokens/s, 0:10 left, lr 0.25" in line
    shown.close()
    shown.close()
    assert capsys.readouterr().out.split("\r")[-1].strip() == ""
