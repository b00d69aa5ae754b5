import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_transformer.evaluation import score_brackets
from keras_transformer.trees import Tree, normalize_tree, parse_tree
from tests.helpers.trees import annotated_trees

REFERENCE = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"


def counts(predicted, reference=REFERENCE):
    """Return the numbers of matched, predicted and reference brackets."""
    scores = score_brackets([parse_tree(predicted)], [parse_tree(reference)])
    return scores.matched, scores.predicted, scores.reference


# The first ones are from the sample that comes with EVALB, with EVALB's own numbers.
@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ("(S (A (P this)) (B (Q is) (A (R a) (T test))))", (4, 4, 4)),
        ("(S (A (P this)) (B (Q is) (C (R a) (T test))))", (3, 4, 4)),
        ("(S (A (P this)) (B (Q is) (A (R a) (U test))))", (4, 4, 4)),
        ("(S (C (P this)) (B (Q is) (A (R a) (U test))))", (3, 4, 4)),
        ("(S (A (P this)) (B (Q is) (R a) (A (T test))))", (3, 4, 4)),
        ("(S (A (P this) (Q is)) (A (R a) (T test)))", (2, 3, 4)),
        ("(S (P this) (Q is) (R a) (T test))", (1, 1, 4)),
        ("(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", (4, 5, 4)),
        ("(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))", (4, 8, 4)),
        ("(TOP (S (A (P this)) (B (Q is) (A (R a) (T test)))))", (4, 4, 4)),
    ],
)
def test_brackets_match_by_label_and_span_one_to_one(predicted, expected):
    assert counts(predicted) == expected


def test_punctuation_does_not_count_nor_does_where_it_is_attached():
    # Without punctuation both are (S (NP Tea) (VP ends)).
    reference = "(S (`` ``) (NP (NN Tea)) (PRN (, ,) (: --)) (VP (VB ends)) (. .) ('' ''))"
    predicted = "(S (NP (XX ``) (XX Tea) (XX ,)) (VP (X (XX --)) (XX ends) (XX .) (XX '')))"
    assert counts(predicted, reference) == (3, 3, 3)


def test_brackets_of_other_symbols_count():
    # EVALB removes only the five tags of punctuation: not -LRB-, $ and #.
    reference = "(S (PRN (-LRB- -LRB-)) (NP ($ $) (CD 5)))"
    assert counts("(S (-LRB- -LRB-) (NP ($ $) (CD 5)))", reference) == (2, 2, 3)


def test_prt_and_advp_are_equal():
    reference = "(VP (VB go) (PRT (RP up)) (ADVP (RB now)))"
    assert counts("(VP (VB go) (ADVP (RP up)) (PRT (RB now)))", reference) == (3, 3, 3)


def test_the_scores_are_those_of_all_brackets_together():
    # By hand: sentence 1 has 4 of 4 predicted and 4 of 4 in the reference; sentence 2 has 2 of 3
    # predicted, with (S 0 4) and (A 2 4) right, and 2 of 4 in the reference.
    predicted = [REFERENCE, "(S (A (P this) (Q is)) (A (R a) (T test)))"]
    scores = score_brackets([parse_tree(text) for text in predicted], [parse_tree(REFERENCE)] * 2)
    assert (scores.matched, scores.predicted, scores.reference) == (6, 7, 8)
    assert scores.precision == pytest.approx(100 * 6 / 7)
    assert scores.recall == pytest.approx(75)
    assert scores.f1 == pytest.approx(80)  # 2 * 6 / (7 + 8)
    assert (scores.complete_match, scores.sentences, scores.errors) == (50, 2, 0)
    assert str(scores) == (
        "F1 80.00, precision 85.71, recall 75.00, complete match 50.00, sentences: 2, errors: 0"
    )


@pytest.mark.parametrize(
    "other",
    [
        None,
        parse_tree("(S (A (P this)) (B (Q was) (A (R a) (T test))))"),
        parse_tree("(S (A (P this)) (B (Q is) (A (R a))))"),
    ],
)
def test_sentences_with_other_words_or_no_tree_are_errors_and_do_not_count(other):
    tree = parse_tree(REFERENCE)
    scores = score_brackets([tree, other], [tree, tree])
    assert (scores.f1, scores.complete_match, scores.sentences, scores.errors) == (100, 100, 1, 1)
    nothing = score_brackets([other], [tree])
    assert (nothing.f1, nothing.precision, nothing.recall, nothing.complete_match) == (0, 0, 0, 0)
    assert (nothing.sentences, nothing.errors) == (0, 1)


def test_long_sentences_can_be_left_out():
    # The length counts punctuation: 4 and 5 words.
    short, long = parse_tree(REFERENCE), parse_tree("(S (A a) (A b) (A c) (A d) (. .))")
    scores = [score_brackets([short, None], [short, long], limit) for limit in (4, 5, None)]
    assert [(score.sentences, score.errors) for score in scores] == [(1, 0), (1, 1), (1, 1)]
    with pytest.raises(ValueError, match="at least one sentence of at most 3 words"):
        score_brackets([short, long], [short, long], 3)


def relabeled(tree, labels):
    """Return a tree whose brackets have the next labels, in order of their starts."""
    if tree.word is not None:
        return tree
    label = next(labels)
    return Tree(label, tuple(relabeled(child, labels) for child in tree.children))


@given(annotated_trees(), st.lists(st.sampled_from(["NP", "VP"]), min_size=1, max_size=3))
def test_f1_is_100_exactly_for_complete_matches(tree, labels):
    try:
        tree = normalize_tree(tree)
    except ValueError:
        assume(False)
    assume(set(tree.tags) - {",", ".", "''"})
    reference, predicted = (
        relabeled(tree, itertools.cycle(labels)) for labels in (["NP", "NP", "VP"], labels)
    )
    assert score_brackets([reference], [reference]).complete_match == 100
    scores = score_brackets([predicted], [reference])
    assert (scores.f1 == 100) == (scores.complete_match == 100)
    assert scores.matched <= scores.predicted == scores.reference


def test_sentences_of_punctuation_do_not_count():
    tree, dots = parse_tree(REFERENCE), parse_tree("(FRAG (. .) (: ...))")
    scores = score_brackets([tree, dots, None], [tree, dots, dots])
    assert (scores.sentences, scores.errors, scores.complete_match) == (1, 0, 100)


def test_each_tree_needs_a_reference():
    tree = parse_tree(REFERENCE)
    with pytest.raises(ValueError, match="received 1 predicted trees and 2 references"):
        score_brackets([tree], [tree, tree])
    with pytest.raises(ValueError, match="needs at least one sentence, received an empty list"):
        score_brackets([], [])
