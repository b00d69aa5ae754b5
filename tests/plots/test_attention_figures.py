import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib import image

from keras_transformer.plots import attention_grid, attention_map, save_figure
from keras_transformer.plots.attention import attention_lines

SOURCE = ["▁A", "▁dog", "▁run", "s", "</s>"]
TARGET = ["▁Ein", "▁Hund", "</s>"]
WEIGHTS = np.array(
    [[0.9, 0.1, 0.0, 0.0, 0.0], [0.1, 0.7, 0.1, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]], "float32"
)
LAYERS, HEADS, T, S = 2, 4, 3, 5


def random_weights(*shape):
    weights = np.random.default_rng(1).random(shape).astype("float32")
    return weights / weights.sum(axis=-1, keepdims=True)


def texts_of(labels):
    return [label.get_text() for label in labels]


def assert_all_is_visible(figure, texts):
    figure.draw_without_rendering()
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


def test_tokens_label_the_attention_map():
    axes, color_bar = attention_map(WEIGHTS, SOURCE, TARGET).axes
    assert (texts_of(axes.get_xticklabels()), texts_of(axes.get_yticklabels())) == (SOURCE, TARGET)
    assert axes.xaxis.get_ticks_position() == "top"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "target")
    assert color_bar.get_ylabel() == "attention weight"
    assert color_bar.get_ylim() == (0, 1)
    # A mean over heads is spread: the darkest cell is the largest weight.
    assert attention_map(WEIGHTS / 4, SOURCE, TARGET).axes[1].get_ylim() == (0, 0.25)


def test_the_darkness_of_each_cell_shows_its_weight(tmp_path):
    axes = attention_map(WEIGHTS, SOURCE, TARGET).axes[0]
    save_figure(axes.figure, tmp_path / "map.png")
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
def test_all_labels_are_visible_and_cells_are_square(length):
    source = ["▁Donaudampfschifffahrtsgesellschaft", *"abcdefghijkl"]
    target = [f"▁wort{i}" for i in range(length)]
    weights = np.full((length, len(source)), 1 / len(source))
    figure = attention_map(weights, source, target)
    axes, color_bar = figure.axes
    labels = [axes.xaxis.label, axes.yaxis.label, color_bar.yaxis.label]
    assert_all_is_visible(figure, [*labels, *axes.get_xticklabels(), *axes.get_yticklabels()])
    assert axes.bbox.width / len(source) == pytest.approx(axes.bbox.height / length)


def test_the_figure_grows_with_the_tokens_up_to_a_limit():
    def inches(length):
        tokens = ["a"] * length
        return attention_map(np.eye(length), tokens, tokens).get_size_inches()

    few, more, many = inches(10), inches(30), inches(130)
    for i in range(2):
        assert more[i] - few[i] == pytest.approx(20 * 0.2)
        assert 25 < many[i] < 27


def test_a_dollar_sign_does_not_start_a_formula():
    figure = attention_map([[0.5, 0.5]], ["$x^2$", "_"], ["$\\bad$"])
    labels = [*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels()]
    assert texts_of(labels) == ["$x^2$", "_", "$\\bad$"]
    assert not any(label.get_parse_math() for label in labels)


@pytest.mark.parametrize(
    ("draw", "shape"), [(attention_map, ()), (attention_grid, (1, 1)), (attention_lines, (1,))]
)
def test_a_control_character_is_replaced_so_that_an_svg_is_xml(draw, shape, tmp_path):
    caption = () if draw is attention_map else ("first\x02\nsecond",)
    figure = draw(np.full((*shape, 1, 2), 0.5), ["a\x01", "<b"], ["\ud800"], *caption)
    save_figure(figure, tmp_path / "figure.svg")
    texts = {
        text
        for each in ElementTree.parse(tmp_path / "figure.svg").iter()
        for text in each.itertext()
    }
    expected = {"a\ufffd", "<b", "\ufffd"} | ({"first\ufffd", "second"} if caption else set())
    assert expected <= {text.strip() for text in texts}


