import pytest
from hypothesis import given

from keras_transformer.trees import MAX_DEPTH, Tree, escape, parse_tree, unescape
from tests.helpers.trees import WORDS, annotated_trees


def leaf(tag, word):
    return Tree(tag, word=word)


def test_a_notation_is_read_as_labels_tags_and_words():
    expected = Tree("S", (Tree("NP-SBJ", (leaf("PRP", "We"),)), Tree("VP", (leaf("VBD", "ran"),))))
    assert parse_tree("(S (NP-SBJ (PRP We)) (VP (VBD ran)))") == expected
    assert parse_tree("(S(NP-SBJ(PRP We))\n\t(VP  (VBD ran) ) )") == expected


def test_a_label_may_be_missing_before_a_bracket():
    inner = Tree("NP", (leaf("NN", "tea"),))
    for text in ("((NP (NN tea)))", "( (NP (NN tea)))", "(\n(NP (NN tea)) )"):
        assert parse_tree(text) == Tree("", (inner,))


def test_words_without_a_bracket_of_their_own_have_no_known_tag():
    expected = (leaf("XX", "the"), leaf("NN", "tea"), leaf("XX", "pot"))
    assert parse_tree("(NP the (NN tea) pot)") == Tree("NP", expected)


def test_only_ascii_white_space_separates_words():
    assert parse_tree("(NP (CD 10\u00a0000))").words == ["10\u00a0000"]


def test_words_and_tags_are_in_order():
    tree = parse_tree("(S (NP (DT a) (NP (NN b))) (VP (VB c)))")
    assert (tree.words, tree.tags) == (["a", "b", "c"], ["DT", "NN", "VB"])


@given(annotated_trees())
def test_writing_and_reading_a_tree_returns_the_same(tree):
    assert parse_tree(str(tree)) == tree


@given(WORDS)
def test_a_word_of_any_characters_is_one_word_of_a_tree(word):
    assert not set("()[]{}") & set(escape(word))
    assert unescape(escape(word)) == word


def test_the_escapes_of_the_penn_treebank_are_read_as_text():
    tree = parse_tree(r"(NP (-LRB- -LRB-) (CD 3\/4) (SYM \*) (-RRB- -RCB-))")
    assert tree.words == ["(", "3/4", "*", "}"]
    assert tree.tags == ["-LRB-", "CD", "SYM", "-RRB-"]
    assert str(tree) == "(NP (-LRB- -LRB-) (CD 3/4) (SYM *) (-RRB- -RCB-))"


def test_trees_of_the_greatest_depth_can_be_used():
    text = "(NP " * (MAX_DEPTH - 1) + "(NN tea)" + ")" * (MAX_DEPTH - 1)
    tree = parse_tree(text)
    assert (str(tree), tree.words, tree == parse_tree(text)) == (text, ["tea"], True)
    assert hash(tree) == hash(parse_tree(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN tea))", "every bracket must be closed, received 1 open"),
        ("(S (NP (NN tea)", "every bracket must be closed, received 2 open"),
        ("(NP (NN tea)))", "nothing may follow the end of a tree, received a closing bracket"),
        ("(NP (NN tea)) (NP (NN cup))", "nothing may follow .* received another tree"),
        ("(NP (NN tea)) cup", "nothing may follow .* received 'cup'"),
        (")", r"must start with an opening bracket, received '\)'"),
        ("tea", "must start with an opening bracket, received 'tea'"),
        (" ", "must have a word, received no text"),
        ("()", r"a bracket must hold a word, received \(\)"),
        ("(S (NP) (VP (VB go)))", r"a bracket must hold a word, received \(NP\)"),
        ("(NP " * 200 + "(NN tea)" + ")" * 200, "not be more than 200 brackets deep"),
    ],
)
def test_what_is_not_one_tree_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        parse_tree(text)


@pytest.mark.parametrize("parts", [{}, {"word": ""}, {"children": (leaf("A", "a"),), "word": "b"}])
def test_a_tree_has_either_children_or_a_word(parts):
    with pytest.raises(ValueError, match="must have children or a word, received label='NP'"):
        Tree("NP", **parts)
