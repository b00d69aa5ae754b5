import keras
import numpy as np
import pytest

from keras_transformer.layers import Dropout
from tests.helpers.layer_checks import as_array, run_layer_checks, value_and_gradient

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
only_tensorflow = pytest.mark.skipif(not ON_TENSORFLOW, reason="other backends have Keras's")
SHAPE = (50, 7, 401)  # Not a multiple of the 4 bytes of a random number.


def mask(rate):
    """Return where `Dropout` keeps its inputs."""
    return as_array(Dropout(rate, seed=1)(np.ones(SHAPE, "float32"), training=True)) != 0


def test_passes_the_layer_checks():
    x = np.random.normal(size=(2, 5, 6)).astype("float32")
    run_layer_checks(Dropout, {"rate": 0.3}, {"inputs": x}, num_weights=0, num_parameters=0)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.3, 0.9])
def test_drops_at_its_rate(rate):
    # Within 4 standard deviations, and the half 256th that the rate is rounded by.
    kept = mask(rate)
    deviation = (rate * (1 - rate) / kept.size) ** 0.5
    assert 1 - kept.mean() == pytest.approx(rate, abs=4 * deviation + 1 / 512)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(dtype):
    outputs = as_array(Dropout(0.3, seed=1, dtype=dtype)(np.full(SHAPE, 2.0), training=True))
    dropped, kept = np.unique(outputs)
    # 77 of 256 are dropped with TensorFlow.
    assert dropped == 0
    assert kept == pytest.approx(2 * 256 / 179 if ON_TENSORFLOW else 2 / 0.7, rel=0.005)
    assert outputs.mean() == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(("rate", "share"), [(1e-6, 1 / 256), (0.999, 255 / 256)])
@only_tensorflow
def test_the_smallest_and_the_largest_rate_are_a_256th_from_the_ends(rate, share):
    assert 1 - mask(rate).mean() == pytest.approx(share, abs=0.001)


def test_neighbours_are_independent():
    # Those of one random number too, which are 1, 2 and 3 apart.
    kept = mask(0.5).ravel() - 0.5
    for distance in (1, 2, 3, 4, 401):
        assert abs(4 * (kept[distance:] * kept[:-distance]).mean()) < 4 / kept.size**0.5


def test_a_seed_gives_the_same_masks_one_after_the_other():
    one, other = (Dropout(0.5, seed=3) for _ in range(2))
    x = np.ones((3, 70), "float32")
    first, second = (as_array(one(x, training=True)) for _ in range(2))
    assert np.array_equal(as_array(other(x, training=True)), first)
    assert np.array_equal(as_array(other(x, training=True)), second)
    assert not np.array_equal(first, second)


def test_the_gradient_goes_through_what_was_kept():
    x = np.random.normal(size=(5, 41)).astype("float32")
    outputs = as_array(Dropout(0.5, seed=3)(x, training=True))
    layer = Dropout(0.5, seed=3)
    _, gradient = value_and_gradient(lambda x: keras.ops.sum(layer(x, training=True)), x)
    np.testing.assert_allclose(gradient, np.where(outputs == 0, 0.0, 2.0))


@pytest.mark.parametrize("shape", [(0, 3), (1,), (2, 3, 5)])
def test_any_shape_will_do(shape):
    assert as_array(Dropout(0.5)(np.ones(shape, "float32"), training=True)).shape == shape


@pytest.mark.parametrize("compiled", [False, True])
@only_tensorflow
def test_in_a_graph_of_unknown_shape_each_call_has_its_mask(compiled):
    import tensorflow as tf

    layer = Dropout(0.5)
    signature = [tf.TensorSpec([None, None, 5])]

    @tf.function(input_signature=signature, autograph=False, jit_compile=compiled)
    def drop(x):
        return layer(x, training=True)

    one, other = (drop(tf.ones([30, 7, 5])).numpy() for _ in range(2))
    assert set(np.unique(one)) == {0.0, 2.0}
    assert 0.4 < (one == 0).mean() < 0.6
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=f"rate must be at least 0 and below 1, received {rate}"):
        Dropout(rate)
