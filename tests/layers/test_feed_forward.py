import numpy as np
import pytest

from keras_transformer.layers import FeedForward
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks


def test_passes_the_layer_checks():
    run_layer_checks(
        FeedForward,
        {"d_model": 6, "d_ff": 11, "dropout": 0.3},
        {"inputs": np.random.normal(size=(2, 5, 6)).astype("float32")},
        num_weights=4,
        num_parameters=6 * 11 + 11 + 11 * 6 + 6,
    )


@pytest.mark.parametrize("leading_axes", [(7,), (2, 5), (1, 5), (2, 3, 4)])
def test_equals_equation_2(leading_axes):
    layer = FeedForward(d_model=6, d_ff=11)
    layer.build((None, None, 6))
    randomize(layer)
    w1, b1, w2, b2 = layer.get_weights()
    x = np.random.normal(size=(*leading_axes, 6)).astype("float32")
    expected = np.maximum(0, x @ w1 + b1) @ w2 + b2
    np.testing.assert_allclose(as_array(layer(x)), expected, atol=1e-5)


def test_dropout_is_between_the_two_products():
    layer = FeedForward(d_model=1, d_ff=1, dropout=0.5)
    layer.build((None, None, 1))
    layer.set_weights([np.array([[1.0]]), np.array([0.0]), np.array([[3.0]]), np.array([4.0])])
    # 1 * 3 + 4 where the inner 1 is dropped to 0 or doubled.
    assert set(as_array(layer(np.ones((1, 64, 1)), training=True)).ravel()) == {4.0, 10.0}


@pytest.mark.parametrize("argument", ["d_model", "d_ff"])
def test_sizes_below_one_are_refused(argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least 1, received -2"):
        FeedForward(**{"d_model": 4, "d_ff": 8, argument: -2})


def test_inputs_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"must be d_model=6, received .* shape \(2, 5, 7\)"):
        FeedForward(d_model=6, d_ff=11)(np.ones((2, 5, 7)))
