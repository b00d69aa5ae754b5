import numpy as np
import pytest

from keras_transformer.layers.residual import Residual
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks


def normalized(x, scale, shift):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-6) * scale + shift


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_passes_the_layer_checks(norm):
    run_layer_checks(
        Residual,
        {"dropout": 0.3, "norm": norm},
        {
            name: np.random.normal(size=(2, 5, 6)).astype("float32")
            for name in ("inputs", "outputs")
        },
        num_weights=2,
        num_parameters=6 + 6,
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_normalizes_after_the_sum_or_before_the_sub_layer(norm):
    residual = Residual(norm=norm)
    residual.build((None, None, 6))
    randomize(residual)
    scale, shift = residual.get_weights()
    x = np.random.normal(size=(2, 5, 6)).astype("float32")
    received = as_array(residual(x, as_array(residual.prepare(x)) ** 2))
    if norm == "post":
        expected = normalized(x + x**2, scale, shift)
    else:
        expected = x + normalized(x, scale, shift) ** 2
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_dropout_spares_the_residual_connection():
    residual = Residual(dropout=0.5, norm="pre")
    x, outputs = np.full((1, 64, 2), 7.0), np.ones((1, 64, 2))
    assert set(as_array(residual(x, outputs, training=True)).ravel()) == {7.0, 9.0}


def test_another_norm_is_refused():
    with pytest.raises(ValueError, match="norm must be 'post' or 'pre', received 'middle'"):
        Residual(norm="middle")
