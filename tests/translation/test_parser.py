"""Translators whose results are trees."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.plots import sentence_attention
from keras_transformer.translation import compiled_search
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import linearize, parse_tree, split_words, unescape
from tests.helpers.arrays import decoded
from tests.helpers.parser import TEXTS, parser
from tests.helpers.tiny import NO_UTF8, tiny_translator


def check(tree, text, word_tags="none"):
    """Assert that a tree is one over exactly the words of a text, and "" without words."""
    words, _ = split_words(text, tagged=False)
    found = parse_tree(tree).words if tree else []
    if word_tags == "source":  # A word with a slash may be a word with its tag.
        words = [word.rpartition("/")[0] or word for word in words if not word.endswith("/")]
        found = [word for word in found if not word.endswith("/")]
    assert found == [unescape(word) for word in words]


@pytest.mark.parametrize(
    ("beam_size", "word_tags"),
    [
        (1, "none"),
        pytest.param(1, "source", marks=pytest.mark.slow),
        pytest.param(1, "target", marks=pytest.mark.slow),
        (3, "none"),
        pytest.param(3, "source", marks=pytest.mark.slow),
        pytest.param(3, "target", marks=pytest.mark.slow),
    ],
)
def test_any_text_has_a_tree_over_its_words(beam_size, word_tags):
    translator = parser(word_tags, beam_size=beam_size)
    assert translator.makes_trees
    found = translator(TEXTS, batch_size=7)
    assert len(set(found)) > 15
    for text, tree in zip(TEXTS, found, strict=True):
        check(tree, text, word_tags)


def test_a_translator_of_text_makes_no_trees():
    assert not tiny_translator().makes_trees


def test_a_sentence_alone_has_the_tree_that_it_has_in_a_batch():
    translator = parser()
    assert [translator(text) for text in TEXTS[:5]] == translator(TEXTS)[:5]


@pytest.mark.slow
def test_bytes_that_are_no_text_have_trees():
    translator = parser(beam_size=1, renormalize=False)
    trees = translator.translate(tf.constant(NO_UTF8))
    for text, tree in zip(NO_UTF8, decoded(trees), strict=True):
        assert len(parse_tree(tree).words) == len(text.decode("utf-8", "replace").split())
    scores = translator.score(tf.constant(NO_UTF8), trees)["score"]
    assert (scores.numpy() > -100).all()


@pytest.mark.parametrize("temperature", [None, pytest.param(2.0, marks=pytest.mark.slow)])
def test_all_hypotheses_are_trees(temperature):
    found = parser(num_hypotheses=3, temperature=temperature).n_best(tf.constant(TEXTS[:4]))
    for text, trees in zip(TEXTS, found["translations"].numpy(), strict=False):
        for tree in trees:
            check(tree.decode(), text)
        assert temperature or len(set(trees)) == 3  # Samples may be equal.
    assert (np.diff(found["scores"]) <= 0).all()


def test_words_beyond_the_longest_source_are_added_to_the_root():
    text = " ".join(TEXTS[0].split() * 300)
    tree = parse_tree(parser()(text))
    assert tree.words == text.split()
    last = [child.word for child in tree.children[-1000:]]
    assert last == text.split()[-1000:]


@pytest.mark.slow
def test_a_tree_has_room_whatever_the_limits_are():
    for word_tags, limits in (
        ("target", {"extra_length": 0}),
        ("none", {"max_length": 2}),
        ("target", {"length_factor": 0.0}),
    ):
        check(parser(word_tags, beam_size=1, **limits)(TEXTS[0]), TEXTS[0])


@pytest.mark.slow
def test_score_reads_a_tree_that_is_longer_than_other_translations_may_be():
    translator, text = parser("target", beam_size=1, renormalize=False), ["the dog sees " * 7]
    found = translator.translate_with_scores(text)
    scored = translator.score(tf.constant(text), found["translation"])
    assert scored["length"].numpy() == found["length"].numpy() == [2 * 21 + 3]


def test_score_reads_the_tree_that_translate_writes():
    translator = parser(beam_size=1, renormalize=False)
    trees = translator.translate(TEXTS[:3])
    ids = translator.target_tokenizer.tokenize(trees)
    tokens = [translator.target_tokenizer.id_to_piece(row) for row in ids.numpy()]
    without_numbers = [[re.sub(r"^XX\d+$", "XX", token) for token in row] for row in tokens]
    assert without_numbers == [linearize(parse_tree(tree)) for tree in decoded(trees)]
    found = translator.score(tf.constant(TEXTS[:3]), trees)
    assert found["length"].numpy().tolist() == [len(row) + 1 for row in tokens]
    assert (found["score"].numpy() < 0).all()


def test_attention_is_that_of_a_tree():
    found = sentence_attention(parser(beam_size=1), TEXTS[0])
    assert found.written[0].startswith("(") and found.written[-1] == "</s>"
    rows = parser(beam_size=1).attention(tf.constant(TEXTS[:1]))
    assert decoded(rows["target_tokens"][0])[: len(found.written)] == found.written


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": "(S (NN a)"},
        {"min_length": 3},
        {"no_repeat_ngram_size": 2},
        {"repetition_penalty": 1.5},
        {"allow_unknown": True},
    ],
)
def test_options_that_contradict_the_rules_of_trees_are_refused(options):
    plain = parser()
    with pytest.raises(ValueError, match=rf"received {next(iter(options))}=.* Leave it out"):
        tokenizers = plain.tokenizer, plain.target_tokenizer
        Translator(plain.model, *tokenizers, DecodingConfig(**options))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_compiled_parser_finds_the_same_trees(device, monkeypatch):
    for sizes in ("BATCH_SIZES", "GPU_BATCH_SIZES"):
        monkeypatch.setattr(compiled_search, sizes, (1, 9))  # Fewer shapes to compile.
    compiled = parser("target", compiled=True, device=device, beam_size=2)
    assert compiled(TEXTS) == parser("target", beam_size=2)(TEXTS)
    assert compiled(TEXTS[0]) == parser("target", beam_size=2)(TEXTS[0])


@pytest.mark.slow
def test_a_saved_parser_is_loaded_with_its_trees(tmp_path):
    parser("target").save(tmp_path / "parser")
    loaded = Translator.load(tmp_path / "parser")
    assert loaded.target_tokenizer.word_tags == "target"
    assert loaded(TEXTS[:4]) == parser("target")(TEXTS[:4])
