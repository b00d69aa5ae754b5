import itertools
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.plots import save_figure, tree_figure
from keras_transformer.plots.style import BLUE
from keras_transformer.trees import Tree, parse_tree
from tests.helpers.trees import trees

SENTENCE = "(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ sleeps)) (. .))"
LEAVES = st.builds(
    lambda tag, word: Tree(tag, word=word),
    st.sampled_from(["XX", "NN", "PRP$"]),
    st.sampled_from(["a", "gypsum", "Donaudampfschifffahrt", "."]),
)


def places(tree):
    """Return the places of the texts of a tree's figure, each a list for its text."""
    found = {}
    for text in tree_figure(tree).axes[0].texts:
        found.setdefault(text.get_text(), []).append(text.get_position())
    return found


def lines_of(figure):
    (collection,) = figure.axes[0].collections
    return collection.get_segments()


def test_words_are_on_a_line_in_order_and_constituents_above_them():
    found = places(parse_tree(SENTENCE))
    words = [found[word][0] for word in ("The", "old", "dog", "sleeps")] + [min(found["."])]
    words[-1] = min(found["."], key=lambda place: place[1])  # The tag "." is above the word ".".
    assert [x for x, _ in words] == sorted(x for x, _ in words)
    (height,) = {y for _, y in words}
    ((noun_x, noun_y),), ((_, verb_y),), ((_, top),) = (found[x] for x in ("NP", "VP", "S"))
    assert height < noun_y == verb_y < top
    assert noun_x == pytest.approx((words[0][0] + words[2][0]) / 2)


def test_known_tags_are_above_their_words_and_unknown_ones_are_not_drawn():
    found = places(parse_tree("(S (NP (XX We)) (VP (VBD left)))"))
    assert set(found) == {"S", "NP", "We", "VP", "VBD", "left"}
    ((tag_x, tag_y),), ((word_x, word_y),) = found["VBD"], found["left"]
    assert tag_x == word_x and tag_y > word_y


def test_a_line_leads_from_each_constituent_to_each_of_its_children():
    tree = parse_tree("(S (NP (XX We)) (VP (XX left) (ADVP (RB home))))")
    at = {name: x for name, ((x, _),) in places(tree).items()}
    pairs = "S-NP S-VP NP-We VP-left VP-ADVP ADVP-home".split()
    between = {tuple(at[name] for name in pair.split("-")) for pair in pairs}
    lines = lines_of(tree_figure(tree))
    assert len(lines) == len(pairs)
    assert {(line[0][0], line[-1][0]) for line in lines} == between
    for line in lines:
        assert (np.diff(line[:, 1]) <= 1e-9).all()  # It never goes up.


def crossings(lines):
    """Yield pairs of lines with a point in common other than a shared end."""
    pieces = [
        [(line[i], line[i + 1]) for i in range(2) if not np.allclose(line[i], line[i + 1])]
        for line in lines
    ]

    def side(a, b, c):
        return np.sign(round((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]), 9))

    for one, other in itertools.combinations(pieces, 2):
        for (a, b), (c, d) in itertools.product(one, other):
            if side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0:
                yield a, b, c, d


@settings(max_examples=25, deadline=None)
@given(trees(st.sampled_from(["S", "NP", "WHADVP"]), LEAVES))
def test_nothing_overlaps_or_is_cut_off(tree):
    figure = tree_figure(tree)
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    boxes = [text.get_window_extent() for text in texts]
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    for (one, a), (other, b) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), (one.get_text(), other.get_text())
    assert not any(crossings(lines_of(figure)))
    for line in lines_of(figure):
        bends = figure.axes[0].transData.transform(line)
        points = [a + (b - a) * f for a, b in itertools.pairwise(bends) for f in (0.1, 0.5, 0.9)]
        assert not any(box.padded(-1).contains(*point) for point in points for box in boxes)


def nested(depth):
    return parse_tree("(SBAR (IN that) " * depth + "(NN end)" + ")" * depth)


def flat(words):
    return Tree("S", tuple(Tree("XX", word="word") for _ in range(words)))


def test_the_figure_grows_and_its_text_keeps_its_size():
    def inches(tree):
        figure = tree_figure(tree)
        sizes = {t.get_fontsize() for t in figure.axes[0].texts if t.get_color() == BLUE}
        assert sizes == {8}
        return figure.get_size_inches()

    assert inches(flat(100))[0] == pytest.approx(10 * inches(flat(10))[0])
    assert inches(flat(100))[1] < 1
    assert inches(nested(60))[1] > 60 * 0.3


@pytest.mark.parametrize("tree", [flat(900), nested(199)], ids=["wide", "deep"])
def test_an_image_of_a_huge_tree_fits_into_memory(tree):
    width, height = tree_figure(tree).get_size_inches() * 200
    assert width <= 30_001 and width * height <= 40.1e6


SCRIPTS = "أهلا שלום 我们离开了 हिन्दी 👩‍👩‍👧 😀 $x^2$ $\\bad$ a\x01b <&> f(x)".split()


def test_words_of_all_scripts_are_text_in_an_svg(tmp_path):
    tree = Tree("S", tuple(Tree("XX", word=word) for word in SCRIPTS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(tree_figure(tree), tmp_path / "tree.svg")
    root = ElementTree.parse(tmp_path / "tree.svg").getroot()
    shown = ["".join(text.itertext()).strip() for text in root.iter() if text.tag.endswith("}text")]
    assert shown == ["S", *SCRIPTS[:8], "a\ufffdb", *SCRIPTS[9:]]  # XML allows no "\x01".


@pytest.mark.filterwarnings("ignore:Glyph")
def test_words_of_all_scripts_can_be_drawn(tmp_path):
    tree = Tree("S", tuple(Tree("XX", word=word) for word in SCRIPTS))
    save_figure(tree_figure(tree), tmp_path / "tree.png")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_wide_characters_have_space_for_another_font():
    def width(word):
        return tree_figure(Tree("XX", word=word)).get_size_inches()[0]

    assert width("离开了办公室") - width("离") >= 5 * 8 / 72 - 0.01


def test_a_word_alone_is_a_tree():
    assert list(places(Tree("UH", word="Yes"))) == ["UH", "Yes"]
