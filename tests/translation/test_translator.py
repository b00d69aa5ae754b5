import copy
import pickle
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.config import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    DecodingConfig,
    TransformerConfig,
)
from keras_transformer.decoding import beam_search, take_rows
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    languages_tokenizer,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

SENTENCES = toy_sentences(14)
# One translator for most tests, because each traces its own graphs.
GREEDY = {"beam_size": 1, "extra_length": 6, "max_source_length": 24}


def source_ids(translator, sentence):
    return [*translator.tokenizer.tokenize([sentence])[0].numpy(), EOS_ID]


def full_pass(translator):
    """Return a function from source ids and B target prefixes to the next logits [B, V]."""
    ids = tf.TensorSpec([None, None], tf.int32)
    call = tf.function(
        lambda source, target: translator.model({"source": source, "target": target})[:, -1],
        input_signature=[ids, ids],
        autograph=False,
    )

    def next_logits(source, target):
        logits = call(tf.tile([source], [len(target), 1]), target).numpy()
        logits[:, [PAD_ID, UNK_ID, BOS_ID]] = -1e9
        return logits

    return next_logits


def search_by_hand(translator, sentences):
    """Return the best ids and scores of a search that decodes all prefixes at each step, alone."""
    next_logits, decoding = full_pass(translator), translator.decoding
    ids, scores = [], []
    for sentence in sentences:
        source = source_ids(translator, sentence)

        def step(ids, parents, position, history, source=source):
            history = tf.concat([take_rows(history, parents), ids[:, tf.newaxis]], axis=1)
            return tf.nn.log_softmax(next_logits(source, history.numpy())), history

        result = beam_search(
            step,
            tf.zeros([decoding.beam_size, 0], tf.int32),
            max_lengths=[len(source) + decoding.extra_length],
            beam_size=decoding.beam_size,
            length_penalty=decoding.length_penalty,
        )
        ids.append(result.ids[0, 0].numpy().tolist())
        scores.append(result.scores[0, 0].numpy())
    return ids, scores


def search(translator, sentences):
    """Return the best ids of each sentence, without padding, and their scores."""
    result = translator.search(*translator.encode_text(tf.constant(sentences)))
    rows = zip(result.ids[:, 0].numpy(), result.lengths[:, 0].numpy(), strict=True)
    return [ids[:length].tolist() for ids, length in rows], result.scores[:, 0].numpy()


def detokenized(tokenizer, ids):
    return [text.decode() for text in tokenizer.detokenize(tf.ragged.constant(ids)).numpy()]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_translation_depends_only_on_its_sentence(beam_size):
    translator = tiny_translator(**{**GREEDY, "beam_size": beam_size})
    sentences = [*SENTENCES, *ODD]
    alone = [translator([sentence])[0] for sentence in sentences]
    assert len(set(alone)) > len(SENTENCES) / 2
    for batch_size in (1, 5, 64):
        assert translator(sentences, batch_size) == alone
    assert translator(sentences[::-1], batch_size=7) == alone[::-1]
    assert translator(sentences * 2) == alone * 2


def test_empty_texts_have_empty_translations():
    translator = tiny_translator(**GREEDY)
    assert translator([]) == []
    assert translator(["", "one", " \t ", "\n", "\u3000"])[::2] == ["", "", ""]
    assert translator.translate(tf.constant([], tf.string)).shape == (0,)


def test_any_bytes_are_translated_to_valid_utf8():
    translator = tiny_translator(**{**GREEDY, "beam_size": 3})
    translate = tf.function(translator.translate)
    texts = [*NO_UTF8, *(text.encode() for text in [*ODD, *SENTENCES])]
    together = translate(tf.constant(texts)).numpy()
    assert [translate(tf.constant([text])).numpy()[0] for text in texts] == together.tolist()
    for translation in together:
        translation.decode("utf-8")


def test_a_lone_surrogate_is_translated_like_its_bytes():
    translator = tiny_translator(**GREEDY)
    expected = translator.translate(tf.constant([b"one \xed\xb3\xbf"])).numpy()[0].decode()
    assert translator(["one \udcff"]) == [expected]


