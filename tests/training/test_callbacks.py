import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.losses import smoothed_cross_entropy
from keras_transformer.training.callbacks import (
    Checkpoints,
    EpochSeed,
    EpochSummaries,
    EpochTable,
    Validation,
)
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_pairs


@pytest.fixture
def pairs():
    return toy_pairs(9)


@pytest.fixture
def encoded(pairs):
    return encode_pairs(pairs, tiny_tokenizer(), tiny_tokenizer(), max_length=50)


def make_model():
    """A compiled model of one weight, w: its output is w times its input."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def weight(model):
    return float(model.layers[0].kernel[0, 0])


def run_epochs(checkpoints, bleus, first=0):
    """End epochs with these BLEU scores; after epoch n, counted from 0, the weight is n."""
    model = make_model()
    checkpoints.set_model(model)
    for epoch, bleu in enumerate(bleus, start=first):
        model.layers[0].kernel.assign([[epoch]])
        checkpoints.on_epoch_end(epoch, {"val_bleu": bleu})
    return model


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_last_epochs_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new", keep=2)
    assert (checkpoints.last(), checkpoints.best()) == ([], None)
    run_epochs(checkpoints, [10.0, 31.41592, 31.4, 9.5])
    assert names(tmp_path / "new") == [
        "best-0002-bleu-31.4159.weights.h5",
        "epoch-0003.weights.h5",
        "epoch-0004.weights.h5",
    ]
    model = make_model()
    for path, epoch in zip([*checkpoints.last(), checkpoints.best()], (2, 3, 1), strict=True):
        model.load_weights(path)
        assert weight(model) == epoch


def test_fewer_checkpoints_may_be_averaged_later(tmp_path):
    run_epochs(Checkpoints(tmp_path, keep=3), [1.0] * 4)
    last = [path.name for path in Checkpoints(tmp_path, keep=2).last()]
    assert last == ["epoch-0003.weights.h5", "epoch-0004.weights.h5"]


def test_epochs_are_in_order_when_their_numbers_grow_longer(tmp_path):
    run_epochs(Checkpoints(tmp_path, keep=2), [1.0] * 3, first=9998)
    numbers = [path.name[6:11] for path in Checkpoints(tmp_path, keep=2).last()]
    assert numbers == ["10000", "10001"]


def test_a_run_that_resumes_knows_the_best_epoch(tmp_path):
    run_epochs(Checkpoints(tmp_path, keep=1), [20.0])
    run_epochs(Checkpoints(tmp_path, keep=1), [19.0, 20.5, 20.4], first=1)
    assert names(tmp_path) == ["best-0003-bleu-20.5000.weights.h5", "epoch-0004.weights.h5"]


def test_an_epoch_that_is_trained_again_keeps_its_best(tmp_path):
    for _ in range(2):
        run_epochs(Checkpoints(tmp_path, keep=1), [12.34564])
        assert names(tmp_path) == ["best-0001-bleu-12.3456.weights.h5", "epoch-0001.weights.h5"]


def test_a_checkpoint_that_cannot_be_written_replaces_none(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=1)
    model = run_epochs(checkpoints, [20.0])
    before = names(tmp_path)

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(model, "save_weights", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoints.on_epoch_end(1, {"val_bleu": 30.0})
    assert names(tmp_path) == before
    assert Checkpoints(tmp_path, keep=1).epochs() == 1


def test_restoring_gives_weights_optimizer_and_epoch(tmp_path):
    untrained = make_model()
    before = weight(untrained)
    Checkpoints(tmp_path, keep=1).restore(untrained)
    assert Checkpoints(tmp_path, keep=1).epochs() == 0
    assert weight(untrained) == before
    checkpoints = Checkpoints(tmp_path, keep=2)
    model = make_model()
    x, y = np.array([[1.0], [2.0]]), np.array([[3.0], [1.0]])
    checkpoints.set_model(model)
    for epoch in range(3):
        model.train_on_batch(x, y)
        checkpoints.on_epoch_end(epoch, {"val_bleu": 0.0})

    resumed = make_model()
    Checkpoints(tmp_path, keep=2).restore(resumed)
    assert Checkpoints(tmp_path, keep=2).epochs() == 3
    assert int(resumed.optimizer.iterations) == 3
    for each in (model, resumed):
        each.train_on_batch(x, y)
    assert weight(resumed) == weight(model)


def test_a_damaged_checkpoint_is_named(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    run_epochs(checkpoints, [20.0])
    (path,) = checkpoints.last()
    path.write_bytes(path.read_bytes()[:999])
    with pytest.raises(ValueError, match="epoch-0001.weights.h5 must be a complete checkpoint .*"):
        checkpoints.restore(make_model())


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_damaged_checkpoints_are_set_aside_until_one_is_whole(tmp_path, caplog):
    checkpoints = Checkpoints(tmp_path, keep=4)
    run_epochs(checkpoints, [20.0, 19.0, 18.0, 17.0])
    checkpoints.set_aside_damaged()
    assert caplog.messages == []
    first, _, third, fourth = checkpoints.last()
    for path in (first, third):
        flip_a_bit(path)
    fourth.write_bytes(fourth.read_bytes()[:999])
    checkpoints.set_aside_damaged()
    assert checkpoints.epochs() == 2
    assert names(tmp_path) == [
        "best-0001-bleu-20.0000.weights.h5",
        "damaged-epoch-0003.weights.h5",
        "damaged-epoch-0004.weights.h5",
        "epoch-0001.weights.h5",  # Not the last one that is whole.
        "epoch-0002.weights.h5",
    ]
    of_fourth, of_third = caplog.messages
    assert of_fourth.startswith(f"{fourth} is damaged (")
    assert of_third == (
        f"{third} is damaged (its checksum differs): it is damaged-{third.name} now, and its epoch "
        "is repeated"
    )


def test_without_a_whole_checkpoint_a_run_does_not_start_again_by_itself(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    run_epochs(checkpoints, [20.0, 19.0])
    for path in checkpoints.last():
        flip_a_bit(path)
    before = names(tmp_path)
    with pytest.raises(ValueError, match="received 2 in .*, all damaged: epoch-0002.weights.h5, "):
        checkpoints.set_aside_damaged()
    assert names(tmp_path) == before


def test_a_run_does_not_resume_from_values_that_are_not_finite(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    model = run_epochs(checkpoints, [])
    model.layers[0].kernel.assign([[np.nan]])
    checkpoints.on_epoch_end(0, {"val_bleu": 20.0})
    with pytest.raises(ValueError, match="epoch-0001.weights.h5 must have finite weights"):
        checkpoints.restore(make_model())


@pytest.mark.parametrize(
    "bleus, is_over", [([5], False), ([5, 4], False), ([5, 4, 5], True), ([5, 4, 6, 5], False)]
)
def test_patience_counts_the_epochs_since_the_best(tmp_path, bleus, is_over):
    checkpoints = Checkpoints(tmp_path, keep=1, patience=2)
    assert not checkpoints.out_of_patience()
    model = run_epochs(checkpoints, bleus)
    assert model.stop_training is is_over
    assert Checkpoints(tmp_path, keep=1, patience=2).out_of_patience() is is_over
    assert not Checkpoints(tmp_path, keep=1).out_of_patience()


def test_a_score_that_only_rounding_tells_apart_is_not_better(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=9, patience=2)
    run_epochs(checkpoints, [5.00004, 5.00004, 5.00004])
    assert checkpoints.out_of_patience()


def test_batches_and_dropout_depend_only_on_seed_and_epoch(encoded):
    def start(epoch, seed, steps_before):
        inputs = keras.Input([50])
        x = keras.layers.Dropout(0.5)(keras.layers.Dropout(0.5)(inputs))
        model = keras.Model(inputs, x)
        for _ in range(steps_before):
            model(np.ones([1, 50]), training=True)
        callback = EpochSeed(TokenBatches(encoded, 50, seed=seed))
        callback.set_model(model)
        callback.on_epoch_begin(epoch)
        assert callback.batches.epoch == epoch
        return [model(np.ones([1, 50]), training=True).numpy().tolist() for _ in range(2)]

    first, second = start(epoch=4, seed=1, steps_before=0)
    assert start(epoch=4, seed=1, steps_before=3) == [first, second]
    others = [first, second, *start(5, 1, 0), *start(4, 2, 0)]
    assert len({str(masks) for masks in others}) == 6
    # Two layers with the same mask would keep a half of the values, not a quarter.
    assert 2 < np.count_nonzero(first) < 22


def test_validation_reports_loss_accuracy_and_greedy_bleu(pairs, encoded):
    model = tiny_model()
    model.compile(keras.optimizers.Adam(0.25), "mse")
    translator = Translator(model, tiny_tokenizer(), decoding=DecodingConfig(beam_size=1))
    batches = TokenBatches(encoded, 40, shuffle=False)
    callback = Validation(batches, pairs, translator, tokens=1000)
    callback.set_model(model)

    inputs, labels = encoded.padded_batch(np.arange(len(pairs)))
    logits = model({name: tf.constant(ids) for name, ids in inputs.items()})
    is_token = labels != 0
    nll = smoothed_cross_entropy(labels, logits).numpy()[is_token].mean()
    accuracy = (logits.numpy().argmax(-1) == labels)[is_token].mean()
    bleu = score(translator([pair[0] for pair in pairs]), [pair[1] for pair in pairs]).bleu
    for epoch in range(2):  # The second begins anew.
        logs = {}
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, logs)
        assert logs.pop("tokens_per_second") > 0
        assert logs == {
            "learning_rate": 0.25,
            "val_nll": pytest.approx(nll, rel=1e-5),
            "val_accuracy": pytest.approx(accuracy, rel=1e-5),
            "val_bleu": bleu,
        }


def test_tables_and_summaries_count_epochs_from_one(tmp_path):
    model = make_model()
    logs = [EpochTable(tmp_path / "epochs.csv", append=True), EpochSummaries(tmp_path / "logs")]
    for epochs in (1, 3):  # The second time it resumes.
        x = np.ones([2, 1])
        model.fit(x, x, epochs=epochs, initial_epoch=epochs // 2, callbacks=logs, verbose=0)
    table = (tmp_path / "epochs.csv").read_text().split()
    assert [line.split(",")[0] for line in table] == ["epoch", "1", "2", "3"]
    steps = [
        event.step
        for path in sorted((tmp_path / "logs").glob("train/events*"))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        if any(value.tag == "epoch_loss" for value in event.summary.value)
    ]
    assert steps == [1, 2, 3]
