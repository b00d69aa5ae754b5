"""What `Translator.inspect` says about a translation, checked by hand."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import DecodingConfig
from keras_transformer.plots import sentence_attention
from keras_transformer.translation.translator import Translator
from tests.helpers.parser import TEXTS, parser
from tests.helpers.tiny import (
    languages_tokenizer,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

SENTENCES = [*toy_sentences(5), ""]
ATTENTION = ("encoder_attention", "decoder_attention", "cross_attention")


@pytest.fixture(scope="module")
def translator():
    return tiny_translator(beam_size=1, extra_length=6, max_source_length=24)


@pytest.fixture(scope="module")
def found(translator):
    return {name: x.numpy() for name, x in translator.inspect(SENTENCES).items()}


def test_rows_of_attention_sum_to_1_for_tokens_and_0_for_padding(found):
    for name in ATTENTION:
        side = "source" if name == "encoder_attention" else "target"
        is_token = (found[f"{side}_tokens"] != b"")[:, None, None]
        sums = found[name].sum(axis=-1)
        np.testing.assert_allclose(sums, np.broadcast_to(is_token, sums.shape), atol=1e-5)


def test_the_mean_over_the_heads_is_that_of_attention(translator, found):
    expected = translator.attention(SENTENCES)
    np.testing.assert_array_equal(found["source_tokens"], expected["source_tokens"])
    np.testing.assert_array_equal(found["target_tokens"], expected["target_tokens"])
    mean = found["cross_attention"].mean(axis=2)
    np.testing.assert_allclose(mean, expected["attention"], atol=1e-6)


def test_the_weights_are_those_of_the_figures(translator, found):
    figure = sentence_attention(translator, SENTENCES[0])
    for name in ATTENTION:
        expected = getattr(figure, name.removesuffix("_attention"))
        queries, keys = expected.shape[-2:]
        np.testing.assert_allclose(found[name][0, ..., :queries, :keys], expected, atol=1e-5)
    for side, tokens in (("source", figure.source), ("target", figure.written)):
        assert [token.decode() for token in found[f"{side}_tokens"][0] if token] == tokens


def test_greedy_search_writes_the_first_candidate(found):
    np.testing.assert_array_equal(found["candidates"][:, :, 0], found["target_tokens"])
    np.testing.assert_allclose(
        found["candidate_probabilities"][:, :, 0], found["probabilities"], rtol=1e-5
    )


def test_candidates_are_distinct_likeliest_first_and_could_be_written(found):
    probabilities, candidates = found["candidate_probabilities"], found["candidates"]
    assert candidates.shape == probabilities.shape == (*found["target_tokens"].shape, 5)
    assert (np.diff(probabilities, axis=-1) <= 0).all()
    assert (probabilities.sum(axis=-1) <= 1 + 1e-5).all()
    for row in candidates[found["target_tokens"] != b""]:
        assert len(set(row)) == 5
        assert not {b"<unk>", b"<s>", b""} & set(row)


def test_ids_that_are_never_written_are_no_candidates():
    model = tiny_model()
    model.set_weights([np.zeros_like(weight) for weight in model.get_weights()])
    search = DecodingConfig(beam_size=1, renormalize=False)
    translator = Translator(model, tiny_tokenizer(), decoding=search)
    found = translator.inspect(SENTENCES[:1])
    # All ids are as likely, and the first ones are pad, unk and bos.
    expected = translator.target_tokenizer.id_to_piece(range(3, 8))
    assert [piece.decode() for piece in found["candidates"].numpy()[0, 0]] == expected
    np.testing.assert_allclose(found["candidate_probabilities"][0, 0], 1 / 380, rtol=1e-5)


@pytest.mark.parametrize("rows", [2, 0])
def test_shapes_are_those_of_each_stack(rows):
    config = TransformerConfig(
        vocab_size=380,
        num_layers=3,
        num_decoder_layers=1,
        d_model=12,
        d_ff=20,
        num_heads=3,
        decoder_num_heads=2,
    )
    translator = Translator(Transformer(config), tiny_tokenizer(), decoding=DecodingConfig())
    found = translator.inspect(tf.constant(SENTENCES[:rows], tf.string))
    (_, s), (_, t) = found["source_tokens"].shape, found["target_tokens"].shape
    assert found["encoder_attention"].shape == (rows, 3, 3, s, s)
    assert found["decoder_attention"].shape == (rows, 1, 2, t, t)
    assert found["cross_attention"].shape == (rows, 1, 2, t, s)
    assert found["candidates"].shape == found["candidate_probabilities"].shape == (rows, t, 5)


@pytest.mark.parametrize("has_languages", [False, True])
def test_probabilities_multiply_to_the_score(has_languages, translator, found):
    if has_languages:  # The forced one costs nothing.
        tokenizer = languages_tokenizer()
        languages = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
        search = DecodingConfig(beam_size=1, extra_length=6, **languages)
        translator = Translator(tiny_model(tokenizer.vocab_size), tokenizer, decoding=search)
        found = {name: x.numpy() for name, x in translator.inspect(SENTENCES).items()}
    scored = translator.translate_with_scores(SENTENCES)
    for i, row in enumerate(found["probabilities"][:-1]):
        length = scored["length"][i].numpy()
        penalty = ((5 + length) / 6) ** translator.decoding.length_penalty
        np.testing.assert_allclose(
            np.log(row[:length]).sum() / penalty, scored["score"][i], rtol=1e-4
        )
    assert not found["probabilities"][-1].any()  # There is nothing to translate.


@pytest.mark.slow
def test_rows_in_parts_equal_rows_at_once(translator, found, monkeypatch):
    monkeypatch.setattr("keras_transformer.translation.teacher_forcing._MAX_TOKENS", 20)
    other = Translator(translator.model, translator.tokenizer, decoding=translator.decoding)
    for name, expected in other.inspect(SENTENCES).items():
        if expected.dtype == tf.string:
            np.testing.assert_array_equal(found[name], expected)
        else:
            np.testing.assert_allclose(found[name], expected, atol=1e-5)


@pytest.mark.slow
def test_a_parser_is_inspected_over_the_tokens_of_its_tree():
    translator = parser("source", beam_size=1)
    found = translator.inspect(tf.constant(TEXTS[:2]))
    expected = translator.attention(tf.constant(TEXTS[:2]))
    np.testing.assert_array_equal(found["target_tokens"], expected["target_tokens"])
    mean = found["cross_attention"].numpy().mean(axis=2)
    np.testing.assert_allclose(mean, expected["attention"], atol=1e-6)
