"""Compare our model and search with Hugging Face's `MarianMTModel` with the same weights.

Marian's position encoding has all sines first and then all cosines; ours interleaves them, as in
the paper. Nothing else in a Transformer depends on the order of the D elements of a vector, so our
weights are copied to Marian in the order that maps one encoding to the other.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.decoding import beam, candidates, styles
from keras_transformer.decoding.search import IMPOSSIBLE
from keras_transformer.layers.residual import NORM_EPSILON
from keras_transformer.translation.translator import Translator
from tests.helpers.foreign_weights import (
    Pair,
    copy_weights,
    embedding_pair,
    feed_forward_pairs,
    norm_pairs,
)
from tests.helpers.layer_checks import randomize
from tests.helpers.tiny import toy_sentences, toy_training

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = pytest.mark.parity

BEAM, LIMIT = 4, 20


def marian(ours):
    """Return Hugging Face's model with the sizes and weights of ours."""
    config = ours.config
    marian_config = transformers.MarianConfig(
        vocab_size=config.vocab_size,
        max_position_embeddings=LIMIT,
        encoder_layers=config.num_layers,
        decoder_layers=config.num_layers,
        d_model=config.d_model,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        forced_eos_token_id=None,
    )
    theirs = transformers.MarianMTModel(marian_config).eval()
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = NORM_EPSILON
    copy_weights(ours, theirs, model_pairs(ours, theirs.model))
    return theirs


def model_pairs(ours, theirs):
    # 0, D / 2, 1, D / 2 + 1, ...: the index of a sine, of its cosine, of the next sine, ...
    order = np.arange(ours.config.d_model).reshape(2, -1).T.reshape(-1)
    yield embedding_pair(ours.source_embedding, theirs.shared, order)
    for stack, other_stack in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for layer, other in zip(stack.layers, other_stack.layers, strict=True):
            yield from attention_pairs(layer, "self_attention", other, "self_attn", order)
            if stack is ours.decoder:
                yield from attention_pairs(layer, "cross_attention", other, "encoder_attn", order)
            yield from feed_forward_pairs(layer.feed_forward, other.fc1, other.fc2, order)
            norm = layer.feed_forward_residual.layer_norm
            yield from norm_pairs(norm, other.final_layer_norm, order)


def attention_pairs(layer, name, other, other_name, order):
    ours, theirs = getattr(layer, name), getattr(other, other_name)
    for part in ("query", "key", "value"):
        kernel = getattr(theirs, f"{part[0]}_proj").weight
        yield Pair(getattr(ours, f"{part}_kernel"), kernel, lambda array: array.T[order])
    yield Pair(ours.output_kernel, theirs.out_proj.weight, lambda array: array.T[:, order])
    norms = (
        getattr(layer, f"{name}_residual").layer_norm,
        getattr(other, f"{other_name}_layer_norm"),
    )
    yield from norm_pairs(*norms, order)


def test_the_logits_equal_theirs():
    vocab_size, lengths = 37, np.array([[9], [4], [6]])
    config = TransformerConfig(vocab_size, num_layers=2, d_model=12, d_ff=20, num_heads=3)
    ours = Transformer(config)
    randomize(ours)
    theirs = marian(ours)
    source = np.random.randint(4, vocab_size, size=(3, 9))
    source = np.where(np.arange(9) < lengths, source, PAD_ID)
    target = np.random.randint(4, vocab_size, size=(3, 5))
    with torch.no_grad():
        expected = theirs(
            torch.tensor(source),
            attention_mask=torch.tensor(source != PAD_ID),
            decoder_input_ids=torch.tensor(target),
        ).logits
    received = ours({"source": source, "target": target}, training=False)
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)


class Found(NamedTuple):
    """The result of a search: ids [B, N, L] with padding after eos, and scores [B, N]."""

    ids: np.ndarray
    scores: np.ndarray


def search(alpha, min_length=0):
    """Return the results of our search with a trained model."""
    trained = toy_training()[1]
    decoding = DecodingConfig(
        beam_size=BEAM, length_penalty=alpha, min_length=min_length, extra_length=LIMIT
    )
    translator = Translator(trained.model, trained.tokenizer, decoding=decoding)
    source, lengths = translator.encode_text(tf.constant(toy_sentences(60)))
    # Their limit is the same for all sentences.
    ours = translator.search(source, tf.zeros_like(lengths), num_hypotheses=BEAM)
    return Found(fill_up(ours.ids), ours.scores.numpy())


