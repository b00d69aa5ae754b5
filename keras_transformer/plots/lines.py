"""Attention as lines between words, as in Figures 3 to 5 of the paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.plots.attention import check_weights
from keras_transformer.plots.style import COLOURS, STYLE, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FAINTEST = 0.01  # A weight below this would be no visible line.
_IN_A_ROW = 4


def attention_lines(
    weights: ArrayLike,
    key_tokens: Sequence[str],
    query_tokens: Sequence[str],
    caption: str = "",
) -> "Figure":
    """Draw the heads of a layer as lines from each query on the left to its keys on the right.

    A head has a colour and a panel of its own, and a line is as opaque as its weight is large.

    Args:
        weights: attention weights [H, T, S] of one sentence and layer, 0 to 1, such as
            `SentenceAttention.cross[-1]`.
        key_tokens: S subwords.
        query_tokens: T subwords.
        caption: a line below.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: the sizes do not fit.

    >>> figure = attention_lines([[[0.9, 0.1]]] * 3, ["▁two", "▁dogs"], ["▁zwei"])
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2', 'head 3']
    """
    import matplotlib
    from matplotlib.figure import Figure

    weights = check_weights(weights, key_tokens, query_tokens, "[H, T, S]")
    length = max(weights.shape[1:])
    row = min(0.15, 25 / length)  # inches; at most 5,000 pixels high
    width, height, gap = 0.7, length * row, 0.25
    rows = -(-len(weights) // _IN_A_ROW)
    with matplotlib.rc_context(STYLE | {"font.size": min(8, 52 * row)}):
        # An inch is the figure's width and height, until it is fitted.
        figure = Figure(figsize=(1, 1))
        pitch = None
        for head, of_head in enumerate(weights):
            down, across = divmod(head, _IN_A_ROW)
            axes = figure.add_axes((0, (rows - 1 - down) * (height + gap), width, height))
            _draw(axes, of_head, COLOURS[head % len(COLOURS)])
            _label(axes, query_tokens, key_tokens, length)
            axes.set_title(f"head {head + 1}", fontsize=8)
            if pitch is None:  # All panels have the same words.
                pitch = axes.get_tightbbox().width / figure.dpi + gap
            box = axes.get_position()
            axes.set_position((across * pitch, box.y0, box.width, box.height))
        fit(figure, caption)
    return figure


def _draw(axes: "Axes", weights: np.ndarray, colour: str) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    pairs = np.argwhere(weights >= _FAINTEST)
    lines = [((0, query), (1, key)) for query, key in pairs]
    colours = [to_rgba(colour, min(1, float(weights[query, key]))) for query, key in pairs]
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.5))


def _label(axes: "Axes", queries: Sequence[str], keys: Sequence[str], length: int) -> None:
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
                parse_math=False,  # A "$" in a token starts no formula.
            )
