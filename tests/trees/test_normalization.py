import pytest
from hypothesis import assume, given

from keras_transformer.trees import TOP_LABELS, normalize_tree, parse_tree
from tests.helpers.trees import annotated_trees


def normalized(tree):
    """Return the normalized tree; skip the case if there is none."""
    try:
        return normalize_tree(tree)
    except ValueError:
        assume(False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S (NP-SBJ-1 (NN tea)) (NP=2 (NN cup)))", "(S (NP (NN tea)) (NP (NN cup)))"),
        ("(S (ADVP|PRT (RP up)) (X (VBG|NN tea)))", "(S (ADVP (RP up)) (X (VBG tea)))"),
        ("(PRN (-LRB- -LRB-) (NN tea))", "(PRN (-LRB- -LRB-) (NN tea))"),
        ("(NP (PRP$ my) (: --) (NN|NP tea))", "(NP (PRP$ my) (: --) (NN tea))"),
        ("(S (NP (-NONE- *)) (VP (VB go)))", "(S (VP (VB go)))"),
        ("(S (SBAR (-NONE- 0) (S (-NONE- *T*))) (VP (VB go)))", "(S (VP (VB go)))"),
        ("(S (NP-SBJ (NP-1 (NP (NN tea)))) (. .))", "(S (NP (NN tea)) (. .))"),
        ("(S (NP (NP (NN tea)) (-NONE- *)) (. .))", "(S (NP (NN tea)) (. .))"),
        ("(S (NP (QP (NP (NN tea)))))", "(S (NP (QP (NP (NN tea)))))"),
        ("(S (NP (NP tea)))", "(S (NP (NP tea)))"),  # The inner one is a tag.
        ("(S ((NN tea) (NN cup)) (. .))", "(S (NN tea) (NN cup) (. .))"),
        ("(S (((NP (NN tea)))) (. .))", "(S (NP (NN tea)) (. .))"),
        ("((S (NP (NN tea))))", "(S (NP (NN tea)))"),
        ("(ROOT (S (NP (NN tea))))", "(S (NP (NN tea)))"),
        ("( (TOP (S1 (S (NP (NN tea))))))", "(S (NP (NN tea)))"),
        ("(S (ROOT (NN tea)) (. .))", "(S (ROOT (NN tea)) (. .))"),
        ("(FRAG (NN tea))", "(FRAG (NN tea))"),  # Any other label may be the root.
    ],
)
def test_an_annotation_has_one_normal_form(text, expected):
    assert str(normalize_tree(parse_tree(text))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((NP (-NONE- *)))", "must have a word, received only empty elements"),
        ("((NP (NN tea)) (VP-PRD (VB go)))", "must have one root, received 2: NP VP"),
        ("(TOP (NP (NN tea)) (. .))", r"must have one root, received 2: NP \."),
        ("(TOP (NN tea))", r"must be in a bracket, received only \(NN tea\)"),
    ],
)
def test_a_tree_without_one_root_around_words_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        normalize_tree(parse_tree(text))


@given(annotated_trees())
def test_normalizing_twice_is_normalizing_once(tree):
    once = normalized(tree)
    assert normalize_tree(once) == once


@given(annotated_trees())
def test_all_words_but_traces_remain_in_order(tree):
    expected = [leaf.word for leaf in tree.leaves() if leaf.label != "-NONE-"]
    assert normalized(tree).words == expected


@given(annotated_trees())
def test_no_bracket_is_redundant(tree):
    def check(tree):
        assert tree.label and (tree.word or not set("-=|") & set(tree.label))
        for child in tree.children:
            if child.word is None:
                assert len(tree.children) > 1 or child.label != tree.label
            check(child)

    tree = normalized(tree)
    assert tree.word is None and tree.label not in TOP_LABELS
    check(tree)
