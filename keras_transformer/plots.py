"""Pictures of a training and of attention, for a paper or a screen."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = {
    "axes.formatter.use_mathtext": True,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "xtick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.6,
}
_BLUE, _RED, _GREY = "#0072b2", "#d55e00", "0.4"  # colour-blind readers tell these apart
_CURVES = {  # key: its panel's unit, its name there, its colour
    "loss": ("nats per token", "training loss", _BLUE),
    "val_nll": ("nats per token", "validation NLL", _RED),
    "val_bleu": ("sacreBLEU", "validation", _RED),
    "learning_rate": ("learning rate", "at the epoch's end", _GREY),
}


def training_curves(history: Mapping[str, Sequence[float]], path: str | os.PathLike) -> "Figure":
    """Draw how a training went, epoch by epoch.

    A panel has the training loss and the negative log-likelihood of the validation text, another
    its BLEU with the best epoch marked, another the learning rate. What `history` lacks is left
    out, other keys of it are ignored.

    Args:
        history: a value for each epoch under any of `loss` and `val_nll` (nats per token),
            `val_bleu` (0 to 100) and `learning_rate`, such as `model.fit(...).history`.
        path: the file, .png, .svg or .pdf.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: there is nothing to draw, the lists differ in length, or the file has another
            suffix.

    >>> import tempfile
    >>> history = {"loss": [5.1, 3.2, 2.4], "val_nll": [4.0, 2.7, 2.2], "val_bleu": [3.1, 18, 26.5]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     figure = training_curves(history, Path(folder) / "curves.png")
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['nats per token', 'sacreBLEU']
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    curves = {key: history[key] for key in _CURVES if key in history}
    lengths = {key: len(values) for key, values in curves.items()}
    if not any(lengths.values()):
        raise ValueError(
            f"training_curves needs an epoch of at least one of {', '.join(_CURVES)}, received "
            f"{', '.join(history) or 'nothing'}. Train for at least one epoch."
        )
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"training_curves needs one value for each epoch, received {lengths} values. "
            "Leave out the values of an unfinished epoch."
        )
    epochs = range(1, 1 + max(lengths.values()))
    units = list(dict.fromkeys(_CURVES[key][0] for key in curves))
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(2.4 * len(units), 1.9), layout="constrained")
        panels = dict(zip(units, figure.subplots(1, len(units), squeeze=False)[0], strict=True))
        for key, values in curves.items():
            unit, name, colour = _CURVES[key]
            axes = panels[unit]
            axes.plot(epochs, values, color=colour, marker=".", markersize=4, label=name)
            if key == "val_bleu":
                best = int(np.argmax(values))
                label = f"best: {values[best]:.1f}, epoch {epochs[best]}"
                axes.plot(epochs[best], values[best], "o", color=colour, mfc="none", label=label)
            axes.set(xlabel="epoch", ylabel=unit)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
            axes.ticklabel_format(axis="y", scilimits=(-2, 4))
            axes.legend()
        _save(figure, path)
    return figure


def attention_map(
    weights: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | os.PathLike,
) -> "Figure":
    """Draw where each target token attends to in the source (Section 3.2), as the paper's Figure 3.

    Target tokens go down, source tokens across; SentencePiece's word mark "▁" is shown as it is.
    The picture grows with the number of tokens. For scripts that the font of matplotlib lacks, set
    another in `matplotlib.rcParams["font.family"]`.

    Args:
        weights: attention weights [T, S] of one sentence and head, or a mean over heads, 0 to 1.
        source_tokens: S subwords.
        target_tokens: T subwords.
        path: the file, .png, .svg or .pdf.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: the sizes do not fit, or the file has another suffix.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "map.png"
    ...     figure = attention_map([[0.9, 0.1]], ["▁two", "▁dogs"], ["▁zwei"], path)
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['▁two', '▁dogs']
    """
    import matplotlib
    from matplotlib.figure import Figure

    weights = np.asarray(weights, dtype="float32")
    height, width = len(target_tokens), len(source_tokens)
    if weights.shape != (height, width) or weights.size == 0:
        raise ValueError(
            "attention_map needs weights [T, S] for T target and S source tokens, at least one of "
            f"each, received shape {weights.shape} for {height} target and {width} source tokens. "
            "Take one sentence and one head, without padding."
        )
    cell = min(0.2, 25 / max(height, width))  # inches; at most 5,000 pixels a side
    with matplotlib.rc_context(_STYLE | {"font.size": min(8, 40 * cell)}):
        figure = Figure(figsize=(width * cell, height * cell))
        axes = figure.add_axes((0, 0, 1, 1))
        mesh = axes.pcolormesh(weights, vmin=0, vmax=1, cmap="Blues", edgecolors="0.9", lw=0.4)
        axes.spines[:].set_visible(False)
        axes.invert_yaxis()
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0, labelsize="medium")
        axes.set(xlabel="source", ylabel="target")
        # A "$" in a token starts no formula.
        axes.set_xticks(np.arange(width) + 0.5, source_tokens, parse_math=False)
        axes.set_yticks(np.arange(height) + 0.5, target_tokens, parse_math=False)
        for label in axes.get_xticklabels():
            label.set(rotation=55, rotation_mode="anchor", horizontalalignment="left")
        gap, length = 0.1 / (width * cell), max(1, 1 / (height * cell))  # at least an inch long
        bar = figure.add_axes((1 + gap, 1 - length, gap, length))
        figure.colorbar(mesh, cax=bar, label="attention weight", ticks=(0, 0.5, 1))
        _fit(figure)
        _save(figure, path)
    return figure


def _fit(figure: "Figure") -> None:
    """Make the figure as large as its axes and their labels are; the axes keep their sizes."""
    contents, margin = figure.get_tightbbox(), 0.05  # inches
    old, new = figure.get_size_inches(), contents.size + 2 * margin
    figure.set_size_inches(new)
    for axes in figure.axes:
        box = axes.get_position()
        corner = box.min * old - contents.min + margin
        axes.set_position((*(corner / new), *(box.size * old / new)))


def _save(figure: "Figure", path: str | os.PathLike) -> None:
    path = Path(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"path must end in .png, .svg or .pdf, received {path.name!r}. Rename it.")
    temporary = path.with_name(path.name + ".tmp")
    figure.savefig(temporary, format=path.suffix[1:], dpi=200)
    temporary.replace(path)
