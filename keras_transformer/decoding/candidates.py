"""The best tokens of a large vocabulary, found without sorting all of it."""

import tensorflow as tf

_LARGEST_BLOCK = 64


def best_tokens(logits: tf.Tensor, device: str = "cpu") -> tf.Tensor:
    """Return the most probable token of each row; among equal ones the lowest, as `tf.argmax`.

    On CPUs, only the block of the vocabulary with the highest maximum is searched: finding the
    index of a maximum takes much longer than finding the maximum.

    Args:
        logits: float32 [R, V].
        device: See `SearchOptions`.

    Returns:
        int32 [R].

    >>> best_tokens(tf.constant([[1.0, 4.0, 2.0, 4.0], [3.0, 0.0, 1.0, 2.0]])).numpy().tolist()
    [1, 0]
    """
    vocab_size = logits.shape[1]
    block_size = _block_size(vocab_size or 1)
    if block_size == 1 or device == "gpu":
        return tf.argmax(logits, axis=1, output_type=tf.int32)
    blocks = tf.reshape(logits, [-1, vocab_size // block_size, block_size])
    return _best_in_blocks(blocks, tf.reduce_max(blocks, axis=2))


def best_continuations(
    logits: tf.Tensor,
    live: tf.Tensor,
    count: int,
    *,
    few_rows: bool = False,
    excluded: tf.Tensor | None = None,
    are_log_probs: bool = False,
    device: str = "cpu",
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the `count` most probable continuations of each sentence's beams by one token.

    They lie in the `count` blocks of the vocabulary with the highest maxima, so only those are
    searched: the exact answer, in a fraction of the time of one `tf.math.top_k` over all of it.

    Args:
        logits: float32 [B * N, V], of the next token. V must be static.
        live: float32 [B, N], log-probabilities of the beams.
        count: At most 2 * N.
        few_rows: Whether to normalize the logits by a sum of exponentials instead of a softmax:
            faster for the beams of a single sentence, slower for many rows.
        excluded: See `SearchOptions`.
        are_log_probs: Whether the logits are taken as log-probabilities, whatever their sum is.
        device: See `SearchOptions`. On GPUs, the best tokens of each beam come first.

    Returns:
        Log-probabilities, float32 [B, count], descending, and their beams and tokens, int32
        [B, count] each.

    Raises:
        ValueError: If V is unknown or less than 2.

    >>> logits = tf.math.log([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.6, 0.1]])  # N 2, V 4
    >>> _, beams, tokens = best_continuations(logits, tf.zeros([1, 2]), count=3)
    >>> beams.numpy().tolist(), tokens.numpy().tolist()  # 0.6, 0.4, 0.3
    ([[1, 0, 0]], [[2, 3, 2]])
    """
    beam_size, vocab_size = live.shape[1], logits.shape[1]
    if vocab_size is None or vocab_size < 2:
        raise ValueError(
            "The last axis of the logits that step returns, the vocabulary, must have a static "
            f"size of at least 2, received shape {logits.shape}. Set it with tf.ensure_shape."
        )
    allowed = logits if excluded is None else logits + excluded
    if device == "gpu":
        return _best_of_each_beam(logits, allowed, live, count, are_log_probs)
    block_size = _block_size(vocab_size)
    num_blocks = vocab_size // block_size  # at least 2, so N beams have `count` blocks

    blocks = tf.reshape(allowed, [-1, num_blocks, block_size])
    maxima = tf.reduce_max(blocks, axis=2)  # [B * N, blocks]
    highest = tf.reduce_max(maxima, axis=1)
    # The logits of a row differ from its log-probabilities by a constant, which the best token
    # tells: its probability is never 0.
    if are_log_probs:
        log_probability = highest
    elif excluded is not None:
        log_probability = highest - tf.reduce_logsumexp(logits, axis=1)
    elif few_rows:
        total = tf.reduce_sum(tf.exp(logits - highest[:, tf.newaxis]), axis=1)
        log_probability = tf.math.log(1 / total)
    else:
        best = _best_in_blocks(blocks, maxima)
        log_probability = tf.math.log(tf.gather(tf.nn.softmax(logits), best, batch_dims=1))
    highest = tf.reshape(highest, [-1, beam_size])
    live += tf.reshape(log_probability, [-1, beam_size])

    # Subtracting the highest logit first loses the least precision.
    maxima = tf.reshape(maxima, [-1, beam_size, num_blocks])
    maxima = maxima - highest[:, :, tf.newaxis] + live[:, :, tf.newaxis]
    _, chosen = tf.math.top_k(tf.reshape(maxima, [-1, beam_size * num_blocks]), count)
    blocks = tf.reshape(blocks, [-1, beam_size * num_blocks, block_size])
    beams = chosen // num_blocks
    highest, live = (
        tf.gather(rows, beams, batch_dims=1)[:, :, tf.newaxis] for rows in (highest, live)
    )
    totals = tf.gather(blocks, chosen, batch_dims=1) - highest + live
    values, places = tf.math.top_k(tf.reshape(totals, [-1, count * block_size]), count)
    origins = places // block_size
    first_tokens = chosen % num_blocks * block_size
    tokens = tf.gather(first_tokens, origins, batch_dims=1) + places % block_size
    return values, tf.gather(beams, origins, batch_dims=1), tokens


def _best_of_each_beam(logits, allowed, live, count, are_log_probs):
    """Return `best_continuations`, chosen from the best tokens of each beam.

    XLA has a kernel for the few largest of many numbers. It reads what the product has written.
    """
    beam_size, num_tokens = live.shape[1], min(count, logits.shape[1])
    values, tokens = tf.math.top_k(allowed, num_tokens)  # [B * N, count]
    if not are_log_probs:
        # Subtracting the highest logit first loses the least precision.
        highest = tf.reduce_max(logits, axis=1, keepdims=True)
        total = tf.reduce_sum(tf.exp(logits - highest), axis=1, keepdims=True)
        values = values - highest - tf.math.log(total)
    totals = tf.reshape(values, [-1, beam_size, num_tokens]) + live[:, :, tf.newaxis]
    values, places = tf.math.top_k(tf.reshape(totals, [-1, beam_size * num_tokens]), count)
    tokens = tf.gather(tf.reshape(tokens, [-1, beam_size * num_tokens]), places, batch_dims=1)
    return values, places // num_tokens, tokens


def _block_size(vocab_size):
    """Return a divisor of V, smaller than V if there is one."""
    sizes = range(1, min(_LARGEST_BLOCK, max(vocab_size // 2, 1)) + 1)
    return max(size for size in sizes if vocab_size % size == 0)


def _best_in_blocks(blocks, maxima):
    """Return the index [R] of the maximum of each row's blocks [R, G, V / G]."""
    chosen = tf.argmax(maxima, axis=1, output_type=tf.int32)
    block = tf.gather(blocks, chosen, batch_dims=1)
    return chosen * blocks.shape[2] + tf.argmax(block, axis=1, output_type=tf.int32)
