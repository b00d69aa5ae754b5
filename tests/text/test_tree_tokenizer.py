import itertools
import json

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import TreeTokenizer
from keras_transformer.text.files import read_tokenizers
from keras_transformer.text.tree_tokenizer import tree_vocabulary
from keras_transformer.trees import Tree, delinearize, join_words, linearize, parse_tree
from tests.helpers.arrays import decoded
from tests.helpers.trees import TAGS, TREEBANK, WORDS, needs_treebank, trees

LABELS = ["S", "NP", "VP", "WHNP"]
TREE = "(S (NP (PRP We)) (VP (VBD had) (NP (NN tea))))"
KINDS = ["none", "source", "target"]

# A tag with a slash, or a word that is empty without it, can't be told from a word in the source.
random_trees = trees(
    st.sampled_from(LABELS), st.builds(lambda tag, word: Tree(tag, word=word), TAGS, WORDS)
)


def tokenizer_for(word_tags, examples=(), **options):
    example = Tree("S", (Tree("WHNP", (Tree("VP", (Tree("NP", (Tree("NN", word="a"),)),)),)),))
    tags = Tree("S", tuple(Tree(tag, word="a") for tag in "NN VB DT , . -LRB- PRP$ ''".split()))
    found = [example, tags, *examples]
    return TreeTokenizer(tree_vocabulary(found, word_tags=word_tags, **options))


TOKENIZERS = {kind: tokenizer_for(kind) for kind in KINDS}


def source_of(tree, word_tags):
    return join_words(tree.words, tree.tags if word_tags == "source" else None)


def numbered(tree, word_tags):
    """Return the tokens of a tree, with the numbers of its words."""
    numbers, tags = itertools.count(), iter(tree.tags)
    tokens = []
    for token in linearize(tree):
        tokens.append(f"XX{next(numbers) % 128 + 1}" if token == "XX" else token)
        if token == "XX" and word_tags == "target":
            tokens.append(next(tags))
    return tokens


def without_tags(tree):
    return delinearize(linearize(tree), tree.words)


@settings(deadline=None, max_examples=100)
@given(st.lists(random_trees, min_size=1, max_size=4))
@pytest.mark.parametrize("word_tags", KINDS)
def test_trees_survive_the_round_trip(word_tags, examples):
    tokenizer = TOKENIZERS[word_tags]
    ids = tokenizer.tokenize([str(tree) for tree in examples])
    tokens = [tokenizer.id_to_piece(row) for row in ids.numpy()]
    assert tokens == [numbered(tree, word_tags) for tree in examples]
    sources = [source_of(tree, word_tags) for tree in examples]
    assert tokenizer.count_words(sources).numpy().tolist() == [len(t.words) for t in examples]
    expected = [str(tree if word_tags != "none" else without_tags(tree)) for tree in examples]
    assert decoded(tokenizer.write(ids.to_tensor(), tf.constant(sources))) == expected


@needs_treebank
@pytest.mark.parametrize("word_tags", KINDS)
def test_the_treebank_survives_the_round_trip(word_tags):
    from keras_transformer.data import read_trees

    found = read_trees(f"{TREEBANK}/train.mrg.gz") + read_trees(f"{TREEBANK}/dev.mrg.gz")
    tokenizer = TreeTokenizer(tree_vocabulary(found, word_tags=word_tags))
    ids = tokenizer.tokenize([str(tree) for tree in found]).to_tensor()
    written = tokenizer.write(ids, tf.constant([source_of(tree, word_tags) for tree in found]))
    expected = [str(tree if word_tags != "none" else without_tags(tree)) for tree in found]
    assert decoded(written) == expected


def test_tokens_of_a_tree_name_the_positions_of_words():
    ids = TOKENIZERS["none"].tokenize([TREE])[0].numpy()
    pieces = "(S (NP XX1 )NP (VP XX2 (NP XX3 )NP )VP )S"
    assert TOKENIZERS["none"].id_to_piece(ids) == pieces.split()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("(S (NP (DT the)", ["(S", "(NP", "XX1"]),
        (")) (", ["<unk>", "<unk>", "<unk>"]),
        (") (S (NN x))", ["<unk>", "(S", "XX1", ")S"]),
        ("(S (XP (NN a)))", ["(S", "<unk>", "XX1", "<unk>", ")S"]),
        ("(S a (NP b c) )", ["(S", "XX1", "(NP", "XX2", "XX3", ")NP", ")S"]),
        ("hello", ["XX1"]),
    ],
)
def test_other_text_has_tokens_too_and_leaves_its_neighbors_alone(text, tokens):
    tokenizer = TOKENIZERS["none"]
    rows = tokenizer.tokenize([TREE, text, TREE]).numpy()
    assert tokenizer.id_to_piece(rows[1]) == tokens
    after = tokenizer.tokenize(["(S (NP", text])[1].numpy()
    assert after.tolist() == list(rows[1])
    assert rows[0].tolist() == rows[2].tolist() == tokenizer.tokenize([TREE])[0].numpy().tolist()


def test_an_unknown_tag_is_unk_where_tags_are_tokens():
    ids = TOKENIZERS["target"].tokenize(["(S (ZZ a) (NN b))"])[0].numpy()
    assert TOKENIZERS["target"].id_to_piece(ids) == ["(S", "XX1", "<unk>", "XX2", "NN", ")S"]


