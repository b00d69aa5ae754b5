"""The attention weights of a model for a sentence, as maps and as lines between tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from keras_transformer.config import EOS_ID
from keras_transformer.plots.style import COLORS, drawable, fit, styled_figure
from keras_transformer.translation.teacher_forcing import decoder_inputs
from keras_transformer.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_MAX_VECTOR_CELLS = 10_000  # A cell takes 250 bytes of an SVG; larger maps become images.
_MIN_WEIGHT = 0.01  # A line with a smaller weight would be invisible.
_PANELS_PER_ROW = 4


class SentenceAttention(NamedTuple):
    """Attention weights of a sentence and its translation, with their tokens."""

    source: list[str]
    """The S tokens of the sentence, eos included."""
    read: list[str]
    """The T input tokens of the decoder: bos, and the translation without its last token."""
    written: list[str]
    """The T tokens of the translation, eos included. Token i is predicted from `read[: i + 1]`."""
    encoder: np.ndarray
    """Self-attention of `source`, float32 [layers, H, S, S]."""
    decoder: np.ndarray
    """Self-attention of `read`, float32 [layers, H, T, T]."""
    cross: np.ndarray
    """Attention of `written` to `source`, float32 [layers, H, T, S]."""


def sentence_attention(
    translator: Translator, sentence: str, translation: str | None = None
) -> SentenceAttention:
    """Return the attention weights of all heads for a sentence and its translation (Figs. 3-5).

    Args:
        translator: Translator with a trained model.
        sentence: The sentence.
        translation: Its translation; by default the one that the translator finds.

    Returns:
        The tokens and weights, as `SentenceAttention`.

    Raises:
        ValueError: If the sentence is empty.

    Example:

    ```python
    found = sentence_attention(translator, "A dog runs.")
    figure = attention_grid(found.cross, found.source, found.written)
    ```
    """
    text = tf.constant([sentence])
    source, lengths = translator.encode_text(text)
    if lengths[0] == 1:
        raise ValueError(
            f"sentence must have at least one word to attend to, received {sentence!r}. Give some "
            "text."
        )
    if translation is None:
        num_words = translator.count_words(text, lengths)
        found = translator.search(source, lengths, num_words=num_words)
        written = found.ids[:, 0, : found.lengths[0, 0]]
    else:
        ids = translator.target_tokenizer.tokenize([translation]).to_tensor()
        written = tf.pad(ids, [[0, 0], [0, 1]], constant_values=EOS_ID)
    read = decoder_inputs(written)
    weights = translator.model.attention_weights({"source": source, "target": read})
    return SentenceAttention(
        translator.tokenizer.id_to_piece(source[0].numpy()),
        translator.target_tokenizer.id_to_piece(read[0].numpy()),
        translator.target_tokenizer.id_to_piece(written[0].numpy()),
        **{name: array[0].numpy() for name, array in weights.items()},
    )


def attention_map(
    weights: ArrayLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> "Figure":
    """Return a map of the attention from each target token to the source tokens (Section 3.2).

    Target tokens are rows and source tokens are columns; the word mark "▁" is shown as it is. The
    colors range from 0 to the largest weight. The size of the figure grows with the number of
    tokens. For a script that matplotlib's default font does not cover, choose another font in
    `matplotlib.rcParams["font.family"]`.

    Args:
        weights: Attention weights [T, S] of one sentence, from 0 to 1: of one head, or a mean
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
    weights = _checked(weights, source_tokens, target_tokens, "[T, S]")
    height, width = weights.shape
    cell = min(0.2, 25 / max(height, width))  # inches; at most 5,000 pixels a side
    with styled_figure((width * cell, height * cell), min(8, 40 * cell)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        _draw_map(axes, weights, _highest(weights))
        axes.set(xlabel="source", ylabel="target")
        _label_map(axes.xaxis, source_tokens)
        _label_map(axes.yaxis, target_tokens)
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
    weights = _checked(weights, key_tokens, query_tokens, "[layers, H, T, S]")
    layers, heads, height, width = weights.shape
    highest = _highest(weights)
    cell = min(0.13, 25 / max(heads * width, layers * height))  # at most 5,000 pixels a side
    size = np.array([width, height]) * cell
    pitch = np.maximum(size + 0.1, 0.5)  # at least as long as a heading
    with styled_figure(font_size=min(7, 52 * cell)) as figure:
        for layer, head in np.ndindex(layers, heads):
            corner = (head, layers - 1 - layer) * pitch
            axes = figure.add_axes((*corner, *size))
            _draw_map(axes, weights[layer, head], highest, weights.size > _MAX_VECTOR_CELLS)
            _label_map(axes.xaxis, key_tokens if layer == 0 else None)
            _label_map(axes.yaxis, query_tokens if head == 0 else None)
            if layer == 0:
                axes.set_title(f"head {head + 1}", fontsize=8)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
        _add_color_bar(figure)
        fit(figure, caption)
    return figure


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
    weights = _checked(weights, key_tokens, query_tokens, "[H, T, S]")
    length = max(weights.shape[1:])
    row = min(0.15, 25 / length)  # inches; at most 5,000 pixels high
    width, height, gap = 0.7, length * row, 0.25
    rows = -(-len(weights) // _PANELS_PER_ROW)
    with styled_figure(font_size=min(8, 52 * row)) as figure:
        pitch = None
        for head, head_weights in enumerate(weights):
            down, across = divmod(head, _PANELS_PER_ROW)
            axes = figure.add_axes((0, (rows - 1 - down) * (height + gap), width, height))
            _draw_lines(axes, head_weights, COLORS[head % len(COLORS)])
            _label_lines(axes, query_tokens, key_tokens, length)
            axes.set_title(f"head {head + 1}", fontsize=8)
            if pitch is None:  # All panels have the same labels.
                pitch = axes.get_tightbbox().width / figure.dpi + gap
            box = axes.get_position()
            axes.set_position((across * pitch, box.y0, box.width, box.height))
        fit(figure, caption)
    return figure


def _checked(
    weights: ArrayLike, key_tokens: Sequence[str], query_tokens: Sequence[str], axes: str
) -> np.ndarray:
    """Return the weights in float32, or raise a ValueError for other axes or numbers of tokens."""
    weights = np.asarray(weights, dtype="float32")
    sizes = len(query_tokens), len(key_tokens)
    if weights.ndim != axes.count(",") + 1 or weights.shape[-2:] != sizes or weights.size == 0:
        raise ValueError(
            f"weights must be {axes} for T query tokens and S key tokens, at least one each, "
            f"received shape {weights.shape} for {sizes[0]} query and {sizes[1]} key tokens. Pass "
            "the weights of one sentence without padding, and select layers and heads by index."
        )
    return weights


def _highest(weights: np.ndarray) -> float:
    """Return the end of the color scale: a mean over heads, or a long text, has small weights."""
    return float(weights.max()) or 1.0


def _draw_map(axes: "Axes", weights: np.ndarray, highest: float, rasterized: bool = False) -> None:
    """Draw the weights [T, S] as cells, the first query at the top, the darkest for `highest`."""
    axes.pcolormesh(
        weights, vmin=0, vmax=highest, cmap="Blues", edgecolors="0.9", lw=0.4, rasterized=rasterized
    )
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, labelsize="medium")


def _label_map(axis: "Axis", tokens: Sequence[str] | None) -> None:
    """Label an axis of a map with tokens, or leave it without ticks."""
    if tokens is None:
        axis.set_ticks([])
        return
    # A "$" in a token does not start a formula.
    labels = [drawable(token) for token in tokens]
    axis.set_ticks(np.arange(len(tokens)) + 0.5, labels, parse_math=False)
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
    ticks, label = np.linspace(0, mesh.get_clim()[1], 3), "attention weight"
    figure.colorbar(mesh, cax=bar, label=label, ticks=ticks, format="%.2g")


def _draw_lines(axes: "Axes", weights: np.ndarray, color: str) -> None:
    """Draw the weights [T, S] of one head as lines."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    pairs = np.argwhere(weights >= _MIN_WEIGHT)
    lines = [((0, query), (1, key)) for query, key in pairs]
    colors = [to_rgba(color, min(1, float(weights[query, key]))) for query, key in pairs]
    axes.add_collection(LineCollection(lines, colors=colors, linewidths=1.5))


def _label_lines(axes: "Axes", queries: Sequence[str], keys: Sequence[str], length: int) -> None:
    """Write the queries to the left and the keys to the right of the lines."""
    axes.set(xlim=(0, 1), ylim=(length - 0.5, -0.5), xticks=[])
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    for x, side, tokens in ((0, "right", queries), (1, "left", keys)):
        for place, token in enumerate(tokens):
            axes.annotate(
                drawable(token),
                (x, place),
                xytext=(3 if x else -3, 0),
                textcoords="offset points",
                horizontalalignment=side,
                verticalalignment="center_baseline",
                parse_math=False,  # A "$" does not start a formula.
            )
