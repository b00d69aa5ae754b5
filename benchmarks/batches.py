"""Training batches in a file, for processes that train on the same ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

Batch = tuple[np.ndarray, np.ndarray]
"""Source and labels, int32 [B, S] and [B, T]."""


def save_batches(batches: Sequence[Batch], path: Path) -> None:
    """Write batches to a file for the trainers' processes."""
    arrays = {}
    for i, (source, labels) in enumerate(batches):
        arrays |= {f"source{i}": source, f"labels{i}": labels}
    np.savez(path, **arrays)


def load_batches(path: str) -> list[Batch]:
    """Read what `save_batches` wrote."""
    with np.load(path) as file:
        return [(file[f"source{i}"], file[f"labels{i}"]) for i in range(len(file.files) // 2)]
