"""A figure of what a training run measured within its epochs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from keras_transformer.plots.style import BLUE, GRAY, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = {  # key: label of the axis, color
    "loss": ("training loss", BLUE),
    "gradient_norm": ("gradient norm", GRAY),
    "learning_rate": ("learning rate", GRAY),
    "tokens_per_second": ("tokens per second", GRAY),
}


def step_curves(
    metrics: Mapping[str, Sequence[float]], *, label_smoothing: float = 0.1
) -> "Figure":
    """Return a figure of a training run, step by step.

    Panels show the training loss, the gradient norm, the learning rate and the speed. Panels
    without data are omitted.

    Args:
        metrics: What `training.read_metrics` returns: `step` and, with as many values, any of
            `loss`, `gradient_norm`, `learning_rate` and `tokens_per_second`. Other keys are
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
    panels = [key for key in _PANELS if key in metrics]
    if not len(steps) or not panels:
        raise ValueError(
            f"step_curves needs a row with step and at least one of {', '.join(_PANELS)}, received "
            f"{', '.join(metrics) or 'nothing'}. Train for at least one epoch."
        )
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    with styled_figure((3.2 * columns, 1.7 * rows), layout="constrained") as figure:
        from matplotlib.ticker import StrMethodFormatter

        for place, key in enumerate(panels, start=1):
            label, color = _PANELS[key]
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
