"""Boolean attention masks: True means that a query may attend to a key."""

from keras import ops

from keras_transformer.config import PAD_ID


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
