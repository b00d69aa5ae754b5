import numpy as np
import pytest

from keras_transformer.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_transformer.plots.positions import position_map


def test_the_map_has_all_dimensions_and_the_curves_three():
    layer = SinusoidalPositionEncoding()
    layer.build((1, 7, 12))
    encoding = np.asarray(layer.encoding(7))
    above, below, _ = position_map(encoding, "Positions").axes
    (image,) = above.images
    assert np.array_equal(image.get_array(), encoding.T)
    assert image.get_clim() == (-1, 1)
    assert image.get_extent() == [-0.5, 6.5, 11.5, -0.5]  # Cells are centered on their numbers.
    assert above.get_title() == "Positions"
    for line, dimension in zip(below.get_lines(), (0, 3, 6), strict=True):
        assert line.get_label() == f"dimension {dimension}"
        assert np.array_equal(line.get_ydata(), encoding[:, dimension])
    assert (below.get_xlabel(), above.get_ylabel()) == ("position", "dimension")


@pytest.mark.parametrize("shape", [(12,), (1, 12), (1, 7, 12), (7, 0)])
def test_another_shape_is_an_error(shape):
    with pytest.raises(ValueError, match=r"must be \[T, D\] with at least 2 pos.*received shape"):
        position_map(np.zeros(shape))


def test_positions_that_a_layer_does_not_have_are_an_error():
    layer = LearnedPositionEncoding(max_length=5)
    layer.build((1, 5, 4))
    position_map(np.asarray(layer.encoding(5)))
    with pytest.raises(ValueError, match=r"finite numbers only, .* at position 5\..*max_length"):
        position_map(np.asarray(layer.encoding(7)))
