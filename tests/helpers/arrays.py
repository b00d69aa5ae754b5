"""Small arrays and tensors for tests."""

from typing import Any

import numpy as np


def normal(*shape: int) -> np.ndarray:
    """Draw float32 values of this shape, the same ones in each run of a test.

    `tests/conftest.py` seeds NumPy before every test.
    """
    return np.random.normal(size=shape).astype("float32")


def padding_mask(length: int, lengths: list[int]) -> np.ndarray:
    """Return the mask [B, 1, S] of sentences of these lengths, padded to S = `length`."""
    return (np.arange(length) < np.array(lengths)[:, None])[:, None]


def padded_batch(
    lengths: list[int], sizes: tuple[int, int], vocab_size: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return inputs and labels of sentences of these lengths, padded or cut to sizes (S, T)."""
    random = np.random.default_rng(1)
    source, labels = (random.integers(4, vocab_size, size=(len(lengths), size)) for size in sizes)
    for row, length in enumerate(lengths):
        source[row, length:] = labels[row, length:] = 0
    target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    return {"source": source, "target": target}, labels


def assert_same_weights(ours: Any, theirs: Any, atol: float = 0.0) -> None:
    """Compare the weights of two models, or two lists of arrays; exactly by default."""
    ours, theirs = (x if isinstance(x, list) else x.get_weights() for x in (ours, theirs))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7 if atol else 0, atol=atol)


def decoded(strings: Any) -> list[str]:
    """Return the texts of a TensorFlow tensor of UTF-8 strings [B]."""
    return [string.decode() for string in strings.numpy()]
