"""Text that changes from pass to pass."""

import random

import numpy as np
import pytest

from keras_transformer.config import UNK_ID
from keras_transformer.config.data import AUGMENTATIONS
from keras_transformer.data import (
    EncodedPairs,
    SubwordDropout,
    TokenBatches,
    encode_pairs,
    pipeline,
)
from keras_transformer.data.augmentation import Augmentation, Changes
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from tests.helpers.pairs import rows_of, two_passes
from tests.helpers.tiny import toy_pairs

SYMBOLS = ["%s", "<b>", "</b>", "<i>", "_"]
TEXT = [(f"{source}.", f"{target}!") for source, target in toy_pairs(1500)]
ALL = {name: 0.1 for name in AUGMENTATIONS}


@pytest.fixture(scope="module")
def tokenizer():
    lines = [side for pair in TEXT for side in pair]
    return SentencePieceTokenizer(
        train_sentencepiece(lines, 360, user_symbols=SYMBOLS, language_tags=[">>de<<", ">>fr<<"])
    )


@pytest.fixture(scope="module")
def pairs(tokenizer):
    return encode_pairs(TEXT, tokenizer, max_length=64)


def texts(tokenizer, pairs):
    """Return the pairs as text, with their tags."""
    sides = []
    for rows in rows_of(pairs):
        tags = [{4: ">>de<< ", 5: ">>fr<< "}.get(row[0], "") for row in rows]
        sides.append([tag + text for tag, text in zip(tags, tokenizer.decode(rows), strict=True)])
    return list(zip(*sides, strict=True))


def changed(pairs, tokenizer, rates, number=0, first=0, members=None, max_length=64):
    augmentation = Augmentation(pairs, (tokenizer, tokenizer), rates, max_length=max_length, seed=3)
    members = np.arange(len(pairs)) if members is None else members
    return texts(tokenizer, augmentation.segment(number, first, members).result())


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("upper", ("Don't %s <b>ß</b> 2nd", "Ä -v é\\n"), ("DON'T %s <b>SS</b> 2ND", "Ä -v É\\n")),
        ("upper", ("%Kmay $[officename]", "5%ige"), ("%KMAY $[officename]", "5%IGE")),
        ("title", ("don't a_b c&d {x} e-f", "über 2nd"), ("Don't A_b C&d {x} E-f", "Über 2nd")),
        ("title", ("ko\u0308ln am", "हिन्दी ab"), ("Ko\u0308ln Am", "हिन्दी Ab")),
        ("no_final_punctuation", ("A dog.", "Ein Hund!"), ("A dog", "Ein Hund")),
        ("no_final_punctuation", ("A dog.", "Ein Hund"), ("A dog.", "Ein Hund")),
        ("no_final_punctuation", ("Open...", "Auf."), ("Open...", "Auf.")),
        ("no_final_punctuation", ("!", "Achtung!"), ("!", "Achtung!")),
        ("no_final_punctuation", ("Look out!", " ."), ("Look out!", " .")),
        ("no_final_punctuation", ("Look out!", "Attention !"), ("Look out", "Attention")),
        ("join", ("A dog.", "Ein Hund!"), ("A dog. two", "Ein Hund! zwei")),
        ("join", ("A dog.", "Ein Hund"), ("A dog.", "Ein Hund")),
        ("join", ("", ""), ("", "")),
        ("typos", ("%s <b> one", "eins"), ("%s <b> one", "eins")),
        ("upper", ("{n, plural, one {dog}}", "x"), ("{n, plural, one {dog}}", "x")),
    ],
)  # fmt: skip
def test_changes_of_a_pair(name, before, after):
    assert Changes(SYMBOLS).apply([name], before, ("two", "zwei"), random.Random(1)) == after


def test_typing_errors_are_in_one_word_of_the_source():
    draw = random.Random(1)
    seen = {Changes([]).apply(["typos"], ("a horse", "x"), None, draw) for _ in range(200)}
    assert {target for _, target in seen} == {"x"}
    words = {source.removeprefix("a ") for source, _ in seen}
    assert {"hrose", "hose", "hoorse"} < words
    assert {word[0] for word in words} == {"h"} and {len(word) for word in words} == {4, 5, 6}


