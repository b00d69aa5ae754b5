"""Spans and terms in translations, with models whose weights are random."""

import functools
import random

import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.protection import Protection
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import ODD, tiny_model, tiny_tokenizer, toy_pairs

SYMBOLS = ["\\n", "%s", "_", "<b>", "</b>", "%d", "<i>", "</i>", "{0}", "~", "&amp;", "%1$s", "%%"]
SPANS = [
    *SYMBOLS,
    *("%1", "%2$s", "%-5.2f", "{name!r:>10}", "%(count)d", "{n, plural, one {# file}}"),
    *("${HOME}", "$(dir)", "%SERVER%", '<a href="x">', "</a>", "<br/>", "&#8230;", "\n", "\t"),
    *("https://keras.io/api", "a.b@example.org", "/etc/fstab", "C:\\new\\dir", "--help", "-v"),
]
PARTS = ["%", "{", "}", "<", "<b", "/>", "&", "$", "100%", "5%d", "\\", "\ufdd0", "\ufdd1", "\x01"]
WORDS = ["one", "dog", "sees", "ﬁ", "漢字", "кот", "red-blue", "and/or", "Dogs", "the"]
TERMS = "dog*\tHund\none dog\tein %s\\1 Hund\nsees the\tC\nred\tdunkel rot\nthe\t<b>\nкот\tKater"


@functools.cache
def make_translator(has_symbols=True, compiled=False, **decoding):
    """Return a translator with random weights, which knows symbols or not."""
    lines = [text for pair in toy_pairs(200) for text in pair]
    tokenizer = tiny_tokenizer()
    if has_symbols:
        options = {"user_symbols": SYMBOLS, "normalization": "identity"}
        tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, 380, **options))
    config = DecodingConfig(**{"beam_size": 1, "extra_length": 4, **decoding})
    return Translator(tiny_model(), tokenizer, decoding=config, compiled=compiled)


def hostile_text(seed):
    """Return a text of spans, parts of spans and words, in any order."""
    choose = random.Random(seed)
    pools = [SPANS, PARTS, WORDS, ODD[:8], choose.sample(SPANS, 2)]
    weights = [choose.choice([0, 1, 3]) for _ in pools]
    pools, weights = ([WORDS, SPANS], [1, 1]) if not any(weights) else (pools, weights)
    count = choose.choice([0, 1, 3, 8, 15, 40])
    space = choose.choice(["", " ", "", "\n"])
    return space.join(choose.choice(choose.choices(pools, weights)[0]) for _ in range(count))


def split(texts, terms=""):
    """Return the pieces of texts, and for each whether it is the target of a term."""
    count = len(texts)
    rows, is_term = Protection().split(texts, ["all"] * count, [terms] * count)
    return rows.to_list(), rows.with_values(is_term).to_list()


def check(sources, translations, terms=""):
    """Assert that translations keep the spans and terms of their sources."""
    pieces, flags = split(sources, terms)
    expected = [b"".join(row).decode() for row in pieces]
    given, found = (split(texts)[0] for texts in (expected, translations))
    for source, translation, row, is_term, spans, kept in zip(
        sources, translations, pieces, flags, given, found, strict=True
    ):
        for span in {*spans[1::2]}:
            assert kept[1::2].count(span) == spans[1::2].count(span), (source, translation, span)
        targets = [piece for piece, is_its in zip(row, is_term, strict=True) if is_its]
        for target in {*targets}:
            assert translation.encode().count(target) >= targets.count(target)
        assert translation.startswith(source[: len(source) - len(source.lstrip())])
        assert translation.endswith(source[len(source.rstrip()) :])


@pytest.mark.parametrize("has_symbols", [True, False])
@pytest.mark.parametrize(
    "decoding",
    [
        {},
        {"beam_size": 3},
        {"temperature": 1.5},
        {"max_length": 3},
        {"no_repeat_ngram_size": 1},
        {"prefix": "one two"},
    ],
    ids=str,
)
def test_hostile_texts_keep_their_spans(decoding, has_symbols):
    sources = [hostile_text(seed) for seed in range(60)]
    translator = make_translator(has_symbols, **decoding)
    check(sources, translate(translator, sources, TERMS), TERMS)


def translate(translator, texts, terms="", protect="all"):
    count = len(texts)
    inputs = ([text.encode() for text in texts], [terms] * count, [protect] * count)
    found = translator.translate_with_terms(*map(tf.constant, inputs))["translation"]
    return [text.decode() for text in found.numpy()]
