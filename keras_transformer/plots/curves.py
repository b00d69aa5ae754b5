"""Figures of a training run: its epochs, its steps and its learning rate."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.plots.style import BLUE, GRAY, RED, styled_figure
from keras_transformer.schedules import NoamSchedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = {  # key: label of its panel's axis, label of the curve, color
    "loss": ("nats per token", "training loss", BLUE),
    "val_nll": ("nats per token", "validation NLL", RED),
    "val_bleu": ("sacreBLEU", "validation, greedy search", RED),
    "val_f1": ("F1 of brackets", "validation, greedy search", RED),
    "learning_rate": ("learning rate", "at the end of the epoch", GRAY),
}
_BY_STEP = {  # key: label of the panel's axis, color
    "loss": ("training loss", BLUE),
    "gradient_norm": ("gradient norm", GRAY),
    "learning_rate": ("learning rate", GRAY),
    "tokens_per_second": ("tokens per second", GRAY),
}


def training_curves(
    history: Mapping[str, Sequence[float]], *, label_smoothing: float = 0.1
) -> "Figure":
    """Return a figure of a training run, epoch by epoch, from epoch 1.

    The first panel shows the training loss and the negative log-likelihood (NLL) of the validation
    text, the second its BLEU or F1 by greedy search with the best epoch marked, the third the
    learning rate. Panels without data are omitted.

    Args:
        history: Values for each epoch, such as `model.fit(...).history`, under any of the keys
            `loss` and `val_nll` (nats per token), `val_bleu` or `val_f1` (0 to 100), and
            `learning_rate`. Other keys are ignored.
        label_smoothing: Label smoothing of the training loss, which the legend mentions. A smoothed
            loss is not comparable with the NLL.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is nothing to draw, or the numbers of values differ.

    >>> history = {"loss": [5.1, 3.2, 2.4], "val_nll": [4.0, 2.7, 2.2], "val_bleu": [3.1, 18, 26.5]}
    >>> [axes.get_ylabel() for axes in training_curves(history).axes]
    ['nats per token', 'sacreBLEU']
    """
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
    size = (2.4 * len(units), 2.2)
    with styled_figure(size, layout="constrained") as figure:
        from matplotlib.ticker import MaxNLocator

        panels = dict(zip(units, figure.subplots(1, len(units), squeeze=False)[0], strict=True))
        for key, values in curves.items():
            unit, name, color = _CURVES[key]
            if key == "loss" and label_smoothing:
                name += "\n(label-smoothed)"
            axes = panels[unit]
            style = {"color": color, "clip_on": False}
            axes.plot(epochs, values, marker=".", markersize=4, label=name, **style)
            if key in ("val_bleu", "val_f1"):
                if not np.isnan(values).all():
                    best = int(np.nanargmax(values))
                    label = f"best: {values[best]:.1f}, epoch {epochs[best]}"
                    axes.plot(epochs[best], values[best], "o", mfc="none", label=label, **style)
                low, high = axes.get_ylim()
                axes.set_ylim(max(0, low), max(1, high))
            axes.set(xlabel="epoch", ylabel=unit)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
            axes.yaxis.set_major_formatter("{x:g}")
            # Above the axes, where no curve is.
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderpad=0)
    return figure


def step_curves(
    metrics: Mapping[str, Sequence[float]], *, label_smoothing: float = 0.1
) -> "Figure":
    """Return a figure of a training run, step by step.

    Panels show the training loss, the gradient norm, the learning rate and the speed. Panels
    without data are omitted.

    Args:
        metrics: What `training.csv_tables.read_metrics` returns: `step` and, with as many values,
            any of `loss`, `gradient_norm`, `learning_rate` and `tokens_per_second`. Other keys are
            ignored.
        label_smoothing: Label smoothing of the loss, which its axis mentions.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is nothing to draw.

    >>> metrics = {"step": [100, 200], "loss": [6.5, 5.2], "learning_rate": [1e-4, 2e-4]}
    >>> [axes.get_ylabel() for axes in step_curves(metrics, label_smoothing=0).axes]
    ['training loss', 'learning rate']
    """
    steps = metrics.get("step", ())
    panels = [key for key in _BY_STEP if key in metrics]
    if not len(steps) or not panels:
        raise ValueError(
            f"step_curves needs a row with step and at least one of {', '.join(_BY_STEP)}, "
            f"received {', '.join(metrics) or 'nothing'}. Train for at least one epoch."
        )
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    with styled_figure((3.2 * columns, 1.7 * rows), layout="constrained") as figure:
        from matplotlib.ticker import StrMethodFormatter

        for place, key in enumerate(panels, start=1):
            label, color = _BY_STEP[key]
            if key == "loss" and label_smoothing:
                label += "\n(label-smoothed)"
            axes = figure.add_subplot(rows, columns, place)
            axes.plot(steps, metrics[key], color=color, marker="." if len(steps) == 1 else None)
            axes.set(xlabel="step", ylabel=label, xlim=(0, None))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            if key == "tokens_per_second":
                axes.set_ylim(0)
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            else:
                axes.ticklabel_format(axis="y", scilimits=(-2, 4))
    return figure


def learning_rate_curve(schedule: NoamSchedule, steps: int) -> "Figure":
    """Return a figure of the learning rate, with warm-up and peak (Section 5.3, eq. 3).

    Args:
        schedule: The schedule to draw.
        steps: The last step to draw, such as the last of a run.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If `steps` is less than 2.

    >>> axes = learning_rate_curve(NoamSchedule(512, warmup_steps=4000), steps=100_000).axes[0]
    >>> axes.get_title(loc="right")
    'warm-up to step 4,000, peak 0.000699'
    """
    if steps < 2:
        raise ValueError(f"steps must be at least 2, received {steps}. Draw a longer run.")
    warmup = schedule.warmup_steps
    peak = float(schedule(warmup - 1))  # A schedule counts steps from 0.
    # A curve through other steps would miss the peak.
    shown = np.unique([*np.linspace(1, steps, min(steps, 500)).round(), min(warmup, steps)])
    rates = np.array([float(schedule(step - 1)) for step in shown])
    with styled_figure((3.6, 2.1), layout="constrained") as figure:
        from matplotlib.ticker import StrMethodFormatter

        axes = figure.subplots()
        axes.plot(shown, rates, color=BLUE)
        axes.set(
            xlabel="step", ylabel="learning rate", xlim=(0, steps), ylim=(0, 1.12 * rates.max())
        )
        axes.axvspan(0, min(warmup, steps), color="0.94", lw=0, zorder=0)
        if warmup <= steps:
            axes.plot(warmup, peak, "o", color=BLUE, markersize=3.5)
        title = f"warm-up to step {warmup:,}, peak {peak:.3g}"
        axes.set_title(title, loc="right", fontsize=7)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.ticklabel_format(axis="y", scilimits=(-2, 4))
    return figure
