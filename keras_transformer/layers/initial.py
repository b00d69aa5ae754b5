"""The initial values and the seeds of a layer's parts."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import keras


def part_seeds(seed: int | None) -> Iterator[int | None]:
    """Yield a seed for each part of a layer.

    Args:
        seed: The layer's seed. Without one, no part has a seed.

    >>> first, second = itertools.islice(part_seeds(7), 2)
    >>> first != second and first == next(part_seeds(7))
    True
    >>> next(part_seeds(None)) is None
    True
    """
    if seed is None:
        return itertools.repeat(None)
    draw = random.Random(seed)
    return (draw.randrange(2**31) for _ in itertools.count())


def initializer_for(kernel_initializer: Any, seed: int | None) -> Any:
    """Return an initializer for one weight.

    Weights that share a Keras initializer would start equal, so each gets a copy.

    Args:
        kernel_initializer: A Keras initializer, its name or its configuration.
        seed: The seed of the copy. Without one, the seed is the initializer's own.
    """
    is_shared = isinstance(kernel_initializer, keras.initializers.Initializer)
    original = keras.initializers.get(kernel_initializer)
    if not isinstance(original, keras.initializers.Initializer) or (seed is None and not is_shared):
        return original
    config = original.get_config()
    if "seed" in config and seed is not None:
        config["seed"] = seed
    return type(original).from_config(config)


def serialized_initializer(kernel_initializer: Any) -> Any:
    """Return an initializer as `get_config` does."""
    if isinstance(kernel_initializer, str | dict):
        return kernel_initializer
    return keras.initializers.serialize(kernel_initializer)
