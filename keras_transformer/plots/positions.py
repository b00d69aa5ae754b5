"""A picture of position encodings."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def position_map(encoding: ArrayLike, caption: str = "") -> "Figure":
    """Draw what is added at each position (Section 3.5): all dimensions, and three as curves.

    Args:
        encoding: float [T, D] of T positions, such as `SinusoidalPositionEncoding.encoding(100)`.
        caption: a title.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: the encoding has not two axes of at least 2 and 1.

    >>> from keras_transformer.layers.position import sinusoid
    >>> from keras import ops
    >>> figure = position_map(sinusoid(ops.arange(50, dtype="float32"), d_model=32))
    >>> [line.get_label() for line in figure.axes[1].get_lines()]
    ['dimension 0', 'dimension 8', 'dimension 16']
    """
    import matplotlib
    from matplotlib.figure import Figure

    encoding = np.asarray(encoding, dtype="float32")
    if encoding.ndim != 2 or encoding.shape[0] < 2 or encoding.shape[1] < 1:
        raise ValueError(
            "encoding must be [T, D] of at least 2 positions, received shape "
            f"{encoding.shape}. Take what a layer of positions returns from encoding(100)."
        )
    length, d_model = encoding.shape
    largest = np.abs(encoding).max()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8, 3.6), layout="constrained")
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
        for dimension, colour in zip(shown, COLOURS, strict=False):
            label = f"dimension {dimension}"
            below.plot(encoding[:, dimension], color=colour, lw=1, label=label)
        below.set(xlabel="position", ylabel="added")
        figure.legend(loc="outside lower center", ncols=len(shown))
    return figure
