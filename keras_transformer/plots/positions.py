"""Position encodings as a map and curves."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.style import COLORS, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def position_map(encoding: ArrayLike, caption: str = "") -> "Figure":
    """Return a map of the position encoding (Section 3.5), with three dimensions as curves.

    Args:
        encoding: Position encoding [T, D], such as `SinusoidalPositionEncoding.encoding(100)`.
        caption: Title of the figure.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If `encoding` is not [T, D] with T of at least 2 and D of at least 1, or has a
            value that is not finite.

    >>> from keras_transformer.layers.position import sinusoid
    >>> from keras import ops
    >>> figure = position_map(sinusoid(ops.arange(50, dtype="float32"), d_model=32))
    >>> [line.get_label() for line in figure.axes[1].get_lines()]
    ['dimension 0', 'dimension 8', 'dimension 16']
    """
    encoding = np.asarray(encoding, dtype="float32")
    if encoding.ndim != 2 or encoding.shape[0] < 2 or encoding.shape[1] < 1:
        raise ValueError(
            "encoding must be [T, D] with at least 2 positions, received shape "
            f"{encoding.shape}. Pass the result of a position layer's encoding(100)."
        )
    length, d_model = encoding.shape
    if not (is_finite := np.isfinite(encoding).all(axis=1)).all():
        raise ValueError(
            "encoding must have finite numbers only, received others at position "
            f"{is_finite.argmin()}. A LearnedPositionEncoding has max_length positions: ask it for "
            "no more."
        )
    largest = np.abs(encoding).max()
    with styled_figure((4.8, 3.6), layout="constrained") as figure:
        above, below = figure.subplots(2, sharex=True, height_ratios=(2, 1))
        edges = (-0.5, length - 0.5, d_model - 0.5, -0.5)
        image = above.imshow(
            encoding.T,
            extent=edges,
            aspect="auto",
            interpolation="nearest",
            cmap="RdBu_r",
            vmin=-largest,
            vmax=largest,
        )
        above.set(ylabel="dimension", title=caption)
        above.title.set_fontsize(8)
        ends = {"ticks": (-largest, 0, largest), "format": "{x:.2g}"}
        figure.colorbar(image, ax=above, label="added", pad=0.01, **ends)
        shown = list(dict.fromkeys((0, d_model // 4, d_model // 2)))
        for dimension, color in zip(shown, COLORS, strict=False):
            label = f"dimension {dimension}"
            below.plot(encoding[:, dimension], color=color, lw=1, label=label)
        below.set(xlabel="position", ylabel="added")
        figure.legend(loc="outside lower center", ncols=len(shown))
    return figure
