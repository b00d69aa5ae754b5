"""Word alignments, checked by hand."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
    train_word_piece,
)
from keras_transformer.translation.alignment import Tokens, align_words, head_names, split_words
from keras_transformer.translation.search import encode
from keras_transformer.translation.translator import Translator
from tests.helpers.parser import TEXTS, parser
from tests.helpers.tiny import (
    ODD,
    languages_tokenizer,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_pairs,
    toy_sentences,
)

LINES = [*toy_sentences(50), "100% of <b>old</b> cats"]
OPTIONS = {
    "bpe": {},
    "unigram": {"model_type": "unigram"},
    "symbols": {"user_symbols": ["<b>", "%"]},
    "tags": {"language_tags": [">>de<<"]},
    "identity": {"normalization": "identity"},
}


@pytest.fixture(scope="module", params=[*OPTIONS, "word pieces"])
def tokenizer(request):
    if request.param == "word pieces":
        return WordPieceTokenizer(train_word_piece(LINES, 300))
    return SentencePieceTokenizer(train_sentencepiece(LINES, 298, **OPTIONS[request.param]))


@pytest.fixture(scope="module")
def translator():
    return tiny_translator(beam_size=1, extra_length=6, max_source_length=24)


def test_the_tokens_of_words_are_those_of_the_text(tokenizer):
    texts = [*LINES, "", "one", "Grüße, naïve 🐕 xyz", "ﬁ Ω≈ 漢字 <s> two", "a" * 90]
    for text, found in zip(texts, split_words(tokenizer, texts, 512), strict=True):
        assert found.ids.tolist() == [*tokenizer.tokenize([text]).to_list()[0], 3]
        assert found.words[-1] == -1
        for i, word in enumerate(text.split()):
            ids = found.ids[found.words == i]
            assert ids.tolist() == tokenizer.tokenize([word]).to_list()[0]


def test_a_tag_is_a_word_without_tokens_to_link():
    vocabulary = train_sentencepiece(LINES, 298, **OPTIONS["tags"])
    tokenizer = SentencePieceTokenizer(vocabulary)
    with_space, without, other = split_words(tokenizer, [">>de<< one", ">>de<<one", ">>de<<"], 512)
    assert with_space.words.tolist() == [-1, 1, -1]
    assert without.words.tolist() == [-1, 0, -1]
    assert other.words.tolist() == [-1, -1]


@pytest.mark.parametrize("comes_last", [False, True])
def test_the_model_reads_the_languages_and_none_has_a_link(comes_last, monkeypatch):
    tokenizer = languages_tokenizer(comes_last)
    languages = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    decoding = DecodingConfig(beam_size=1, max_source_length=5, max_length=5, **languages)
    translator = Translator(
        tiny_model(tokenizer.vocab_size, num_layers=1), tokenizer, None, decoding
    )
    seen, attended = [], translator._attended
    monkeypatch.setattr(
        translator, "_attended", lambda *ids: seen.extend(ids) or attended(*ids), raising=False
    )
    sources, translations = ["one red dog", "two " * 9, ""], ["Hund", "zwei " * 9, "rot"]
    links = translator.align(sources, translations, "1.mean.output").links
    expected = translator.encode_text(tf.constant(sources[:2]))[0]
    np.testing.assert_array_equal(seen[0], expected)
    target = tf.fill([2], tokenizer.languages["deu_Latn"])
    expected = encode(tokenizer, tf.constant(translations[:2]), 5, target)[0]
    np.testing.assert_array_equal(seen[1], expected)
    assert links[0] and {word for _, word in links[0]} == {0} and links[2] == []
    assert {word for _, word in links[1]} <= {0, 1, 2} and min(min(links[1])) >= 0


def test_long_texts_are_cut_off():
    (found,) = split_words(tiny_tokenizer(), ["one two " * 9], 6)
    assert found.words.tolist() == [0, 1, 2, 3, 4, -1]
    (found,) = split_words(tiny_tokenizer(), ["x" * 99], 6)
    assert found.words.tolist() == [0, 0, 0, 0, 0, -1]


def test_words_are_linked_to_what_their_tokens_attend_to(translator):
    """The weights of `inspect` are those of the steps that predict the tokens."""
    texts = toy_sentences(5)
    found = {name: x.numpy() for name, x in translator.inspect(texts).items()}
    ids, _ = translator.encode_text(tf.constant(texts))
    targets = translator.search(*translator.encode_text(tf.constant(texts))).ids[:, 0]
    places = dict(
        zip(
            names := head_names(translator.model.config),
            np.moveaxis(translator._attended(ids, targets).numpy(), 1, 0),
            strict=True,
        )
    )
    assert len(names) == 2 * 2 * 4
    weights, is_token = found["cross_attention"], found["target_tokens"] != b""
    for layer in range(2):
        heads = {f"{head + 1}": weights[:, layer, head] for head in range(3)}
        heads["mean"] = weights[:, layer].mean(axis=1)
        for head, rows in heads.items():
            expected, name = rows.argmax(axis=-1), f"{layer + 1}.{head}"
            np.testing.assert_array_equal(places[f"{name}.output"][is_token], expected[is_token])
            np.testing.assert_array_equal(
                places[f"{name}.input"][:, :-1][is_token[:, 1:]], expected[:, 1:][is_token[:, 1:]]
            )


def test_the_chosen_head_predicts_the_words():
    """Head "all" links all words to the first, and "diagonal" to those in the same place."""
    number = {
        word: i
        for i, word in enumerate(
            sorted({w for p in toy_pairs(120) for w in (*p[0].split(), *p[1].split())}), 4
        )
    }
    sources, targets = (
        [
            Tokens(np.array([*map(number.get, words), 3]), np.array([*range(len(words)), -1]))
            for words in (pair[side].split() for pair in toy_pairs(120))
        ]
        for side in (0, 1)
    )

    def attended(source, target):
        length = (target > 0).sum(axis=1, keepdims=True)
        place = np.tile(np.arange(target.shape[1]), (len(target), 1))
        return tf.constant(np.stack([0 * place, place, np.maximum(length - 2 - place, 0)], axis=1))

    found = align_words(attended, sources, targets, ["all", "diagonal", "reversed"], None)
    assert found.head == "reversed"  # As the words of the toy language are.
    lengths = [len(source.ids) - 1 for source in sources]
    assert found.links == [[(i, n - 1 - i) for i in range(n)] for n in lengths]


def test_any_text_has_links_between_its_words(translator):
    sources = [*ODD, "", "one", ">>de<< one", "one " * 99, "big \ud800 dog"]
    translations = [*ODD, "eins", "", "eins", "eins zwei " * 99, "groß Hund"]
    head = "1.mean.input"
    found = translator.align(sources, translations, head)
    assert found.head == head
    for source, translation, links in zip(sources, translations, found.links, strict=True):
        sizes = len(source.split()), len(translation.split())
        assert links == sorted(set(links))
        assert all(0 <= i < sizes[0] and 0 <= j < sizes[1] for i, j in links)
    assert found.links[len(ODD) : len(ODD) + 2] == [[], []]
    assert translator.align([], [], head).links == []
    assert translator.align(["", " "], ["", "eins"], head).links == [[], []]


def test_links_do_not_depend_on_the_batch(translator):
    sources, translations = zip(*toy_pairs(130), strict=True)
    found = translator.align(sources, translations)
    assert found.head in head_names(translator.model.config)
    for i in (0, 64, 129):
        alone = translator.align(sources[i : i + 1], translations[i : i + 1], found.head)
        assert alone.links == found.links[i : i + 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (["a"], ["b"]),
            "chosen on at least 100 pairs of text, received 1. Align other text first",
        ),
        ((["a"] * 100, ["b"] * 99 + [" "]), "at least 100 pairs of text, received 99"),
        ((["a"], ["b"], "3.1.input"), "from 1.1.input to 2.mean.output, received '3.1.input'"),
        ((["a"], []), "received 1 sources and 0 translations"),
    ],
)
def test_what_cannot_be_aligned_is_an_error(translator, arguments, message):
    with pytest.raises(ValueError, match=message):
        translator.align(*arguments)


def test_what_is_no_list_of_strings_is_an_error(translator):
    with pytest.raises(TypeError, match="sources must be a list of strings, received a single"):
        translator.align("one", "eins", "1.1.input")
    with pytest.raises(TypeError, match="translations must be strings, received None at place 0"):
        translator.align(["one"], [None], "1.1.input")


def test_a_parser_does_not_align():
    with pytest.raises(ValueError, match="A parser cannot align"):
        parser("source", beam_size=1).align(TEXTS[:1], TEXTS[:1], "1.1.input")