@pytest.mark.parametrize(
    "options",
    [
        GREEDY,
        {"beam_size": 3, "extra_length": 4, "length_penalty": 0.0},
        {"beam_size": 3, "extra_length": 4, "length_penalty": 1.0},
    ],
)
def test_a_search_equals_one_over_full_passes(options):
    translator = tiny_translator(**options)
    sentences = SENTENCES if options is GREEDY else SENTENCES[:4]
    expected_ids, expected_scores = search_by_hand(translator, sentences)
    ids, scores = search(translator, sentences)
    assert ids == expected_ids
    np.testing.assert_allclose(scores, expected_scores, atol=1e-5)
    source, lengths = translator.encode_text(tf.constant(sentences))
    found = translator.search(source, lengths, num_hypotheses=options["beam_size"])
    for i in range(options["beam_size"]):  # Also tokens that their text is not split into.
        given = translator.score_ids(source, found.ids[:, i])
        np.testing.assert_allclose(given, found.scores[:, i], atol=1e-5)
    assert translator(sentences) == detokenized(tiny_tokenizer(), expected_ids)
    if options is GREEDY:
        assert 3 < len({len(row) for row in ids})
    else:
        assert ids != search(tiny_translator(**GREEDY), sentences)[0]


def test_a_translation_exceeds_its_source_by_at_most_extra_length_tokens():
    long, short = (tiny_translator(beam_size=1, extra_length=extra) for extra in (6, 0))
    limits = [len(source_ids(short, sentence)) for sentence in SENTENCES]  # Both count eos.
    ids = search(long, SENTENCES)[0]
    at_the_limit = [len(row) == limit + 6 for row, limit in zip(ids, limits, strict=True)]
    assert any(at_the_limit) and not all(at_the_limit)
    assert all(len(row) <= limit + 6 for row, limit in zip(ids, limits, strict=True))
    cut = [row[:limit] for row, limit in zip(ids, limits, strict=True)]
    assert search(short, SENTENCES)[0] == cut


@pytest.mark.parametrize("beam_size", [1, 3])
def test_no_translation_has_more_than_max_length_tokens(beam_size):
    translator = tiny_translator(beam_size=beam_size, extra_length=6, max_length=4)
    ids = search(translator, SENTENCES)[0]
    assert all(len(row) == 4 or row[-1] == EOS_ID for row in ids)
    assert max(map(len, ids)) == 4


