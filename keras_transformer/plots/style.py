"""The look that all pictures share, and how they become files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.utils.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = {
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
BLUE, RED, GREY = "#0072b2", "#d55e00", "0.4"
# Okabe and Ito's for colour-blind readers, with grey for the yellow that paper swallows.
COLOURS = (BLUE, RED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#808080")


def fit(figure: "Figure", caption: str = "") -> None:
    """Make the figure as large as its axes and their labels are; the axes keep their sizes.

    Args:
        figure: whose axes were placed by hand.
        caption: a line below them all.
    """
    contents, margin = figure.get_tightbbox(), 0.05  # inches
    old, new, below = figure.get_size_inches(), contents.size + 2 * margin, 0
    if caption:
        text = figure.text(0, 0, caption, fontsize=8, va="bottom", parse_math=False)
        width, height = text.get_window_extent().size / figure.dpi
        below = height + 0.1
        new = np.array([max(new[0], width + 2 * margin), new[1] + below])
        text.set_position(margin / new)
    figure.set_size_inches(new)
    for axes in figure.axes:
        box = axes.get_position()
        corner = box.min * old - contents.min + margin + (0, below)
        axes.set_position((*(corner / new), *(box.size * old / new)))


def save_figure(figure: "Figure", path: str | os.PathLike) -> None:
    """Write a figure to a file, whole or not at all, at 200 dots an inch.

    Args:
        figure: from a function of this package.
        path: the file, .png, .svg or .pdf.

    Raises:
        ValueError: the file has another suffix.
    """
    import matplotlib

    path = Path(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"path must end in .png, .svg or .pdf, received {path.name!r}. Rename it.")
    with matplotlib.rc_context(STYLE), whole_file(path) as temporary:
        figure.savefig(temporary, dpi=200)