def test_the_grid_has_the_weights_of_each_layer_and_head_in_its_place():
    weights = random_weights(LAYERS, HEADS, T, S)
    figure = attention_grid(weights, SOURCE, TARGET, "Who attends to whom")
    *maps, color_bar = figure.axes
    assert len(maps) == LAYERS * HEADS and color_bar.get_ylim() == (0, weights.max())
    assert {axes.collections[0].get_clim() for axes in maps} == {(0, weights.max())}
    for i, axes in enumerate(maps):
        layer, head = divmod(i, HEADS)
        shown = axes.collections[0].get_array().reshape(T, S)
        assert np.array_equal(shown, weights[layer, head])
        assert axes.get_title() == (f"head {head + 1}" if layer == 0 else "")
        assert axes.get_ylabel() == (f"layer {layer + 1}" if head == 0 else "")
        assert texts_of(axes.get_xticklabels()) == (SOURCE if layer == 0 else [])
        assert texts_of(axes.get_yticklabels()) == (TARGET if head == 0 else [])
    first, last = maps[0].get_position(), maps[-1].get_position()
    assert first.y0 > last.y1 and first.x1 < last.x0  # Layers go down, heads across.
    assert texts_of(figure.texts) == ["Who attends to whom"]


def test_the_lines_are_as_opaque_as_the_weights():
    weights = random_weights(HEADS, T, S)
    weights[0, 0] = [0.004, 0.996, 0, 0, 0]
    figure = attention_lines(weights, SOURCE, TARGET, "Layer 2.")
    assert len({tuple(axes.collections[0].get_colors()[0][:3]) for axes in figure.axes}) == HEADS
    for head, axes in enumerate(figure.axes):
        assert axes.get_title() == f"head {head + 1}"
        shown = np.zeros((T, S))
        lines = axes.collections[0]
        for line, color in zip(lines.get_segments(), lines.get_colors(), strict=True):
            (left, query), (right, key) = line.astype(int)
            assert (left, right) == (0, 1)
            shown[query, key] = color[3]
        np.testing.assert_allclose(shown, np.where(weights[head] < 0.01, 0, weights[head]))
        places = {(text.get_text(), *text.xy) for text in axes.texts}
        assert places == {
            *((token, 0, place) for place, token in enumerate(TARGET)),
            *((token, 1, place) for place, token in enumerate(SOURCE)),
        }
    assert texts_of(figure.texts) == ["Layer 2."]


@pytest.mark.parametrize("length", [1, 7, 40])
@pytest.mark.parametrize("heads", [1, 6])
def test_nothing_is_cut_off_or_covers_its_neighbor(heads, length):
    source = ["▁Donaudampfschifffahrtsgesellschaft", *"abc$_$"]
    target = [f"▁wort{i}" for i in range(length)]
    weights = random_weights(LAYERS, heads, length, len(source))
    caption = "A caption that is longer than a picture of one head is wide, but is not cut off."
    grid = attention_grid(weights, source, target, caption)
    *maps, color_bar = grid.axes
    labels = [text for axes in maps for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    headings = [text for axes in maps for text in (axes.title, axes.yaxis.label)]
    assert_all_is_visible(grid, [*labels, *headings, color_bar.yaxis.label, *grid.texts])
    rows = [axes.yaxis.label.get_window_extent() for axes in maps[::heads]]
    assert rows[0].y0 >= rows[1].y1  # "layer 1" ends above "layer 2".
    lowest = min(axes.get_tightbbox().y0 for axes in grid.axes)
    assert grid.texts[0].get_window_extent().y1 <= lowest

    lines = attention_lines(weights[0], source, target, caption)
    words = [text for axes in lines.axes for text in (*axes.texts, axes.title)]
    assert_all_is_visible(lines, [*words, *lines.texts])
    boxes = [axes.get_tightbbox() for axes in lines.axes]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:i])
    for figure in (grid, lines):
        from_outside = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
        assert not any(text.get_parse_math() for text in from_outside)


@pytest.mark.parametrize(
    ("draw", "shape"),
    [
        (attention_map, (T, S)),
        (attention_grid, (LAYERS, HEADS, T, S)),
        (attention_lines, (HEADS, T, S)),
    ],
)
def test_weights_of_another_shape_are_an_error(draw, shape):
    message = r"weights must be \[.*T, S\].*at least one each.*for 3 query and 5 key tokens"
    for other in ((*shape[:-2], S, T), shape[1:], (1, *shape), (*shape[:-1], 0), (*shape[:-1], 4)):
        with pytest.raises(ValueError, match=message) as error:
            draw(np.zeros(other), SOURCE, TARGET)
        assert f"received shape {other}" in str(error.value)