def test_a_tag_that_the_model_lacks_is_warned_of():
    vocabulary = train_sentencepiece(toy_sentences(50), 298, language_tags=[">>de<<", ">>fr<<"])
    tokenizer = SentencePieceTokenizer(vocabulary)
    model = tiny_model(tokenizer.vocab_size, num_layers=1)
    translator = Translator(model, tokenizer, decoding=DecodingConfig(**GREEDY))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator([">>de<< one", "two >>es<<", ">> one", "one"])
    with pytest.warns(UserWarning, match=r"no tag >>es<<, which .* It has >>de<<, >>fr<<\."):
        translator([">>es<< one", ">>de<< one"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_translator_that_has_translated_can_be_copied(copied):
    translator = tiny_translator(num_layers=1, beam_size=1)
    expected = translator(SENTENCES)
    assert copied(translator)(SENTENCES) == expected


@pytest.mark.parametrize("limit", ["_MAX_TOKENS", "_MAX_LOGITS"])
def test_scores_do_not_depend_on_the_parts_they_are_computed_in(limit, monkeypatch):
    translations = SENTENCES[::-1]
    whole = tiny_translator().score(SENTENCES, translations)
    most = 40 if limit == "_MAX_TOKENS" else 40 * tiny_translator().model.config.target_size
    monkeypatch.setattr(f"keras_transformer.translation.teacher_forcing.{limit}", most)
    parts = tiny_translator().score(SENTENCES, translations)
    np.testing.assert_allclose(parts["score"], whole["score"], rtol=1e-5)
    assert parts["score"].shape == (len(SENTENCES),)
    assert len(set(np.round(whole["score"], 3))) > len(SENTENCES) / 2


@pytest.mark.slow
def test_a_text_has_the_score_of_the_search_if_it_is_split_into_the_same_tokens():
    translator, text = tiny_translator(beam_size=3, extra_length=4), tf.constant(SENTENCES)
    listed = translator.n_best(text)
    source, lengths = translator.encode_text(text)
    ids = translator.search(source, lengths, num_hypotheses=3).ids
    is_same = []
    for i in range(3):
        texts, expected = listed["translations"][:, i], listed["scores"][:, i]
        np.testing.assert_allclose(translator.score_ids(source, ids[:, i]), expected, atol=1e-5)
        split = translator.target_tokenizer.tokenize(texts).to_list()
        found = tf.RaggedTensor.from_tensor(ids[:, i], padding=PAD_ID).to_list()
        same = [[*one, EOS_ID] == other for one, other in zip(split, found, strict=True)]
        difference = np.abs(translator.score(text, texts)["score"] - expected)
        assert ((difference < 1e-4) == same).all()
        is_same += same
    assert 5 < sum(is_same) < len(is_same) - 5


def test_a_long_source_is_cut_off():
    translator = tiny_translator(beam_size=1, extra_length=6, max_source_length=4)
    whole = tiny_translator(**GREEDY)
    ids, lengths = translator.encode_text(tf.constant(["one two red blue dog", "cat"]))
    one_two_red = source_ids(whole, "one two red")
    assert ids.numpy().tolist() == [one_two_red, [*source_ids(whole, "cat"), PAD_ID, PAD_ID]]
    assert lengths.numpy().tolist() == [4, 2]
    assert translator(["one two red blue dog"]) == whole(["one two red"])
    assert whole(["one two red blue dog"]) != whole(["one two red"])


def test_a_document_is_translated_sentence_by_sentence():
    translator = tiny_translator(**GREEDY)
    sentences = [f"{text.capitalize()}." for text in SENTENCES]
    text = "  {} {}\n\n- {}\n***\n{}\t{}\n".format(*sentences)
    found = dict(zip(sentences, translator(sentences), strict=True))
    (item,) = translator([f"- {sentences[2]}"])
    expected = "  {} {}\n\n{}\n***\n{}\t{}\n".format(
        *(found[sentence] for sentence in sentences[:2]), item, *map(found.get, sentences[3:5])
    )
    texts = [text, "", " \n", "12.", *sentences * 9]
    assert translator.documents([]) == []
    assert translator.documents(texts) == [expected, "", " \n", "12.", *list(found.values()) * 9]
    assert translator.document(text, terms={"dog": "Hund"}).count("Hund") == text.count("dog")
    graph = translator.translate_document(tf.constant(texts))["translation"]
    assert [text.decode() for text in graph.numpy()] == translator.documents(texts)


def test_no_word_of_a_long_sentence_is_cut_off():
    translator = tiny_translator(**GREEDY)
    long = ["one two, three four " * 60, "漢" * 200, "a" * 500]
    _, pieces = translator._split(tf.constant(long))
    assert [b"".join(row).decode() for row in pieces.to_list()] == long
    limit = GREEDY["max_source_length"]
    assert (translator.tokenizer.tokenize(pieces.values).row_lengths().numpy() < limit).all()
    assert b"one two," in pieces.to_list()[0]
    for text, found in zip(long, translator.documents(long), strict=True):
        assert found == translator.translate_document([text])["translation"][0].numpy().decode()


@pytest.mark.parametrize("banned", [PAD_ID, UNK_ID, BOS_ID])
def test_no_translation_contains_padding_bos_or_unk(banned):
    model, sentence = tiny_model(num_layers=1), SENTENCES[0]
    embeddings = model.output_embedding.embeddings.numpy()
    plain = tiny_translator(num_layers=1, **GREEDY)
    favourite = search(plain, [sentence])[0][0][0]
    embeddings[banned] = 2 * embeddings[favourite]
    model.output_embedding.embeddings.assign(embeddings)
    source = tf.constant([source_ids(plain, sentence)])
    logits = model({"source": source, "target": tf.constant([[BOS_ID]])})
    assert np.argmax(logits) == banned
    for beam_size in (1, 3):
        decoding = DecodingConfig(beam_size=beam_size, extra_length=6)
        translator = Translator(model, tiny_tokenizer(), decoding=decoding)
        assert not {PAD_ID, UNK_ID, BOS_ID} & set(search(translator, [sentence])[0][0])


@pytest.mark.slow
def test_methods_of_a_temporary_translator_work():
    expected = tiny_translator(**GREEDY)(SENTENCES)
    decoding = DecodingConfig(**GREEDY)
    received = Translator(tiny_model(), tiny_tokenizer(), decoding=decoding).translate(SENTENCES)
    assert [text.decode() for text in received.numpy()] == expected


def test_each_language_may_have_its_own_vocabulary():
    source, target = tiny_tokenizer(330, sides=(0,)), tiny_tokenizer(350, sides=(1,))
    model = tiny_model(330, target_vocab_size=350, num_layers=1)
    translator = Translator(model, source, target, DecodingConfig(beam_size=1, extra_length=6))
    assert translator(SENTENCES) == detokenized(target, search_by_hand(translator, SENTENCES)[0])


def test_tokenizers_of_other_sizes_are_rejected():
    joint, source = tiny_tokenizer(), tiny_tokenizer(330, sides=(0,))
    with pytest.raises(
        ValueError, match=r"380 \(source\) and 380 \(target\); received 330 and 330"
    ):
        Translator(tiny_model(), source)
    with pytest.raises(
        ValueError, match=r"330 \(source\) and 350 \(target\); received 330 and 380"
    ):
        Translator(tiny_model(330, target_vocab_size=350), source, joint)


@pytest.mark.parametrize("parts", [("x", None), (tiny_tokenizer(), "x"), (Transformer, "x")])
def test_other_things_than_a_model_and_a_tokenizer_are_refused(parts):
    kinds = " and ".join(type(part).__name__ for part in parts)
    with pytest.raises(ValueError, match=f"received {kinds}. .* call Translator.load"):
        Translator(*parts)


@pytest.mark.slow
def test_a_prefix_needs_tokens():
    translator = tiny_translator(**GREEDY, prefix="eins")
    assert translator("one red").startswith("eins")
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "▁", "▁eins", "▁zwei"]  # No bytes.
    tokenizer = SentencePieceTokenizer(join_vocabulary(tiny_tokenizer().model, pieces))
    model = tiny_model(tokenizer.vocab_size)
    with pytest.raises(
        ValueError, match="received 'zwei 漢 eins 字', and it has none for '漢', '字'"
    ):
        Translator(model, tokenizer, decoding=DecodingConfig(prefix="zwei 漢 eins 字"))


def test_a_source_has_room_for_a_token_besides_its_language():
    tokenizer = languages_tokenizer()
    model = tiny_model(tokenizer.vocab_size)
    with pytest.raises(ValueError, match="max_source_length must be at least 3 .* received 2"):
        Translator(model, tokenizer, decoding=DecodingConfig(max_source_length=2))
    named = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    decoding = DecodingConfig(max_source_length=3, extra_length=2, **named)
    ids, lengths = Translator(model, tokenizer, decoding=decoding).encode_text(["one red"])
    assert lengths.numpy() == [3]
    assert tokenizer.id_to_piece(ids.numpy()[0]) == ["eng_Latn", "▁one", "</s>"]


def test_learned_positions_limit_sources_and_translations():
    sizes = {"num_layers": 1, "d_model": 12, "d_ff": 20, "num_heads": 3}
    model = Transformer(TransformerConfig(380, **sizes, position="learned", max_length=5))
    decoding = DecodingConfig(beam_size=2, extra_length=30)
    for compiled in (False, True):
        translator = Translator(model, tiny_tokenizer(), decoding=decoding, compiled=compiled)
        assert (translator.decoding.max_source_length, translator.decoding.max_length) == (5, 5)
        found = translator.translate_with_scores(SENTENCES)
        assert np.isfinite(found["score"]).all() and max(found["length"]) <= 5


def test_sentences_and_texts_may_come_from_a_generator():
    translator = tiny_translator(num_layers=1, beam_size=1, extra_length=2)
    texts = SENTENCES[:3]
    assert translator(iter(texts)) == translator(texts)
    assert translator.documents(iter(texts)) == translator.documents(texts)
    with pytest.raises(TypeError, match="texts must be a list of strings, received a single"):
        translator.documents("one")


def test_another_backend_is_refused_with_what_to_do(monkeypatch):
    translator = Translator(tiny_model(), tiny_tokenizer())
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="Translator.translate needs .* Set KERAS_BACKEND=tens"):
        translator("one")


def test_all_languages_share_the_graph_of_the_search():
    tokenizer = languages_tokenizer()
    english, german = list(tokenizer.languages)[:2]
    search = DecodingConfig(extra_length=2, source_language=english, target_language=german)
    translator = Translator(tiny_model(tokenizer.vocab_size), tokenizer, decoding=search)
    texts = tf.constant(["one red dog", "two"])
    columns = tf.constant([english, english]), tf.constant([german, german])
    before = translator.translate(texts)
    np.testing.assert_array_equal(translator.translate_between(texts, *columns), before)
    translator.translate_between(texts, *columns[::-1])
    translator.translate_with_scores(texts)
    assert translator._search_languages.experimental_get_tracing_count() == 1
