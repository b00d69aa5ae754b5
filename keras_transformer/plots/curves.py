"""Pictures of a training: its curves and its learning rate."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.plots.style import BLUE, GREY, RED, STYLE
from keras_transformer.schedules import NoamSchedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = {  # key: its panel's unit, its name there, its colour
    "loss": ("nats per token", "training loss", BLUE),
    "val_nll": ("nats per token", "validation NLL", RED),
    "val_bleu": ("sacreBLEU", "validation", RED),
    "learning_rate": ("learning rate", "at the epoch's end", GREY),
}


def training_curves(history: Mapping[str, Sequence[float]]) -> "Figure":
    """Draw how a training went, epoch by epoch.

    A panel has the training loss and the negative log-likelihood of the validation text, another
    its BLEU with the best epoch marked, another the learning rate. What `history` lacks is left
    out, other keys of it are ignored.

    Args:
        history: a value for each epoch under any of `loss` and `val_nll` (nats per token),
            `val_bleu` (0 to 100) and `learning_rate`, such as `model.fit(...).history`.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: there is nothing to draw, or the lists differ in length.

    >>> history = {"loss": [5.1, 3.2, 2.4], "val_nll": [4.0, 2.7, 2.2], "val_bleu": [3.1, 18, 26.5]}
    >>> [axes.get_ylabel() for axes in training_curves(history).axes]
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
    with matplotlib.rc_context(STYLE):
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
    return figure


def learning_rate_curve(schedule: NoamSchedule, steps: int) -> "Figure":
    """Draw the learning rate over a training's steps, with warm-up and peak (Section 5.3, eq. 3).

    Args:
        schedule: of the training.
        steps: how many to draw, from the first.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: `steps` is less than 2.

    >>> axes = learning_rate_curve(NoamSchedule(512, warmup_steps=4000), steps=100_000).axes[0]
    >>> [text.get_text() for text in axes.texts]
    ['warm-up to step 4,000, peak 0.000699']
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    if steps < 2:
        raise ValueError(f"steps must be at least 2, received {steps}.")
    warmup = schedule.warmup_steps
    peak = float(schedule(warmup - 1))  # A schedule counts from 0.
    # The peak is a kink, which a curve through other steps would miss.
    shown = np.unique([*np.linspace(1, steps, min(steps, 500)).round(), min(warmup, steps)])
    rates = np.array([float(schedule(step - 1)) for step in shown])
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.6, 2.1), layout="constrained")
        axes = figure.subplots()
        axes.plot(shown, rates, color=BLUE)
        axes.set(
            xlabel="step", ylabel="learning rate", xlim=(0, steps), ylim=(0, 1.12 * rates.max())
        )
        axes.axvspan(0, min(warmup, steps), color="0.94", lw=0, zorder=0)
        if warmup <= steps:
            axes.plot(warmup, peak, "o", color=BLUE, markersize=3.5)
        # Beside the peak, on the side with more room.
        is_left = warmup > steps / 2
        axes.annotate(
            f"warm-up to step {warmup:,}, peak {peak:.3g}",
            (min(warmup, steps), rates.max()),
            xytext=(-7, 4) if is_left else (7, 0),
            textcoords="offset points",
            horizontalalignment="right" if is_left else "left",
            verticalalignment="center",
            fontsize=7,
        )
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.ticklabel_format(axis="y", scilimits=(-2, 4))
    return figure
