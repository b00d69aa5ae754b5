"""Attention weights as lines between tokens, as in Figures 3 to 5 of the paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.attention import check_weights
from keras_transformer.plots.style import COLORS, fit, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_WEIGHT = 0.01  # A line with a smaller weight would be invisible.
_PANELS_PER_ROW = 4


def attention_lines(
    weights: ArrayLike,
    key_tokens: Sequence[str],
    query_tokens: Sequence[str],
    caption: str = "",
) -> "Figure":
    """Return a figure with lines from each query on the left to its keys on the right.

    Each head has its own panel and color. The opacity of a line is its weight.

    Args:
        weights: Attention weights [H, T, S] of one sentence and layer, from 0 to 1, such as
            `SentenceAttention.cross[-1]`.
        key_tokens: The S tokens that are attended to.
        query_tokens: The T tokens that attend.
        caption: Text below the panels.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the shape of `weights` does not match the tokens.

    >>> figure = attention_lines([[[0.9, 0.1]]] * 3, ["▁two", "▁dogs"], ["▁zwei"])
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2', 'head 3']
    """
    weights = check_weights(weights, key_tokens, query_tokens, "[H, T, S]")
    length = max(weights.shape[1:])
    row = min(0.15, 25 / length)  # inches; at most 5,000 pixels high
    width, height, gap = 0.7, length * row, 0.25
    rows = -(-len(weights) // _PANELS_PER_ROW)
    with styled_figure(font_size=min(8, 52 * row)) as figure:
        pitch = None
        for head, head_weights in enumerate(weights):
            down, across = divmod(head, _PANELS_PER_ROW)
            axes = figure.add_axes((0, (rows - 1 - down) * (height + gap), width, height))
            _draw(axes, head_weights, COLORS[head % len(COLORS)])
            _label(axes, query_tokens, key_tokens, length)
            axes.set_title(f"head {head + 1}", fontsize=8)
            if pitch is None:  # All panels have the same labels.
                pitch = axes.get_tightbbox().width / figure.dpi + gap
            box = axes.get_position()
            axes.set_position((across * pitch, box.y0, box.width, box.height))
        fit(figure, caption)
    return figure


def _draw(axes: "Axes", weights: np.ndarray, color: str) -> None:
    """Draw the weights [T, S] of one head as lines."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    pairs = np.argwhere(weights >= _MIN_WEIGHT)
    lines = [((0, query), (1, key)) for query, key in pairs]
    colors = [to_rgba(color, min(1, float(weights[query, key]))) for query, key in pairs]
    axes.add_collection(LineCollection(lines, colors=colors, linewidths=1.5))


def _label(axes: "Axes", queries: Sequence[str], keys: Sequence[str], length: int) -> None:
    """Write the queries to the left and the keys to the right of the lines."""
    axes.set(xlim=(0, 1), ylim=(length - 0.5, -0.5), xticks=[])
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    for x, side, tokens in ((0, "right", queries), (1, "left", keys)):
        for place, token in enumerate(tokens):
            axes.annotate(
                token,
                (x, place),
                xytext=(3 if x else -3, 0),
                textcoords="offset points",
                horizontalalignment=side,
                verticalalignment="center_baseline",
                parse_math=False,  # A "$" does not start a formula.
            )
