"""Boolean attention masks: True means that a query may attend to a key."""

from keras import ops

from keras_transformer.config import PAD_ID

# Far below any score and far above the float32 minimum, so that no sum of it overflows.
MASKED = -1e9


def padding_mask(ids):
    """Return which keys are tokens and not padding.

    Args:
        ids: int [B, S].

    Returns:
        bool [B, 1, S], the same for every query.

    >>> ops.convert_to_numpy(padding_mask(ops.array([[7, 8, 0]]))).tolist()
    [[[True, True, False]]]
    """
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def causal_mask(query_length, key_length=None):
    """Return the mask by which a position attends to itself and those before it (Section 3.2.3).

    Args:
        query_length: T, an int or a scalar tensor.
        key_length: keys, T or more; the queries are the last T of these positions. T by default.

    Returns:
        bool [1, T, key_length].

    >>> ops.convert_to_numpy(causal_mask(2)).tolist()
    [[[True, False], [True, True]]]
    """
    key_length = query_length if key_length is None else key_length
    queries = ops.arange(key_length - query_length, key_length)
    return ops.expand_dims(ops.expand_dims(queries, 1) >= ops.arange(key_length), 0)


def mask_bias(mask):
    """Return what to add to float32 scores in place of selecting them by a mask.

    Args:
        mask: bool, of any shape.

    Returns:
        float32, 0 where the mask is True, and elsewhere so low that nothing remains of a score.
        That holds beside a key that may be attended to, which every sentence of a search has.

    >>> ops.convert_to_numpy(mask_bias(ops.array([True, False]))).tolist()
    [0.0, -1000000000.0]
    """
    nothing, hidden = (ops.convert_to_tensor(x, "float32") for x in (0.0, MASKED))
    return ops.where(mask, nothing, hidden)
