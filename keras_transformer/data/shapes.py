"""A few static shapes for all batches, so that XLA compiles a training step only a few times."""

import numpy as np
from numpy.typing import ArrayLike


def choose_widths(
    lengths: ArrayLike, count: int, *, longest: int | None = None, multiple: int = 8
) -> list[int]:
    """Choose the widths of batches that pad a text least.

    Each sentence is padded to the smallest width that holds it. The sum of these widths over the
    text, and with it the number of batches, is the smallest that `count` widths allow.

    Args:
        lengths: Integers [n]: lengths in tokens, eos included.
        count: The largest number of widths.
        longest: A length that the last width must hold; by default that of the longest sentence.
        multiple: Widths are multiples of this number, which matrix units of accelerators need.

    Returns:
        The widths, ascending; fewer than `count` if more would not pad less.

    Raises:
        ValueError: If there are no lengths, a length or number is not positive, or `longest` is
            less than a length.

    >>> choose_widths([7, 9, 9, 30], count=2)
    [16, 32]
    >>> choose_widths([7, 9, 9, 30], count=3)
    [8, 16, 32]
    """
    lengths = np.asarray(lengths)
    _check(lengths, count, longest, multiple)
    # Number the multiples from 1: width i holds lengths over (i - 1) * multiple.
    held = np.bincount(-(-lengths // multiple))
    last = -(-(longest or int(lengths.max())) // multiple)
    held = np.pad(held, (0, last + 1 - len(held)))
    up_to = np.cumsum(held)
    widths = np.arange(last + 1)
    # padded[i, j]: the tokens, over `multiple`, of sentences that i does not hold, in width j.
    padded = np.where(
        widths[:, None] < widths, (up_to - up_to[:, None]) * widths, np.iinfo(np.int64).max // 2
    )
    least, choices = padded[0], []
    for _ in range(1, count):
        totals = least[:, None] + padded
        totals[0] = padded[0]  # Nothing below: one width less.
        choices.append(totals.argmin(axis=0))
        least = totals.min(axis=0)
    chosen = [last]
    for before in reversed(choices):
        if chosen[0]:
            chosen.insert(0, int(before[chosen[0]]))
    return [width * multiple for width in chosen if width]


def _check(lengths: np.ndarray, count: int, longest: int | None, multiple: int) -> None:
    if not lengths.size or lengths.min() < 1:
        raise ValueError(
            "lengths must be positive numbers of tokens, eos included, received "
            f"{lengths.min() if lengths.size else 'none'}. Drop empty sentences first."
        )
    for name, value in (("count", count), ("multiple", multiple)):
        if value < 1:
            raise ValueError(f"{name} must be positive, received {value}. Use 8.")
    if longest is not None and longest < lengths.max():
        raise ValueError(
            f"longest must hold every sentence, of up to {lengths.max()} tokens, received "
            f"{longest}. Leave it out, or drop longer sentences."
        )
