"""Pictures of attention weights: one head as a map, all heads of all layers as a grid of maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.style import STYLE, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWN_CELLS = 10_000  # A cell takes 250 bytes of an SVG: maps with more of them become images.


def attention_map(
    weights: ArrayLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> "Figure":
    """Draw where each target token attends to in the source (Section 3.2).

    Target tokens go down, source tokens across; the mark "▁" of a word's start is shown as it is.
    The picture grows with the number of tokens. For scripts that the font of matplotlib lacks, set
    another in `matplotlib.rcParams["font.family"]`.

    Args:
        weights: attention weights [T, S] of one sentence and head, or a mean over heads, 0 to 1.
        source_tokens: S subwords.
        target_tokens: T subwords.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: the sizes do not fit.

    >>> figure = attention_map([[0.9, 0.1]], ["▁two", "▁dogs"], ["▁zwei"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['▁two', '▁dogs']
    """
    import matplotlib
    from matplotlib.figure import Figure

    weights = check_weights(weights, source_tokens, target_tokens, "[T, S]")
    height, width = weights.shape
    cell = min(0.2, 25 / max(height, width))  # inches; at most 5,000 pixels a side
    with matplotlib.rc_context(STYLE | {"font.size": min(8, 40 * cell)}):
        figure = Figure(figsize=(width * cell, height * cell))
        axes = figure.add_axes((0, 0, 1, 1))
        _draw(axes, weights)
        axes.set(xlabel="source", ylabel="target")
        _label(axes.xaxis, source_tokens)
        _label(axes.yaxis, target_tokens)
        _add_colour_bar(figure)
        fit(figure)
    return figure


def attention_grid(
    weights: ArrayLike,
    key_tokens: Sequence[str],
    query_tokens: Sequence[str],
    caption: str = "",
) -> "Figure":
    """Draw the attention of every head of every layer, a row of maps for each layer.

    Queries go down and keys across, as in `attention_map`.

    Args:
        weights: attention weights [layers, H, T, S] of one sentence, 0 to 1, such as
            `SentenceAttention.cross`.
        key_tokens: S subwords.
        query_tokens: T subwords.
        caption: a line below.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: the sizes do not fit.

    >>> figure = attention_grid([[[[0.9, 0.1]]] * 3] * 2, ["▁two", "▁dogs"], ["▁zwei"])
    >>> [axes.get_title() for axes in figure.axes[:6]]
    ['head 1', 'head 2', 'head 3', '', '', '']
    """
    import matplotlib
    from matplotlib.figure import Figure

    weights = check_weights(weights, key_tokens, query_tokens, "[layers, H, T, S]")
    layers, heads, height, width = weights.shape
    cell = min(0.13, 25 / max(heads * width, layers * height))  # at most 5,000 pixels a side
    size = np.array([width, height]) * cell
    pitch = np.maximum(size + 0.1, 0.5)  # At least as long as a heading.
    with matplotlib.rc_context(STYLE | {"font.size": min(7, 52 * cell)}):
        # From here on an inch is the figure's width and height, until it is fitted.
        figure = Figure(figsize=(1, 1))
        for layer, head in np.ndindex(layers, heads):
            corner = (head, layers - 1 - layer) * pitch
            axes = figure.add_axes((*corner, *size))
            _draw(axes, weights[layer, head], rasterized=weights.size > _DRAWN_CELLS)
            _label(axes.xaxis, key_tokens if layer == 0 else None)
            _label(axes.yaxis, query_tokens if head == 0 else None)
            if layer == 0:
                axes.set_title(f"head {head + 1}", fontsize=8)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
        _add_colour_bar(figure)
        fit(figure, caption)
    return figure


def check_weights(weights, key_tokens, query_tokens, axes: str) -> np.ndarray:
    """Return weights as an array, or raise a ValueError where they do not fit the tokens."""
    weights = np.asarray(weights, dtype="float32")
    sizes = len(query_tokens), len(key_tokens)
    if weights.ndim != axes.count(",") + 1 or weights.shape[-2:] != sizes or weights.size == 0:
        raise ValueError(
            f"weights must be {axes} for T tokens that attend to S, at least one of each, received "
            f"shape {weights.shape} for {sizes[0]} tokens and {sizes[1]}. Take one sentence, "
            "without padding, and of layers and heads what these axes have."
        )
    return weights


def _draw(axes: "Axes", weights: np.ndarray, rasterized: bool = False) -> None:
    axes.pcolormesh(
        weights, vmin=0, vmax=1, cmap="Blues", edgecolors="0.9", lw=0.4, rasterized=rasterized
    )
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, labelsize="medium")


def _label(axis, tokens: Sequence[str] | None) -> None:
    if tokens is None:
        axis.set_ticks([])
        return
    # A "$" in a token starts no formula.
    axis.set_ticks(np.arange(len(tokens)) + 0.5, tokens, parse_math=False)
    if axis.axis_name == "x":
        for label in axis.get_ticklabels():
            label.set(rotation=55, rotation_mode="anchor", horizontalalignment="left")


def _add_colour_bar(figure: "Figure") -> None:
    """Add the scale of all maps, beside the uppermost of the last column."""
    edges = [axes.get_position() for axes in figure.axes]
    right, top, height = max(e.x1 for e in edges), max(e.y1 for e in edges), edges[0].height
    inches = figure.get_size_inches()
    gap, length = 0.1 / inches[0], max(height, 1 / inches[1])  # at least an inch long
    bar = figure.add_axes((right + gap, top - length, gap, length))
    mesh = figure.axes[0].collections[0]
    figure.colorbar(mesh, cax=bar, label="attention weight", ticks=(0, 0.5, 1))
