import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib import image, pyplot
from matplotlib.figure import Figure

from keras_transformer.plots import attention_map, training_curves

HISTORY = {
    "loss": [5.0, 3.0, 2.5, 2.4],
    "val_nll": [4.0, 2.0, 1.5, 1.6],
    "val_bleu": [1.0, 20.0, 33.25, 32.0],
    "learning_rate": [1e-3, 2e-3, 1.5e-3, 1e-3],
    "tokens_per_second": [9000.0, 9100.0, 9200.0, 9300.0],
}
SOURCE = ["▁A", "▁dog", "▁run", "s", "</s>"]
TARGET = ["▁Ein", "▁Hund", "</s>"]
WEIGHTS = np.array(
    [[0.9, 0.1, 0.0, 0.0, 0.0], [0.1, 0.7, 0.1, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]], "float32"
)


def without(key):
    return {other: values for other, values in HISTORY.items() if other != key}


def test_loss_and_nll_share_a_panel_and_bleu_has_its_own(tmp_path):
    figure = training_curves(without("learning_rate"), tmp_path / "curves.png")
    nats, bleu = figure.axes
    assert (nats.get_xlabel(), nats.get_ylabel()) == ("epoch", "nats per token")
    assert (bleu.get_xlabel(), bleu.get_ylabel()) == ("epoch", "sacreBLEU")
    lines = {line.get_label(): line.get_xydata().tolist() for line in nats.get_lines()}
    assert lines == {
        "training loss": [[1, 5.0], [2, 3.0], [3, 2.5], [4, 2.4]],
        "validation NLL": [[1, 4.0], [2, 2.0], [3, 1.5], [4, 1.6]],
    }
    assert [text.get_text() for text in nats.get_legend().get_texts()] == list(lines)


def test_the_best_epoch_is_marked(tmp_path):
    figure = training_curves({"val_bleu": HISTORY["val_bleu"]}, tmp_path / "curves.png")
    curve, best = figure.axes[0].get_lines()
    assert curve.get_ydata().tolist() == HISTORY["val_bleu"]
    assert best.get_xydata().tolist() == [[3, 33.25]]
    assert best.get_label() == "best: 33.2, epoch 3"


def test_the_learning_rate_has_a_third_panel(tmp_path):
    figure = training_curves(HISTORY, tmp_path / "curves.png")
    assert [axes.get_ylabel() for axes in figure.axes][2:] == ["learning rate"]
    assert figure.axes[2].get_lines()[0].get_ydata().tolist() == HISTORY["learning_rate"]


def test_epochs_are_whole_numbers_on_the_axis(tmp_path):
    for epochs in (1, 2, 4):
        history = {"loss": HISTORY["loss"][:epochs]}
        ticks = training_curves(history, tmp_path / "curves.png").axes[0].get_xticks()
        assert all(tick == int(tick) for tick in ticks)


def test_a_png_has_the_pixels_for_print(tmp_path):
    training_curves(without("learning_rate"), tmp_path / "curves.png")
    height, width, _ = image.imread(tmp_path / "curves.png").shape
    assert (width, height) == (960, 380)  # 2 panels of 2.4 by 1.9 inches, 200 dots each


