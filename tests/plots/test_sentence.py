import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import BOS_ID
from keras_transformer.plots import sentence_attention
from tests.helpers.tiny import tiny_translator

SENTENCE = "one red dog sees two old moon"
LAYERS, HEADS = 2, 3


@pytest.fixture(scope="module")
def translator():
    return tiny_translator(beam_size=2, extra_length=6)


@pytest.fixture(scope="module")
def found(translator):
    return sentence_attention(translator, SENTENCE)


def test_the_tokens_are_those_of_the_sentence_and_its_translation(translator, found):
    assert found.source == ["▁one", "▁red", "▁dog", "▁sees", "▁two", "▁old", "▁moon", "</s>"]
    ids = translator.search(*translator.encode_text(tf.constant([SENTENCE]))).ids[0, 0].numpy()
    assert found.written == translator.tokenizer.id_to_piece(ids)
    assert found.read == ["<s>", *found.written[:-1]]


def test_weights_sum_to_one_and_are_zero_for_future_tokens(found):
    s, t = len(found.source), len(found.written)
    assert s != t
    assert found.encoder.shape == (LAYERS, HEADS, s, s)
    assert found.decoder.shape == (LAYERS, HEADS, t, t)
    assert found.cross.shape == (LAYERS, HEADS, t, s)
    for weights in (found.encoder, found.decoder, found.cross):
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert np.all(np.triu(found.decoder, k=1) == 0)


@pytest.mark.slow
def test_cross_attention_equals_that_of_the_translator(translator, found):
    expected = {name: array[0].numpy() for name, array in translator.attention([SENTENCE]).items()}
    assert [token.decode() for token in expected["source_tokens"]] == found.source
    assert [token.decode() for token in expected["target_tokens"]] == found.written
    np.testing.assert_allclose(found.cross.mean(axis=1), expected["attention"], atol=1e-6)


def test_the_weights_are_those_of_the_first_encoder_and_decoder_layer(translator, found):
    model = translator.model
    vocabulary = {translator.tokenizer.id_to_piece([i])[0]: i for i in range(380)}

    def first_weights(layer, position, embedding, pieces, causal):
        ids = np.array([[vocabulary[piece] for piece in pieces]])
        x = position(embedding(ids))
        attention = layer.self_attention
        _, weights = attention(x, x, return_attention_scores=True, use_causal_mask=causal)
        return weights[0].numpy()

    assert vocabulary["<s>"] == BOS_ID
    encoder = first_weights(
        *(model.encoder.layers[0], model.source_position, model.source_embedding),
        *(found.source, False),
    )
    decoder = first_weights(
        *(model.decoder.layers[0], model.target_position, model.target_embedding),
        *(found.read, True),
    )
    np.testing.assert_allclose(found.encoder[0], encoder, atol=1e-6)
    np.testing.assert_allclose(found.decoder[0], decoder, atol=1e-6)


@pytest.mark.parametrize("sentence", ["", " \t"])
def test_a_sentence_without_words_is_rejected(translator, sentence):
    with pytest.raises(ValueError, match="must have at least one word .* received '"):
        sentence_attention(translator, sentence)


def test_a_translation_may_be_given(translator, found):
    given = "".join(found.written[:-1]).replace("▁", " ").strip()
    again = sentence_attention(translator, SENTENCE, given)
    assert (again.source, again.read, again.written) == (found.source, found.read, found.written)
    np.testing.assert_allclose(again.cross, found.cross, atol=1e-6)
    other = sentence_attention(translator, SENTENCE, "eins")
    assert other.written == ["▁eins", "</s>"]
