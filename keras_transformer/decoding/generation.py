"""Generation with a decoder-only model, which reads the whole text before each token."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import EOS_ID, PAD_ID
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.sampling import sample_search
from keras_transformer.decoding.search import SearchKeywords, take_rows


def generate(
    model: Callable[[Any], Any],
    prompt: Any,
    max_length: int,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    *,
    eos_id: int = EOS_ID,
    pad_id: int = PAD_ID,
) -> tf.Tensor:
    """Continue prompts with a decoder-only model.

    The default is greedy search. With a temperature, tokens are drawn at random. The model is
    called on all tokens so far before each new one; for a cache, use a search with a
    `translation.DecoderStep`.

    Args:
        model: A Keras model or function from ids, int32 [B, T], to the logits of each next token,
            float [B, T, V]. A position must not depend on later ones.
        prompt: The ids of at least one token each: a list of lists, an int tensor [B, P], or an int
            `tf.RaggedTensor` [B, None]. Padding on the right doesn't count.
        max_length: The most tokens of a prompt and its continuation together.
        temperature: 0 for greedy search, or as for `sample_search`.
        top_k: The number of most probable tokens to draw from; 0 for all.
        top_p: The probability of the smallest set of most probable tokens to draw from.
        seed: Another seed draws other tokens. A row depends on its index in the batch, but not on
            the other rows.
        eos_id: The id that ends a text.
        pad_id: The id of padding, which is never generated, unless it is `eos_id` too.

    Returns:
        int32 [B, L], each prompt and its continuation, up to eos or `max_length`, then padding.

    Raises:
        ValueError: If a prompt is empty, padded on the left or not shorter than `max_length`, an
            option is out of range, or the outputs of the model are not [B, T, V].

    >>> follow = lambda ids: tf.one_hot(ids + 1, 10)  # Counts.
    >>> generate(follow, [[4, 5], [7]], max_length=5, eos_id=9).numpy().tolist()
    [[4, 5, 6, 7, 8], [7, 8, 9, 0, 0]]
    """
    if not temperature and (top_k or top_p != 1):
        raise ValueError(
            f"top_k and top_p need a temperature, received temperature={temperature}, "
            f"top_k={top_k} and top_p={top_p}. Set temperature=1.0."
        )
    prompts = _as_ragged(prompt, max_length, pad_id, eos_id)
    lengths = tf.cast(prompts.row_lengths(), tf.int32)

    def step(ids, parents, position, state):
        texts, lengths = state
        # Finished rows run on, without any effect.
        places = tf.minimum(lengths + position, max_length) - 1
        is_new = (tf.range(max_length) == places[:, tf.newaxis]) & (position > 0)
        texts = tf.where(is_new, ids[:, tf.newaxis], texts)
        logits = _logits(model, texts[:, : tf.reduce_max(places) + 1])
        logits = tf.gather(logits, places, axis=1, batch_dims=1)
        if pad_id != eos_id:
            logits += tf.one_hot(pad_id, logits.shape[1], on_value=-1e9, off_value=0.0)
        return logits, (texts, lengths)

    state = prompts.to_tensor(pad_id, shape=[None, max_length]), lengths
    left = max_length - lengths
    options: SearchKeywords = {"eos_id": eos_id, "pad_id": pad_id, "select": take_rows}
    if temperature:
        found = sample_search(
            step,
            state,
            max_lengths=left,
            keys=tf.range(prompts.nrows()),
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            **options,
        )
    else:
        found = greedy_search(step, state, max_lengths=left, scores=False, **options)
    new = tf.RaggedTensor.from_tensor(found.ids[:, 0], tf.cast(found.lengths[:, 0], tf.int64))
    return tf.concat([prompts, new], axis=1).to_tensor(pad_id)


def _as_ragged(prompt, max_length, pad_id, eos_id):
    """Return prompts as an int32 `tf.RaggedTensor` [B, None], if none is wrong."""
    if isinstance(prompt, list | tuple):
        try:
            prompt = tf.ragged.constant(prompt, tf.int32, ragged_rank=1)
        except (TypeError, ValueError):
            raise ValueError(
                f"prompt must be a list of lists of ids, received {prompt!r:.60}. Give one prompt "
                "as a list of one list."
            ) from None
    if isinstance(prompt, tf.RaggedTensor):
        prompt = prompt.to_tensor(pad_id)
    prompt = tf.convert_to_tensor(keras.ops.convert_to_numpy(prompt))
    if prompt.shape.rank != 2:
        raise ValueError(f"prompt must be ids [B, P], received shape {prompt.shape}.")
    prompt = tf.cast(prompt, tf.int32)
    prompt = tf.RaggedTensor.from_tensor(prompt, padding=pad_id)
    lengths = prompt.row_lengths().numpy()
    if lengths.size and not 0 < lengths.min() <= lengths.max() < max_length:
        raise ValueError(
            f"Prompts must have from 1 to max_length - 1 = {max_length - 1} tokens, received "
            f"lengths {lengths.min()} to {lengths.max()}. Start an empty one with bos."
        )
    if pad_id != eos_id and tf.reduce_any(prompt.flat_values == pad_id):
        raise ValueError(f"Prompts must be padded on the right, received {pad_id} before a token.")
    return prompt


def _logits(model, ids):
    """Return the logits of the model, float32 [B, T, V]."""
    logits = model(ids)
    if keras.backend.backend() != "tensorflow":
        logits = keras.ops.convert_to_numpy(logits)
    logits = tf.cast(logits, tf.float32)
    if logits.shape.rank != 3 or logits.shape[:2] != ids.shape:
        raise ValueError(
            f"The model must return logits [B, T, V] for ids [B, T], received {logits.shape} for "
            f"{ids.shape}."
        )
    return logits