def test_symbols_are_added_at_the_ends_of_both_sides_or_around_them():
    changes, draw = Changes(SYMBOLS), random.Random(1)
    added = {changes.apply(["symbols"], ("a", "b"), None, draw) for _ in range(50)}
    assert added == {("%s a", "%s b"), ("a %s", "b %s"), ("<b>a</b>", "<b>b</b>")}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_rate_is_the_share_of_the_pairs(tokenizer, pairs, name):
    after = changed(pairs, tokenizer, {name: 0.1})
    differ = [(a, b) for a, b in zip(TEXT, after, strict=True) if a != b]
    assert 0.05 < len(differ) / len(TEXT) < 0.13  # Some sentences have no long word.
    if name == "upper":
        assert all(b == (a[0].upper(), a[1].upper()) for a, b in differ)
    if name == "join":
        assert all(b[0].startswith(a[0]) and b[1].startswith(a[1]) for a, b in differ)
        whole = dict(TEXT)
        assert all(whole[b[0][len(a[0]) + 1 :]] == b[1][len(a[1]) + 1 :] for a, b in differ)


def test_seed_pass_and_place_decide(tokenizer, pairs):
    first = changed(pairs, tokenizer, ALL)
    assert changed(pairs, tokenizer, ALL) == first
    assert changed(pairs, tokenizer, ALL, number=1) != first
    assert changed(pairs, tokenizer, ALL, first=9) != first


def test_tags_stay_first_and_only_pairs_of_one_language_are_joined(tokenizer):
    tagged = [(f"{('>>de<<', '>>fr<<')[n % 3 == 0]} {s}", t) for n, (s, t) in enumerate(TEXT)]
    pairs = encode_pairs(tagged, tokenizer, max_length=64)
    after = changed(pairs, tokenizer, {"join": 1.0, "upper": 0.5}, max_length=200)
    for n, (before, (source, _)) in enumerate(zip(tagged, after, strict=True)):
        assert source[:7] == before[0][:7]
        assert source.count(">>") == 1
        is_joined = len(source) > len(before[0])
        assert is_joined == (n % 3 == 1)  # Its successor has the same tag.


def test_a_pair_that_would_be_too_long_or_has_unk_stays(tokenizer, pairs):
    longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
    after = changed(pairs, tokenizer, {"join": 1.0}, max_length=longest)
    encoded = encode_pairs(after, tokenizer, max_length=64)
    assert max(encoded.source_lengths.max(), encoded.target_lengths.max()) <= longest
    assert 0 < sum(a == b for a, b in zip(TEXT, after, strict=True)) < len(TEXT)
    ids = np.array([7, UNK_ID, 300, 301], np.int32)
    unknown = EncodedPairs(ids, np.array([0, 2, 4]), ids, np.array([0, 2, 4]))
    rates = {"upper": 1.0, "symbols": 1.0}
    augmentation = Augmentation(unknown, (tokenizer, tokenizer), rates, max_length=64)
    assert augmentation.changed(0, 0, np.array([0, 1])).source_ids[:2].tolist() == [7, UNK_ID]


def test_symbols_to_add_must_be_in_the_vocabulary(pairs):
    plain = SentencePieceTokenizer(train_sentencepiece(["a b"], 264, user_symbols=["_"]))
    with pytest.raises(ValueError, match=r"such as %s or <b> and </b>, received _\. Set data.user"):
        Augmentation(pairs, (plain, plain), {"symbols": 0.1}, max_length=64)


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("widths", [None, [8, 64]])
def test_batches_differ_from_pass_to_pass_and_resume(tokenizer, pairs, monkeypatch, rate, widths):
    monkeypatch.setattr(pipeline, "_PART", 600)
    sides = (tokenizer, tokenizer)

    def batches():
        vary = Augmentation(pairs, sides, ALL, max_length=64, seed=3)
        if rate:
            vary = SubwordDropout(
                pairs, sides, rate, max_length=64, seed=3, processes=2, before=vary
            )
        return TokenBatches(pairs, 512, seed=3, vary=vary, widths=widths)

    labels = [_tokens(rows) for _, rows in two_passes(batches, 9)[1]]
    seen = {text for rows in labels for text in tokenizer.decode(rows)}
    assert any(text.isupper() for text in seen)
    assert any("<b>" in text for text in seen)
    # Subword dropout splits some of the changed text, too.
    again = [tokenizer.tokenize(tokenizer.decode(rows)).to_list() for rows in labels]
    assert (again == labels) == (not rate)


def _tokens(rows):
    return [[i for i in row if i > 3] for row in rows]
