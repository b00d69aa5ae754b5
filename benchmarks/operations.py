"""Arithmetic of training: what a step needs, and what a device can do."""

import time

import numpy as np

from benchmarks.batches import Batch
from keras_transformer.config import TransformerConfig


def matrix_operations(config: TransformerConfig, batch: Batch) -> int:
    """Return the operations of all matrix products of a step: 3 times those of its forward pass.

    >>> sizes = TransformerConfig(10, num_layers=1, d_model=2, d_ff=3, num_heads=1)
    >>> ones = np.ones([1, 1], int)
    >>> matrix_operations(sizes, (ones, ones)) == 3 * 2 * (3 * (4 * 4 + 2 * 2) + 2 * 12 + 20)
    True
    """
    (rows, source), (_, target) = (ids.shape for ids in batch)
    d_model, d_ff = config.d_model, config.d_ff
    inner = config.num_heads * (config.key_dim or d_model // config.num_heads)

    def attention(queries, memory):
        projections = 2 * d_model * inner * (queries + memory)  # Q and output; K and V.
        return projections + 2 * inner * queries * memory  # Scores, and sums of values.

    layer = attention(source, source) + attention(target, target) + attention(target, source)
    layer += 2 * d_model * d_ff * (source + target)
    products = config.num_layers * layer + target * d_model * config.target_size
    return 3 * 2 * rows * products


def peak_operations(precision: str, size: int = 8192, repeats: int = 20) -> float:
    """Return the operations per second of a large matrix product on the default device."""
    import jax
    import jax.numpy as jnp

    dtype = jnp.bfloat16 if precision == "mixed_bfloat16" else jnp.float32
    keys = jax.random.split(jax.random.key(0))
    left, right = (jax.random.normal(key, [size, size], dtype) for key in keys)
    product = jax.jit(jnp.matmul)
    product(left, right).block_until_ready()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            result = product(left, right)
        result.block_until_ready()
        seconds.append((time.perf_counter() - start) / repeats)
    return 2 * size**3 / float(np.median(seconds))
