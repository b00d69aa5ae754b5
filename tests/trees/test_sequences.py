import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_transformer.data.trees import trees_or_problems
from keras_transformer.trees import (
    delinearize,
    join_words,
    linearize,
    normalize_tree,
    parse_tree,
    split_words,
)
from tests.helpers.trees import TAGS, TREEBANK, WORDS, annotated_trees, needs_treebank

TEXT = "(S (NP (PRP We)) (VP (VBD had) (NP (NN tea))) (. .))"
TOKENS = "(S (NP XX )NP (VP XX (NP XX )NP )VP XX )S"


def test_a_tree_is_a_sequence_of_typed_brackets_and_one_token_a_word():
    assert linearize(parse_tree(TEXT)) == TOKENS.split()
    tree = delinearize(TOKENS.split(), ["We", "had", "tea", "."], ["PRP", "VBD", "NN", "."])
    assert str(tree) == TEXT


def test_without_tags_all_tags_are_unknown():
    tree = delinearize(TOKENS.split(), ["We", "had", "(", "."])
    assert str(tree) == "(S (NP (XX We)) (VP (XX had) (NP (XX -LRB-))) (XX .))"


@given(annotated_trees())
def test_any_normalized_tree_comes_back(tree):
    try:
        tree = normalize_tree(tree)
    except ValueError:
        assume(False)
    text = " ".join(linearize(tree))
    words, tags = split_words(join_words(tree.words, tree.tags), tagged=True)
    assert delinearize(text.split(" "), words, tags) == tree


@needs_treebank
@pytest.mark.parametrize(("name", "count"), [("train", 3396), ("dev", 273)])
def test_every_tree_of_the_treebank_comes_back(name, count):
    trees = list(trees_or_problems(f"{TREEBANK}/{name}.mrg.gz"))
    assert len(trees) == count
    for tree in trees:
        words, tags = split_words(join_words(tree.words, tree.tags), tagged=True)
        assert delinearize(linearize(tree), words, tags) == tree
        assert parse_tree(str(tree)) == normalize_tree(tree) == tree


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("", "must close all brackets, received 0 open ones"),
        ("(S XX XX", "must close all brackets, received 1 open ones"),
        ("XX XX", "token 1, 'XX', must open a bracket"),
        (")S", r"token 1, '\)S', must open a bracket"),
        ("( XX XX )", r"token 1, '\(', must open a bracket"),
        ("(S XX XX )S )S", r"token 5, '\)S', must not follow the end of the tree"),
        ("(S XX XX )S (S", r"token 5, '\(S', must not follow the end of the tree"),
        ("(S XX XX )NP", r"token 4, '\)NP', must be a word or a bracket, or close \(S"),
        ("(S XX tea )S", r"token 3, 'tea', must be a word or a bracket, or close \(S"),
        ("(S (NP )NP XX XX )S", r"token 3, '\)NP', must not close an empty bracket"),
        ("(S XX XX XX )S", "token 4, 'XX', must not follow the last of 2 words"),
        ("(S XX )S", "must hold 2 words, received 1"),
    ],
)
def test_what_is_not_a_tree_over_the_words_is_rejected(tokens, message):
    with pytest.raises(ValueError, match=message):
        delinearize(tokens.split(), ["two", "words"])


def test_each_word_needs_one_tag():
    with pytest.raises(ValueError):
        delinearize(["(S", "XX", ")S"], ["tea"], ["NN", "NN"])
    with pytest.raises(ValueError):
        join_words(["tea"], ["NN", "NN"])


@given(st.lists(st.tuples(WORDS, TAGS)))
def test_a_sentence_comes_back_with_and_without_tags(pairs):
    words, tags = [word for word, _ in pairs], [tag for _, tag in pairs]
    assert split_words(join_words(words, tags), tagged=True) == (words, tags)
    assert split_words(join_words(words), tagged=False) == (words, None)


@pytest.mark.parametrize("part", ["tea", "/NN", "tea/"])
def test_a_tagged_sentence_needs_a_tag_for_each_word(part):
    with pytest.raises(ValueError, match=f"a slash and its tag, received {re.escape(repr(part))}"):
        split_words(f"the/DT {part}", tagged=True)
