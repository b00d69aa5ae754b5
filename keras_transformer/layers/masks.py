"""Boolean attention masks: True means that a query may attend to a key."""

from typing import Any

import keras
from keras import ops

from keras_transformer.config import PAD_ID

MASKED = -1e9
"""Far below any score, and far above the float32 minimum, so that no sum with it overflows."""


def padding_mask(ids: Any, pad_id: int = PAD_ID) -> Any:
    """Return which keys are tokens rather than padding.

    Args:
        ids: int [B, S].
        pad_id: The id of padding.

    Returns:
        bool [B, 1, S], the same for every query.

    >>> ops.convert_to_numpy(padding_mask(ops.array([[7, 8, 0]]))).tolist()
    [[[True, True, False]]]
    """
    return ops.expand_dims(ops.not_equal(ids, pad_id), 1)


def as_attention_mask(mask: Any, name: str = "attention_mask", is_padding: bool = False) -> Any:
    """Check a mask, and return it with an axis for queries.

    Args:
        mask: bool [B, T, S] or [B, 1, S], or None; with `is_padding` also [B, S].
        name: The argument that `mask` was given as.
        is_padding: Whether a mask of two axes says which keys are tokens.

    Returns:
        bool [B, T, S] or [B, 1, S], or None.

    Raises:
        ValueError: If the mask isn't boolean or has another number of axes.

    >>> tuple(as_attention_mask(ops.array([[True, False]]), is_padding=True).shape)
    (1, 1, 2)
    """
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask) if isinstance(mask, list | tuple) else mask
    dtype, axes = keras.backend.standardize_dtype(mask.dtype), len(mask.shape)
    if dtype != "bool":
        raise ValueError(
            f"{name} must be boolean, True where a query may attend to a key, received dtype "
            f"{dtype}. Give `mask == 0` for a mask that is added to scores, or `mask != 0` for one "
            "of ones and zeros."
        )
    if axes == 2 and is_padding:
        return ops.expand_dims(mask, 1)
    if axes != 3:
        padding = "[B, S], " if is_padding else ""
        raise ValueError(
            f"{name} must be {padding}[B, T, S] or [B, 1, S], received shape {tuple(mask.shape)}. "
            "Give a mask of keys [B, S] as mask[:, None], and a mask [T, S] for all sentences as "
            "mask[None]."
        )
    return mask


def causal_mask(query_length: Any, key_length: Any = None) -> Any:
    """Return the mask that keeps a position from attending to later ones (Section 3.2.3).

    Args:
        query_length: T, an int or a scalar tensor.
        key_length: S, the number of keys; T by default. The queries are the last T of S positions.

    Returns:
        bool [1, T, S].

    Raises:
        ValueError: If a length is unknown, as in a functional model.

    >>> ops.convert_to_numpy(causal_mask(2)).tolist()
    [[[True, False], [True, True]]]
    """
    if query_length is None:
        raise ValueError(
            "causal_mask needs the number of queries, received None: the length is unknown while a "
            "functional model is built. Call the layer with use_causal_mask=True instead."
        )
    key_length = query_length if key_length is None else key_length
    queries = ops.arange(key_length - query_length, key_length, dtype="int32")
    keys = ops.arange(key_length, dtype="int32")
    return ops.expand_dims(ops.expand_dims(queries, 1) >= keys, 0)


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
