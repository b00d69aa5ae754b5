"""Random trees, and the treebank if there is one."""

import os

import hypothesis.strategies as st
import pytest

from keras_transformer.trees import Tree

TREEBANK = os.environ.get("KERAS_TRANSFORMER_TREEBANK")
"""A folder with `train.mrg.gz` and `dev.mrg.gz`, which are not part of the repository."""

needs_treebank = pytest.mark.skipif(
    not TREEBANK, reason="KERAS_TRANSFORMER_TREEBANK names no folder with a treebank"
)

# No white space, which separates words, and no half of a surrogate pair, which no file can hold.
# A backslash before a slash is an escape in a tree, as is -LRB-.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\f\v\\")
WORDS = st.text(CHARACTERS, min_size=1, max_size=6).filter(lambda word: "B" not in word)
TAGS = st.sampled_from(["NN", "VB", "DT", ",", ".", "-LRB-", "PRP$", "''"])


def trees(labels, leaves):
    """Return a strategy for trees with these labels of brackets around these leaves."""
    brackets = lambda children: st.builds(  # noqa: E731
        lambda label, parts: Tree(label, tuple(parts)),
        labels,
        st.lists(children, min_size=1, max_size=4),
    )
    return brackets(st.recursive(leaves, brackets, max_leaves=12))


def annotated_trees():
    """Return a strategy for trees as they are annotated: with functions, indices and traces."""
    words = st.builds(lambda tag, word: Tree(tag, word=word), TAGS, WORDS)
    traces = st.builds(
        lambda word: Tree("-NONE-", word=word), st.sampled_from(["*T*-1", "0", "*U*"])
    )
    labels = st.builds(
        "{}{}".format,
        st.sampled_from(["S", "NP", "VP", "ADVP"]),
        st.sampled_from(["", "", "-SBJ", "-SBJ-1", "=2", "|PRT"]),
    )
    return trees(labels | st.just(""), words | words | traces)
