import keras
import numpy as np
import pytest

from keras_transformer.training import average_checkpoints
from keras_transformer.training.averaging import MovingAverage, load_moving_average
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.utils.checkpoint_files import save_checkpoint
from tests.helpers.batch_norm_model import make_model


def test_trained_weights_become_the_mean_and_others_those_of_the_last_checkpoint(save):
    paths = [save("a", 1.0, 10.0), save("b", 2.0, 20.0), save("c", 6.0, 70.0)]
    model = make_model()
    average_checkpoints(model, paths)
    assert model.get_layer("dense").kernel.numpy().tolist() == [[3.0] * 3] * 2
    assert model.get_layer("norm").moving_mean.numpy().tolist() == [70.0] * 3


@pytest.mark.parametrize(
    ("values", "mean"), [([0.1], np.float32(0.1)), ([2.0**30, 3.0, -(2.0**30)], 1.0)]
)
def test_a_mean_is_exact(save, values, mean):
    model = make_model()
    average_checkpoints(model, [str(save(f"{i}", value)) for i, value in enumerate(values)])
    assert model.get_layer("dense").kernel.numpy().tolist() == [[mean] * 3] * 2


def test_averaging_needs_a_checkpoint():
    with pytest.raises(ValueError, match="at least one checkpoint, received an empty list"):
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


def test_checkpoints_of_different_configurations_are_refused(save, tmp_path):
    inputs, a = keras.Input([2]), str(save("a", 1.0))
    wide = keras.layers.Dense(5, use_bias=False, name="dense")(inputs)
    flat = keras.Model(inputs, keras.layers.Dense(3, use_bias=False, name="dense")(inputs))
    wide = keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(wide))
    shown = {}
    for name, other in (("wide", wide), ("flat", flat)):
        path = str(tmp_path / f"{name}.weights.h5")
        other.save_weights(path)
        with pytest.raises(ValueError, match="of one configuration to be averaged, ") as error:
            average_checkpoints(make_model(), [a, path])
        start = f"received {path} and {a}, which differ in "
        shown[name] = str(error.value).partition(start)[2]
    first = "layers/batch_normalization/vars/0"
    assert shown["wide"].startswith(f"{first} ([5] instead of [3]), ")
    assert shown["wide"].endswith(" and 2 more. Average checkpoints of one run.")
    assert shown["flat"].startswith(f"{first} (missing instead of [3]), ")


def test_the_moving_average_follows_the_weights_and_survives_a_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    model = make_model()
    model.compile("sgd", "mse")
    kernel = model.get_layer("dense").kernel
    kernel.assign(np.zeros([2, 3]))
    expected, values = 0.0, [1.0, 8.0, -4.0, 2.0]
    for step, value in enumerate(values, start=1):
        if step in (1, 3):  # At 3, another process goes on.
            average = MovingAverage(decay=0.3, checkpoints=checkpoints)
            average.set_model(model)
        average.on_epoch_begin(0)
        kernel.assign(np.full([2, 3], value))
        model.optimizer.iterations.assign(step)
        average.on_train_batch_end(step - 1)
        share = {1: 2 / 11, 2: 3 / 12}.get(step, 0.3)
        expected = share * expected + (1 - share) * value
        checkpoints.save_step(model, 1, step, average.arrays())
    other = make_model()
    load_moving_average(other, checkpoints.newest())
    np.testing.assert_allclose(other.get_layer("dense").kernel, expected, rtol=1e-6)


def test_a_checkpoint_without_a_moving_average_is_named(tmp_path):
    path = tmp_path / "a.weights.h5"
    save_checkpoint(make_model(), path)
    with pytest.raises(ValueError, match="a.weights.h5 must have a moving average of the weights"):
        load_moving_average(make_model(), path)
