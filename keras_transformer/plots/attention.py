"""Attention weights as maps: one head, or a grid of all heads of all layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.style import fit, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_MAX_VECTOR_CELLS = 10_000  # A cell takes 250 bytes of an SVG; larger maps become images.


def attention_map(
    weights: ArrayLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> "Figure":
    """Return a map of the attention from each target token to the source tokens (Section 3.2).

    Target tokens are rows and source tokens are columns; the word mark "▁" is shown as it is. The
    size of the figure grows with the number of tokens. For a script that matplotlib's default font
    does not cover, choose another font in `matplotlib.rcParams["font.family"]`.

    Args:
        weights: Attention weights [T, S] of one sentence, from 0 to 1: those of one head, or a mean
            over heads.
        source_tokens: The S source tokens.
        target_tokens: The T target tokens.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the shape of `weights` does not match the tokens.

    >>> figure = attention_map([[0.9, 0.1]], ["▁two", "▁dogs"], ["▁zwei"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['▁two', '▁dogs']
    """
    weights = check_weights(weights, source_tokens, target_tokens, "[T, S]")
    height, width = weights.shape
    cell = min(0.2, 25 / max(height, width))  # inches; at most 5,000 pixels a side
    with styled_figure((width * cell, height * cell), min(8, 40 * cell)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        _draw(axes, weights)
        axes.set(xlabel="source", ylabel="target")
        _label(axes.xaxis, source_tokens)
        _label(axes.yaxis, target_tokens)
        _add_color_bar(figure)
        fit(figure)
    return figure


def attention_grid(
    weights: ArrayLike,
    key_tokens: Sequence[str],
    query_tokens: Sequence[str],
    caption: str = "",
) -> "Figure":
    """Return a grid of attention maps, with a row for each layer and a column for each head.

    Each map has queries as rows and keys as columns, as in `attention_map`.

    Args:
        weights: Attention weights [layers, H, T, S] of one sentence, from 0 to 1, such as
            `SentenceAttention.cross`.
        key_tokens: The S tokens that are attended to.
        query_tokens: The T tokens that attend.
        caption: Text below the grid.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the shape of `weights` does not match the tokens.

    >>> figure = attention_grid([[[[0.9, 0.1]]] * 3] * 2, ["▁two", "▁dogs"], ["▁zwei"])
    >>> [axes.get_title() for axes in figure.axes[:6]]
    ['head 1', 'head 2', 'head 3', '', '', '']
    """
    weights = check_weights(weights, key_tokens, query_tokens, "[layers, H, T, S]")
    layers, heads, height, width = weights.shape
    cell = min(0.13, 25 / max(heads * width, layers * height))  # at most 5,000 pixels a side
    size = np.array([width, height]) * cell
    pitch = np.maximum(size + 0.1, 0.5)  # at least as long as a heading
    with styled_figure(font_size=min(7, 52 * cell)) as figure:
        for layer, head in np.ndindex(layers, heads):
            corner = (head, layers - 1 - layer) * pitch
            axes = figure.add_axes((*corner, *size))
            _draw(axes, weights[layer, head], rasterized=weights.size > _MAX_VECTOR_CELLS)
            _label(axes.xaxis, key_tokens if layer == 0 else None)
            _label(axes.yaxis, query_tokens if head == 0 else None)
            if layer == 0:
                axes.set_title(f"head {head + 1}", fontsize=8)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
        _add_color_bar(figure)
        fit(figure, caption)
    return figure


def check_weights(
    weights: ArrayLike, key_tokens: Sequence[str], query_tokens: Sequence[str], axes: str
) -> np.ndarray:
    """Return the weights as a float32 array.

    Args:
        weights: Attention weights with the axes `axes`.
        key_tokens: The S tokens that are attended to.
        query_tokens: The T tokens that attend.
        axes: The expected axes, such as "[H, T, S]".

    Raises:
        ValueError: If the weights have other axes, or do not match the tokens.
    """
    weights = np.asarray(weights, dtype="float32")
    sizes = len(query_tokens), len(key_tokens)
    if weights.ndim != axes.count(",") + 1 or weights.shape[-2:] != sizes or weights.size == 0:
        raise ValueError(
            f"weights must be {axes} for T query tokens and S key tokens, at least one each, "
            f"received shape {weights.shape} for {sizes[0]} query and {sizes[1]} key tokens. Pass "
            "the weights of one sentence without padding, and select layers and heads by index."
        )
    return weights


def _draw(axes: "Axes", weights: np.ndarray, rasterized: bool = False) -> None:
    """Draw the weights [T, S] as cells, the first query at the top."""
    axes.pcolormesh(
        weights, vmin=0, vmax=1, cmap="Blues", edgecolors="0.9", lw=0.4, rasterized=rasterized
    )
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, labelsize="medium")


def _label(axis: "Axis", tokens: Sequence[str] | None) -> None:
    """Label an axis of a map with tokens, or leave it without ticks."""
    if tokens is None:
        axis.set_ticks([])
        return
    # A "$" in a token does not start a formula.
    axis.set_ticks(np.arange(len(tokens)) + 0.5, tokens, parse_math=False)
    if axis.axis_name == "x":
        for label in axis.get_ticklabels():
            label.set(rotation=55, rotation_mode="anchor", horizontalalignment="left")


def _add_color_bar(figure: "Figure") -> None:
    """Add a color bar for all maps, to the right of the first row."""
    edges = [axes.get_position() for axes in figure.axes]
    right, top, height = max(e.x1 for e in edges), max(e.y1 for e in edges), edges[0].height
    inches = figure.get_size_inches()
    gap, length = 0.1 / inches[0], max(height, 1 / inches[1])  # at least an inch long
    bar = figure.add_axes((right + gap, top - length, gap, length))
    mesh = figure.axes[0].collections[0]
    figure.colorbar(mesh, cax=bar, label="attention weight", ticks=(0, 0.5, 1))
