"""Boolean attention masks: True means that a query may attend to a key."""

from typing import Any

from keras import ops

from keras_transformer.config import PAD_ID

MASKED = -1e9
"""Far below any score, and far above the float32 minimum, so that no sum with it overflows."""


def padding_mask(ids: Any) -> Any:
    """Return which keys are tokens rather than padding.

    Args:
        ids: int [B, S].

    Returns:
        bool [B, 1, S], the same for every query.

    >>> ops.convert_to_numpy(padding_mask(ops.array([[7, 8, 0]]))).tolist()
    [[[True, True, False]]]
    """
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def causal_mask(query_length: Any, key_length: Any = None) -> Any:
    """Return the mask that keeps a position from attending to later ones (Section 3.2.3).

    Args:
        query_length: T, an int or a scalar tensor.
        key_length: S, the number of keys; T by default. The queries are the last T of S positions.

    Returns:
        bool [1, T, S].

    >>> ops.convert_to_numpy(causal_mask(2)).tolist()
    [[[True, False], [True, True]]]
    """
    key_length = query_length if key_length is None else key_length
    queries = ops.arange(key_length - query_length, key_length)
    return ops.expand_dims(ops.expand_dims(queries, 1) >= ops.arange(key_length), 0)


def mask_bias(mask: Any) -> Any:
    """Return what to add to float32 scores instead of selecting them by a mask.

    Adding takes a tenth of the time of a selection. The softmax is the same as long as the query
    may attend to some key, as in every sentence of a search.

    Args:
        mask: bool, of any shape.

    Returns:
        float32, 0 where the mask is True and -1e9 elsewhere.

    >>> ops.convert_to_numpy(mask_bias(ops.array([True, False]))).tolist()
    [0.0, -1000000000.0]
    """
    nothing, hidden = (ops.convert_to_tensor(x, "float32") for x in (0.0, MASKED))
    return ops.where(mask, nothing, hidden)
