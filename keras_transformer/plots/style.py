"""The style that all figures share, and how they are saved."""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "pdf.fonttype": 42,  # TrueType, which publishers require
    "svg.fonttype": "none",  # text, which can be searched and needs no font here
    "svg.hashsalt": "keras_transformer",  # the same ids in each file
    "xtick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.6,
}
BLUE, RED, GRAY = "#0072b2", "#d55e00", "0.4"
# Okabe and Ito's palette for color-blind readers, with gray instead of yellow.
COLORS = (BLUE, RED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#808080")

_UNDATED = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""For each suffix, metadata without the time."""
_UNDRAWABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # not allowed in SVG


def drawable(text: str) -> str:
    """Return a text with U+FFFD instead of each character that an SVG must not contain.

    >>> drawable("a\\x01b") == "a\\ufffdb"
    True
    """
    return _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", text)


@contextmanager
def styled_figure(
    size: tuple[float, float] = (1, 1), font_size: float = 8, **options: Any
) -> "Iterator[Figure]":
    """Yield an empty figure, with the shared style in effect inside the block.

    Args:
        size: Width and height in inches. Leave it out for a figure that `fit` will resize: axes
            placed in such a figure have their positions in inches.
        font_size: Font size in points.
        **options: Further arguments of `matplotlib.figure.Figure`.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need the package matplotlib: pip install 'keras-transformer-mt[plots]'"
        ) from error
    with matplotlib.rc_context(STYLE | {"font.size": font_size}):
        yield Figure(figsize=size, **options)


@contextmanager
def quiet_about_glyphs(quiet: bool = True) -> Iterator[None]:
    """Silence matplotlib's warnings about characters that its font lacks, if `quiet` is true."""
    with warnings.catch_warnings():
        if quiet:
            warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from font")
        yield


@contextmanager
def glyphs_lacking() -> Iterator[list[str]]:
    """Yield a list for matplotlib's warnings about characters that its font lacks.

    They are in the list after the block. Other warnings are shown then.
    """
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        yield found
    for each in caught:
        if "missing from font" in str(each.message):
            found.append(str(each.message))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def fit(figure: "Figure", caption: str = "") -> None:
    """Resize the figure to its axes and their labels. The axes keep their sizes.

    Args:
        figure: A figure with axes at fixed positions.
        caption: Text below the axes.
    """
    contents, margin = figure.get_tightbbox(), 0.05  # inches
    old, new, below = figure.get_size_inches(), contents.size + 2 * margin, 0
    if caption:
        caption = "\n".join(drawable(line) for line in caption.split("\n"))
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
    """Save a figure with 200 dots per inch.

    The same figure gives the same file.

    Args:
        figure: A figure of this package.
        path: The file: .png, .svg or .pdf. It appears only when it is complete.

    Raises:
        ValueError: If the file has another suffix.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "map.png")
    >>> from keras_transformer.plots import attention_map
    >>> save_figure(attention_map([[0.9, 0.1]], ["▁two", "▁dogs"], ["▁zwei"]), path)
    >>> path.exists()
    True
    """
    import matplotlib

    path = Path(path)
    if path.suffix not in _UNDATED:
        raise ValueError(f"path must end in .png, .svg or .pdf, received {path.name!r}. Rename it.")
    # The program that shows an SVG chooses the fonts.
    with matplotlib.rc_context(STYLE), quiet_about_glyphs(path.suffix == ".svg"):
        with whole_file(path) as temporary:
            figure.savefig(temporary, dpi=200, metadata=_UNDATED[path.suffix])
