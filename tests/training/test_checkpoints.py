import keras
import numpy as np
import pytest

from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.utils.checkpoint_files import Position
from tests.helpers.damage import flip_a_bit


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
    for epoch, bleu in enumerate(bleus, start=first):
        model.layers[0].kernel.assign([[epoch]])
        checkpoints.save_epoch(model, epoch + 1, {"bleu": bleu})
    return model


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_last_epochs_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new", keep=2)
    assert (checkpoints.last(), checkpoints.best()) == ([], [])
    run_epochs(checkpoints, [10.0, 31.41592, 31.4, 9.5])
    assert names(tmp_path / "new") == [
        "best-0002-bleu-31.4159.weights.h5",
        "epoch-0003.weights.h5",
        "epoch-0004.weights.h5",
    ]
    model = make_model()
    for path, epoch in zip([*checkpoints.last(), *checkpoints.best()], (2, 3, 1), strict=True):
        model.load_weights(path)
        assert weight(model) == epoch


@pytest.mark.parametrize("has_links", [True, False])
def test_the_best_by_each_score_is_kept_in_one_file_for_each_epoch(
    tmp_path, has_links, monkeypatch
):
    if not has_links:

        def link(source, target):
            raise OSError("not supported")

        monkeypatch.setattr("os.link", link)
    checkpoints, model = Checkpoints(tmp_path, keep=1), make_model()
    scores = [(5.0, 3.0, 40.0), (6.0, 2.0, 41.0), (6.5, 2.0, 40.5), (6.2, 2.5, 42.0)]
    for epoch, values in enumerate(scores, start=1):
        model.layers[0].kernel.assign([[epoch]])
        named = dict(zip(("bleu", "nll", "chrf"), values, strict=True))
        checkpoints.save_epoch(model, epoch, named)
    assert names(tmp_path) == [
        "best-0002-nll-2.0000.weights.h5",
        "best-0003-bleu-6.5000.weights.h5",
        "best-0004-chrf-42.0000.weights.h5",
        "epoch-0004.weights.h5",
    ]
    files = {path.stat().st_ino for path in tmp_path.iterdir()}
    assert len(files) == (3 if has_links else 4)
    for metric, epoch in ((None, 3), ("nll", 2), ("chrf", 4)):
        model.load_weights(*checkpoints.best(metric))
        assert weight(model) == epoch
    assert checkpoints.missing(4, [5.0, 6.0, 6.5, 6.2], last=True) == []
    checkpoints.best()[0].unlink()
    (missing,) = checkpoints.missing(4, [5.0, 6.0, 6.5, 6.2], last=True)
    assert missing.name == "best-0003-*.weights.h5"


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


