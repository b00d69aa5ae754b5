import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer.utils.checkpoint_files import (
    damage,
    load_checkpoint,
    not_finite,
    save_checkpoint,
)
from tests.helpers.arrays import assert_same_weights
from tests.helpers.batch_norm_model import make_model
from tests.helpers.damage import flip_a_bit


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "epoch-0001.weights.h5"
    save_checkpoint(make_model(), path)
    return path


def test_a_checkpoint_holds_the_model_and_nothing_else_is_left(checkpoint):
    assert damage(checkpoint) is None
    saved, model = make_model(), make_model()
    saved.load_weights(checkpoint)  # As Keras reads it.
    load_checkpoint(model, checkpoint)
    assert_same_weights(model, saved)
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]


def test_a_flipped_bit_is_noticed_wherever_it_is(checkpoint):
    end_of_weights = checkpoint.stat().st_size - 73
    for place in (0, 999, end_of_weights // 2, end_of_weights - 1, -1):
        flip_a_bit(checkpoint, place)
        assert damage(checkpoint) == "its checksum differs"
        with pytest.raises(ValueError, match="0001.weights.h5 must be .*: its checksum differs. R"):
            load_checkpoint(make_model(), checkpoint)
        flip_a_bit(checkpoint, place)
        assert damage(checkpoint) is None


@pytest.mark.parametrize("length", [0, 10, 5000, -100])
def test_a_truncated_checkpoint_is_noticed(checkpoint, length):
    checkpoint.write_bytes(checkpoint.read_bytes()[:length])
    assert damage(checkpoint)


def test_a_checkpoint_of_version_0_1_has_no_checksum_and_loads(tmp_path):
    path = tmp_path / "a.weights.h5"
    make_model().save_weights(path)
    assert damage(path) is None
    load_checkpoint(make_model(), path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "truncated file" in damage(path)


@pytest.mark.parametrize("free", [0, 2**30])
def test_a_disk_without_space_is_noticed_on_macos(tmp_path, monkeypatch, free):
    monkeypatch.delattr("os.posix_fallocate")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    path = tmp_path / "epoch-0001.weights.h5"
    with contextlib.nullcontext() if free else pytest.raises(OSError, match="No space .*epoch-00"):
        save_checkpoint(make_model(), path)
    assert path.exists() == bool(free)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_checkpoint_with_values_that_are_not_finite_is_refused(tmp_path, value):
    path, model = tmp_path / "a.weights.h5", make_model()
    model.get_layer("dense").kernel.assign(np.full([2, 3], value))
    model.save_weights(path)
    with pytest.raises(ValueError, match=r"a\.weights\.h5 must have finite .* in dense/kernel\."):
        load_checkpoint(make_model(), path)


def test_integers_of_the_optimizer_are_finite():
    model = make_model()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    assert not_finite(model) is None


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.weights\.h5 does not exist"):
        load_checkpoint(make_model(), tmp_path / "none.weights.h5")
