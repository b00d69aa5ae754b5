import sys
import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib import image, pyplot
from matplotlib.figure import Figure

from keras_transformer.plots import (
    attention_grid,
    attention_map,
    save_figure,
    training_curves,
    tree_figure,
)
from keras_transformer.plots.attention import attention_lines
from keras_transformer.plots.curves import learning_rate_curve
from keras_transformer.plots.positions import position_map
from keras_transformer.schedules import NoamSchedule
from keras_transformer.trees import parse_tree
from tests.helpers.tiny import run_python


@pytest.fixture
def figure():
    return training_curves({"loss": [5.0, 3.0], "val_bleu": [1.0, 20.0]})


def test_a_png_has_200_pixels_per_inch(figure, tmp_path):
    save_figure(figure, tmp_path / "curves.png")
    height, width, _ = image.imread(tmp_path / "curves.png").shape
    assert (width, height) == (960, 440)  # 2 panels of 2.4 by 2.2 inches, 200 dots each


def test_the_suffix_chooses_the_format(figure, tmp_path):
    save_figure(figure, tmp_path / "curves.svg")
    assert ElementTree.parse(tmp_path / "curves.svg").getroot().tag.endswith("svg")
    save_figure(figure, str(tmp_path / "curves.pdf"))
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_file(suffix, tmp_path, monkeypatch):
    for name, time in (("one", "1"), ("other", "2000000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)  # The time of the file, for matplotlib.
        save_figure(attention_map([[1.0]], ["a"], ["b"]), tmp_path / f"{name}{suffix}")
    one, other = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "other"))
    assert one == other


def test_pyplot_keeps_no_figure(tmp_path):
    open_figures = pyplot.get_fignums()
    training_curves({"loss": [5.0, 3.0]})
    save_figure(attention_map([[1.0]], ["a"], ["b"]), tmp_path / "map.png")
    assert pyplot.get_fignums() == open_figures


def test_an_interrupted_save_keeps_the_older_file(figure, tmp_path, monkeypatch):
    path = tmp_path / "curves.png"
    path.write_bytes(b"an older picture")

    def save_half(self, file, **options):
        file.write_bytes(b"half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", save_half)
        with pytest.raises(OSError, match="disk full"):
            save_figure(figure, path)
    assert path.read_bytes() == b"an older picture"

    save_figure(figure, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


@pytest.mark.parametrize("name", ["curves", "curves.jpg"])
def test_another_suffix_is_rejected(figure, tmp_path, name):
    with pytest.raises(ValueError, match=f"must end in .png, .svg or .pdf, received '{name}'"):
        save_figure(figure, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "draw",
    [
        lambda: training_curves({"loss": [5.0]}),
        lambda: attention_map([[1.0]], ["a"], ["b"]),
        lambda: attention_grid([[[[1.0]]]], ["a"], ["b"]),
        lambda: attention_lines([[[1.0]]], ["a"], ["b"]),
        lambda: learning_rate_curve(NoamSchedule(16), 100),
        lambda: position_map([[0.0], [1.0]]),
        lambda: tree_figure(parse_tree("(NP (XX dogs))")),
    ],
)
def test_the_error_without_matplotlib_says_how_to_install_it(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-transformer-mt\[plots\]'"):
        draw()


@pytest.mark.slow
def test_the_import_does_not_need_matplotlib():
    run_python("-c", "import sys; sys.modules['matplotlib'] = None; import keras_transformer.plots")