def test_a_word_without_a_tag_of_its_own_has_none():
    tokenizer = TOKENIZERS["target"]
    first, last = tokenizer.word_ids[0], tokenizer.word_ids[-1]
    ids = tf.constant([[tokenizer.open_ids[0], first, last, tokenizer.tag_ids[0]]])
    tag = tokenizer.id_to_piece(tokenizer.tag_ids)[0]
    assert decoded(tokenizer.detokenize(ids)) == [f"(NP (XX XX) ({tag} XX)"]


@pytest.mark.parametrize(
    ("words", "tree"),
    [
        ("We had tea", "(S (NP (XX We)) (VP (XX had) (NP (XX tea))))"),
        ("We", "(S (NP (XX We)) (VP (XX XX) (NP (XX XX))))"),
        ("We had (tea [here", "(S (NP (XX We)) (VP (XX had) (NP (XX -LRB-tea))) (XX -LSB-here))"),
    ],
)
def test_words_fill_a_tree_from_the_left_and_the_rest_is_added_to_its_root(words, tree):
    tokenizer = TOKENIZERS["none"]
    ids = tokenizer.tokenize([TREE]).to_tensor()
    assert decoded(tokenizer.write(ids, tf.constant([words]))) == [tree]
    parse_tree(tree)


def test_no_tree_has_no_text():
    nothing = tf.constant([[0, 3, 0]])
    assert decoded(TOKENIZERS["none"].write(nothing, tf.constant(["We left"]))) == [""]


def test_given_tags_come_back():
    tokenizer = TOKENIZERS["source"]
    ids = tokenizer.tokenize([TREE]).to_tensor()
    written = tokenizer.write(ids, tf.constant(["We/PRP 1/2/CD )/-RRB-"]))
    assert decoded(written) == ["(S (NP (PRP We)) (VP (CD 1/2) (NP (-RRB- -RRB-))))"]
    short = tokenizer.tokenize(["(S (NP (PRP We)))"]).to_tensor()
    assert decoded(tokenizer.write(short, tf.constant(["We/PRP had/VBD"]))) == [
        "(S (NP (PRP We)) (VBD had))"
    ]
    assert decoded(tokenizer.write(ids, tf.constant(["We had/ /tea"]))) == [
        "(S (NP (XX We)) (VP (XX had/) (NP (XX /tea))))"
    ]


def test_a_tree_without_its_words_has_placeholders():
    ids = TOKENIZERS["target"].tokenize(["(S (NP (NN tea)) (VB is))"])
    assert decoded(TOKENIZERS["target"].detokenize(ids)) == ["(S (NP (NN XX)) (VB XX))"]


def test_max_length_counts_tokens_of_any_words():
    tree = f"(S (NP (NN {'a' * 5000})) (VP (VB is)))"
    assert TOKENIZERS["none"].tokenize([tree], 5).row_lengths().numpy().tolist() == [5]


def test_a_vocabulary_has_room_for_more_tokens(tmp_path):
    tokenizer = tokenizer_for("none", vocab_size=150)
    assert tokenizer.vocab_size == 150 > max(tokenizer.close_ids) + 1
    tokenizer.save(tmp_path / "target.model")
    _, loaded = read_tokenizers([tmp_path / "target.model"] * 2, "bpe")
    assert loaded.model == tokenizer.model


def test_a_vocabulary_that_is_too_small_says_what_it_needs():
    with pytest.raises(ValueError, match=r"4 labels and 0 tags needs 140 .* 139\. "):
        tokenizer_for("none", vocab_size=139)
    with pytest.raises(ValueError, match="at least one tree, received an empty list"):
        tree_vocabulary([])


def vocabulary(labels=("S",), **changes):
    content = {"labels": labels, "tags": [], "words": 2, "word_tags": "none", "vocab_size": 8}
    return json.dumps(content | changes).encode()


def test_the_smallest_vocabulary_has_one_label():
    tokenizer = TreeTokenizer(vocabulary(words=1, vocab_size=7))
    assert tokenizer.id_to_piece(range(4, 7)) == ["XX1", "(S", ")S"]


def test_numbers_start_again_after_the_last():
    tokenizer = TreeTokenizer(vocabulary())
    ids = tokenizer.tokenize(["(S (A a) (B b) (C c))", "(S (A a))"])
    assert ids.numpy()[0].tolist() == [6, 4, 5, 4, 7]
    assert ids.numpy()[1].tolist() == [6, 4, 7]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        vocabulary([]),
        vocabulary(["S", "S"], vocab_size=10),
        vocabulary("SN", vocab_size=10),
        vocabulary(vocab_size=7),
        vocabulary(vocab_size=8.0),
        vocabulary(words=0),
        vocabulary(words="2"),
        vocabulary(word_tags="some"),
        vocabulary(word_tags="target"),
        vocabulary(tags=["NN"], vocab_size=9),
    ],
)
def test_another_file_is_no_vocabulary(content):
    with pytest.raises(ValueError, match="a vocabulary of trees must be JSON"):
        TreeTokenizer(content)
