import collections

from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data import substitute_subtrees
from keras_transformer.trees import Tree, normalize_tree, parse_tree
from tests.helpers.trees import annotated_trees

TREES = [
    parse_tree(text)
    for text in (
        "(S (NP (PRP We)) (VP (VBD saw) (NP (DT the) (NN cat))))",
        "(S (NP (NP (NN tea)) (PP (IN in) (NP (NNP Delft)))) (VP (VBZ is) (ADJP (JJ hot))))",
        "(S (NP (NNS dogs)) (VP (VBP bark)))",
    )
]


def rules(tree):
    """Return the pairs of a bracket's label and its children's."""
    found = collections.Counter()
    if tree.word is None:
        found[tree.label, tuple(child.label for child in tree.children)] += 1
        for child in tree.children:
            found += rules(child)
    return found


def test_new_trees_have_the_rules_of_the_treebank():
    known = set().union(*map(rules, TREES))
    found = list(substitute_subtrees(TREES, 200))
    assert len(found) == 200
    assert all(set(rules(tree)) <= known for tree in found)
    # Three subjects with three predicates, without the trees themselves.
    assert len({str(tree) for tree in found} - {str(tree) for tree in TREES}) == 6


@settings(deadline=None, max_examples=50)
@given(st.lists(annotated_trees(), min_size=1, max_size=4))
def test_new_trees_are_normalized(annotated):
    trees = []
    for tree in annotated:
        try:
            trees.append(normalize_tree(tree))
        except ValueError:  # Without a word, for example.
            pass
    if trees:
        for tree in substitute_subtrees(trees, 20):
            assert normalize_tree(tree) == tree


def test_the_seed_decides():
    first, again, other = (list(substitute_subtrees(TREES, 30, seed=s)) for s in (4, 4, 5))
    assert first == again != other


def test_trees_do_not_grow_beyond_the_limit():
    found = list(substitute_subtrees(TREES, 100, max_words=6))
    assert max(len(tree.words) for tree in found) == 6


def test_a_single_bracket_stays_as_it_is():
    tree = Tree("NP", (Tree("NN", word="tea"),))
    assert list(substitute_subtrees([tree], 2)) == [tree, tree]