def test_a_checkpoint_that_cannot_be_written_replaces_none(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=1)
    model = run_epochs(checkpoints, [20.0])
    before = names(tmp_path)

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(model, "save_weights", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoints.save_epoch(model, 2, {"bleu": 30.0})
    assert names(tmp_path) == before
    assert Checkpoints(tmp_path, keep=1).position().epochs == 1


def test_restoring_gives_weights_optimizer_and_epoch(tmp_path):
    untrained = make_model()
    before = weight(untrained)
    Checkpoints(tmp_path, keep=1).restore(untrained)
    assert Checkpoints(tmp_path, keep=1).position().epochs == 0
    assert weight(untrained) == before
    checkpoints = Checkpoints(tmp_path, keep=2)
    model = make_model()
    x, y = np.array([[1.0], [2.0]]), np.array([[3.0], [1.0]])
    for epoch in range(3):
        model.train_on_batch(x, y)
        checkpoints.save_epoch(model, epoch + 1, {"bleu": 0.0})

    resumed = make_model()
    Checkpoints(tmp_path, keep=2).restore(resumed)
    assert Checkpoints(tmp_path, keep=2).position().epochs == 3
    assert int(resumed.optimizer.iterations) == 3
    for each in (model, resumed):
        each.train_on_batch(x, y)
    assert weight(resumed) == weight(model)


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
    assert checkpoints.position().epochs == 2
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
        f"{third} is damaged (its checksum differs): it is damaged-{third.name} now, and the steps "
        "after the checkpoint before it are repeated"
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


@pytest.mark.parametrize(
    "bleus, nlls, is_over",
    [
        ([5], [], False),
        ([5, 4], [], False),
        ([5, 4, 5], [], True),
        ([5, 4, 6, 5], [], False),
        ([5.00004] * 3, [], True),  # Only rounding tells them apart.
        # By NLL while BLEU is 0.
        ([0, 0, 0, 0], [5, 4, 3, 2], False),
        ([0, 0, 0, 1, 0], [5, 4, 3, 2, 1], False),
        ([0, 1, 0, 0], [5, 4, 3, 2], True),
        ([0, 0, 0], [5, 6, 7], True),
    ],
)
def test_patience_counts_the_epochs_since_the_best(tmp_path, bleus, nlls, is_over):
    checkpoints, model = Checkpoints(tmp_path, keep=1, patience=2), make_model()
    assert not checkpoints.out_of_patience()
    scores = [{"bleu": bleu} for bleu in bleus]
    for named, nll in zip(scores, nlls, strict=False):
        named["nll"] = nll
    for epoch, named in enumerate(scores, start=1):
        checkpoints.save_epoch(model, epoch, named)
    assert checkpoints.out_of_patience() is is_over
    assert Checkpoints(tmp_path, keep=1, patience=2).out_of_patience() is is_over
    assert not Checkpoints(tmp_path, keep=1).out_of_patience()


def save_steps(checkpoints, epoch, steps):
    """Save steps of an epoch, counted from 1; after each the weight is its number."""
    model = make_model()
    for step in steps:
        model.layers[0].kernel.assign([[step]])
        checkpoints.save_step(model, epoch, step, {})


def test_a_run_is_where_its_newest_checkpoint_is_and_keeps_two_of_steps(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    assert (checkpoints.newest(), checkpoints.position()) == (None, (0, 0))
    save_steps(checkpoints, epoch=1, steps=[9, 10, 11])
    assert names(tmp_path) == ["step-0001-000010.weights.h5", "step-0001-000011.weights.h5"]
    assert checkpoints.position() == Position(epochs=0, steps=11)
    assert str(checkpoints.position()) == "step 11 of epoch 1"
    resumed = make_model()
    checkpoints.restore(resumed)
    assert weight(resumed) == 11

    run_epochs(checkpoints, [20.0])
    assert str(checkpoints.position()) == "epoch 1"
    assert names(tmp_path) == ["best-0001-bleu-20.0000.weights.h5", "epoch-0001.weights.h5"]
    save_steps(checkpoints, epoch=2, steps=[5])
    assert checkpoints.position() == (1, 5)
    assert checkpoints.last() == [tmp_path / "epoch-0001.weights.h5"]


def test_a_damaged_step_costs_the_steps_since_the_checkpoint_before(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    run_epochs(checkpoints, [20.0])
    save_steps(checkpoints, epoch=2, steps=[5, 10])
    for position in ((1, 5), (1, 0)):
        flip_a_bit(checkpoints.newest())
        checkpoints.set_aside_damaged()
        assert checkpoints.position() == position


def test_steps_of_an_epoch_that_was_complete_are_no_longer_resumed_from(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    save_steps(checkpoints, epoch=1, steps=[5])
    stale = {path: path.read_bytes() for path in tmp_path.iterdir()}
    run_epochs(checkpoints, [20.0])
    for path, content in stale.items():  # Killed between the epoch's checkpoint and the removal.
        path.write_bytes(content)
    assert checkpoints.position() == (1, 0)
    run_epochs(checkpoints, [21.0], first=1)
    assert not set(stale) & set(tmp_path.iterdir())


def test_the_best_epochs_are_kept_in_order(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1, keep_best=3)
    run_epochs(checkpoints, [10.0, 12.0, 9.0, 11.0, 11.0, 8.0])
    assert [path.name[:-11] for path in checkpoints.best()] == [
        "best-0002-bleu-12.0000",
        "best-0004-bleu-11.0000",
        "best-0005-bleu-11.0000",
    ]
    run_epochs(checkpoints, [11.0, 13.0], first=6)
    assert [path.name[5:9] for path in checkpoints.best()] == ["0008", "0002", "0004"]
    assert [path.name[5:9] for path in Checkpoints(tmp_path, keep=1).best()] == ["0008"]


def test_an_epoch_that_is_trained_again_is_one_of_the_best_once(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1, keep_best=3)
    for bleu in (10.0, 10.0, 10.5, 9.5):  # As on a machine that doesn't repeat results exactly.
        run_epochs(checkpoints, [bleu])
        assert [path.name[5:-11] for path in checkpoints.best()] == [f"0001-bleu-{bleu:.4f}"]
