import keras
import numpy as np
import pytest

from keras_transformer.training import average_checkpoints


def make_model():
    """A model with a trainable kernel [2, 3], and statistics [3] that are not trainable."""
    inputs = keras.Input([2])
    x = keras.layers.Dense(3, use_bias=False, name="dense")(inputs)
    return keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(x))


@pytest.fixture
def save(tmp_path):
    """Save a model whose kernel has one value everywhere, and whose moving mean another."""

    def save(name, kernel, moving_mean=0.0):
        model = make_model()
        model.get_layer("dense").kernel.assign(np.full([2, 3], kernel))
        model.get_layer("norm").moving_mean.assign(np.full([3], moving_mean))
        path = tmp_path / f"{name}.weights.h5"
        model.save_weights(path)
        return path

    return save


def test_trained_weights_become_the_mean_and_others_those_of_the_last_checkpoint(save):
    paths = [save("a", 1.0, 10.0), save("b", 2.0, 20.0), save("c", 6.0, 70.0)]
    model = make_model()
    average_checkpoints(model, paths)
    assert model.get_layer("dense").kernel.numpy().tolist() == [[3.0] * 3] * 2
    assert model.get_layer("norm").moving_mean.numpy().tolist() == [70.0] * 3


def test_one_checkpoint_is_its_own_mean(save):
    model = make_model()
    average_checkpoints(model, [str(save("a", 0.1))])
    assert model.get_layer("dense").kernel.numpy().tolist() == [[np.float32(0.1)] * 3] * 2


def test_small_values_survive_between_large_ones(save):
    model = make_model()
    average_checkpoints(model, [save("a", 2.0**30), save("b", 3.0), save("c", -(2.0**30))])
    assert model.get_layer("dense").kernel.numpy().tolist() == [[1.0] * 3] * 2


def test_averaging_needs_a_checkpoint():
    with pytest.raises(ValueError, match="at least one checkpoint, received none"):
        average_checkpoints(make_model(), [])


def test_a_checkpoint_may_occur_once(save, tmp_path):
    path = save("a", 1.0)
    other_name = tmp_path / "linked.weights.h5"
    other_name.symlink_to(path)
    with pytest.raises(ValueError, match=r"may occur once, received twice: .*a\.weights\.h5"):
        average_checkpoints(make_model(), [path, other_name])


def test_a_checkpoint_of_another_model_is_named(save):
    path = save("a", 1.0)
    other = keras.Sequential([keras.Input([5]), keras.layers.Dense(7)])
    with pytest.raises(ValueError, match=r"a\.weights\.h5 must be a complete checkpoint of"):
        average_checkpoints(other, [path])


def test_values_that_are_not_finite_have_no_average(save):
    with pytest.raises(ValueError, match=r"a\.weights\.h5 must have finite"):
        average_checkpoints(make_model(), [save("b", 1.0), save("a", np.nan)])