def test_the_suffix_chooses_the_format(tmp_path):
    training_curves(HISTORY, tmp_path / "curves.svg")
    assert ElementTree.parse(tmp_path / "curves.svg").getroot().tag.endswith("svg")
    attention_map(WEIGHTS, SOURCE, TARGET, str(tmp_path / "map.pdf"))
    assert (tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")


def test_pyplot_keeps_no_figure(tmp_path):
    open_figures = pyplot.get_fignums()
    training_curves(HISTORY, tmp_path / "curves.png")
    attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png")
    assert pyplot.get_fignums() == open_figures


def test_the_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "curves.png"
    path.write_bytes(b"an older picture")

    def save_half(self, file, **options):
        file.write_bytes(b"half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", save_half)
        with pytest.raises(OSError, match="disk full"):
            training_curves(HISTORY, path)
    assert path.read_bytes() == b"an older picture"

    training_curves(HISTORY, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


def test_tokens_label_the_attention_map(tmp_path):
    axes, colour_bar = attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    assert axes.xaxis.get_ticks_position() == "top"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "target")
    assert colour_bar.get_ylabel() == "attention weight"
    assert colour_bar.get_ylim() == (0, 1)


def test_pixels_show_the_weights_in_their_places(tmp_path):
    axes = attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png").axes[0]
    pixels = image.imread(tmp_path / "map.png")
    light = np.empty_like(WEIGHTS)
    for row, column in np.ndindex(WEIGHTS.shape):
        x, y = axes.transData.transform((column + 0.5, row + 0.5)) * 200 / axes.figure.dpi
        light[row, column] = pixels[int(len(pixels) - y), int(x), :3].mean()
    for value in (0.0, 0.1, 0.7, 0.9, 1.0):
        assert np.ptp(light[np.isclose(WEIGHTS, value)]) == 0
    assert (np.argsort(-light.ravel(), kind="stable") == np.argsort(WEIGHTS, None, "stable")).all()
    # The first target token is at the top.
    assert axes.get_yticklabels()[0].get_window_extent().y0 > axes.bbox.y0 + axes.bbox.height / 2


@pytest.mark.parametrize("length", [1, 7, 40])
def test_all_labels_are_in_the_picture_and_cells_are_square(tmp_path, length):
    source = ["▁Donaudampfschifffahrtsgesellschaft", *"abcdefghijkl"]
    target = [f"▁wort{i}" for i in range(length)]
    weights = np.full((length, len(source)), 1 / len(source))
    figure = attention_map(weights, source, target, tmp_path / "map.png")
    figure.draw_without_rendering()
    axes, colour_bar = figure.axes
    labels = [axes.xaxis.label, axes.yaxis.label, colour_bar.yaxis.label]
    for label in (*labels, *axes.get_xticklabels(), *axes.get_yticklabels()):
        box = label.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    assert axes.bbox.width / len(source) == pytest.approx(axes.bbox.height / length)


def test_the_picture_grows_with_the_tokens_up_to_a_limit(tmp_path):
    def pixels(length):
        tokens = ["a"] * length
        attention_map(np.eye(length), tokens, tokens, tmp_path / "map.png")
        return image.imread(tmp_path / "map.png").shape[:2]

    few, more, many = pixels(10), pixels(30), pixels(130)
    for i in range(2):
        assert more[i] - few[i] == pytest.approx(20 * 0.2 * 200, abs=1)
        assert 25 * 200 < many[i] < 27 * 200


def test_a_dollar_sign_starts_no_formula(tmp_path):
    figure = attention_map([[0.5, 0.5]], ["$x^2$", "_"], ["$\\bad$"], tmp_path / "map.png")
    labels = [*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels()]
    assert [label.get_text() for label in labels] == ["$x^2$", "_", "$\\bad$"]
    assert not any(label.get_parse_math() for label in labels)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"accuracy": [0.5]}, "one of loss, val_nll, val_bleu, learning_rate, received accuracy"),
        ({}, "received nothing. Train for at least one epoch"),
        ({"loss": []}, "needs an epoch"),
        ({"loss": [3.0, 2.0], "val_bleu": [9.0]}, "received {'loss': 2, 'val_bleu': 1} values"),
    ],
)
def test_a_history_that_cannot_be_drawn_is_an_error(tmp_path, history, message):
    with pytest.raises(ValueError, match=message):
        training_curves(history, tmp_path / "curves.png")


@pytest.mark.parametrize(
    ("weights", "source", "target", "message"),
    [
        (WEIGHTS.T, SOURCE, TARGET, r"received shape \(5, 3\) for 3 target and 5 source tokens"),
        (WEIGHTS[None], SOURCE, TARGET, r"received shape \(1, 3, 5\)"),
        (WEIGHTS, SOURCE[:-1], TARGET, "for 3 target and 4 source tokens"),
        (np.zeros((0, 2)), ["a", "b"], [], "at least one of each"),
    ],
)
def test_weights_that_do_not_fit_the_tokens_are_an_error(
    tmp_path, weights, source, target, message
):
    with pytest.raises(ValueError, match=message):
        attention_map(weights, source, target, tmp_path / "map.png")


@pytest.mark.parametrize("name", ["curves", "curves.jpg"])
def test_another_suffix_is_an_error(tmp_path, name):
    with pytest.raises(ValueError, match=f"must end in .png, .svg or .pdf, received '{name}'"):
        training_curves(HISTORY, tmp_path / name)
    assert not list(tmp_path.iterdir())