@functools.cache
def search_with_theirs(alpha, min_length=0):
    """Return the results of their search with a copy of the model."""
    trained = toy_training()[1]
    model = marian(trained.model)
    model.final_logits_bias[0, [PAD_ID, UNK_ID, BOS_ID]] = -1e9  # Ours never writes these.
    source = torch.tensor(trained.encode_text(tf.constant(toy_sentences(60)))[0].numpy())
    theirs = model.generate(
        source,
        attention_mask=source != PAD_ID,
        num_beams=BEAM,
        num_return_sequences=BEAM,
        length_penalty=alpha,
        min_new_tokens=min_length,
        max_new_tokens=LIMIT,
        early_stopping="never",  # stop when no beam can change the result, as ours does
        renormalize_logits=True,  # after banning eos, as ours does
        return_dict_in_generate=True,
        output_scores=True,
    )
    their_ids = theirs.sequences[:, 1:].numpy()  # without bos
    is_end = their_ids == EOS_ID
    their_ids[np.cumsum(is_end, axis=1) - is_end > 0] = PAD_ID  # Theirs pads with eos.
    their_ids = their_ids.reshape(len(source), BEAM, -1)
    their_scores = theirs.sequences_scores.numpy().reshape(len(source), BEAM)
    return Found(fill_up(their_ids), their_scores)


def fill_up(ids):
    missing = LIMIT - ids.shape[2]
    return np.pad(ids, [(0, 0), (0, 0), (0, missing)], constant_values=PAD_ID)


@pytest.mark.slow
def test_beams_of_a_fixed_length_equal_theirs():
    # All have the same length, so the penalties, though different, scale all scores alike.
    ours, theirs = search(0.6, LIMIT), search_with_theirs(0.6, LIMIT)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    our_penalty, their_penalty = ((5 + LIMIT) / 6) ** 0.6, LIMIT**0.6
    np.testing.assert_allclose(ours.scores * our_penalty, theirs.scores * their_penalty, atol=1e-4)


def length_to_the_alpha(length, alpha, formula):
    """Return their length penalty."""
    return tf.cast(length, tf.float32) ** alpha


def continuations_without_late_ends(log_probs, live, count, **options):
    """Return their 2N continuations, of which those after the first N must not end."""
    log_probs, beams, tokens = candidates.best_continuations(log_probs, live, count, **options)
    is_late_end = (tokens == EOS_ID) & (tf.range(count) >= BEAM)
    return tf.where(is_late_end, IMPOSSIBLE, log_probs), beams, tokens


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_n_best_lists_equal_theirs_under_their_two_rules(alpha, monkeypatch):
    monkeypatch.setattr(styles, "length_penalty", length_to_the_alpha)
    monkeypatch.setattr(beam, "best_continuations", continuations_without_late_ends)
    ours, theirs = search(alpha), search_with_theirs(alpha)
    # At the limit, theirs includes unfinished beams in the translations.
    have_ended = (theirs.ids == EOS_ID).any(axis=2).all(axis=1)
    np.testing.assert_array_equal(ours.ids[have_ended], theirs.ids[have_ended])
    np.testing.assert_allclose(ours.scores[have_ended], theirs.scores[have_ended], atol=1e-4)
    assert have_ended.sum() > 20
    assert len(set(np.count_nonzero(ours.ids[have_ended, 0], axis=1))) > 3


def test_our_rules_find_the_same_or_more_probable_translations():
    # Ours accepts an end among the best 2N continuations, theirs among the best N.
    ours, theirs = search(0.0), search_with_theirs(0.0)
    has_ended = (theirs.ids[:, 0] == EOS_ID).any(axis=1)
    is_same = (ours.ids == theirs.ids).all(axis=2)[has_ended, 0]
    gain = (ours.scores - theirs.scores)[has_ended, 0]
    assert gain.min() > -1e-4
    np.testing.assert_array_equal(is_same, gain < 1e-4)
    assert 10 < is_same.sum() < has_ended.sum()
