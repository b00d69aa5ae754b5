"""Batches of sentences of similar length, each within a budget of tokens (Section 5.1).

For XLA, which compiles a training step once for each shape, `choose_widths` finds a few widths.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

EMPTY_ROW = -1
"""Index of a row of padding, which rounds a batch up to a multiple of the replicas."""

# Examples of this many batches are sorted by the second key. A smaller window is more random but
# pads more: on Multi30k 4% of a batch is padding with 8, 5% with 4, and 8% without sorting.
_WINDOW = 8
# Growth from one bucket to the next. Boundaries are rounded down and differ by a token at least.
_RATIO = 1.1
# From here on, a multiple of 8 makes a batch a tenth smaller at most.
_MANY_ROWS = 64


def _bucket_boundaries(shortest: int, longest: int) -> list[int]:
    """Return geometric bucket boundaries, as in tensor2tensor: the longest length of each.

    >>> _bucket_boundaries(18, 26)
    [18, 19, 20, 22, 24, 26]
    """
    boundaries, boundary = [], shortest
    while boundary < longest:
        boundaries.append(boundary)
        boundary = max(boundary + 1, int(boundary * _RATIO))
    return [*boundaries, longest]


def plan_batches(
    lengths: ArrayLike,
    batch_tokens: int,
    *,
    num_replicas: int = 1,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    group_by: ArrayLike | None = None,
    widths: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """Assign every example of an epoch to exactly one batch.

    Examples are grouped by length in geometric buckets. Examples that do not fill a batch move to
    the next longer bucket, so only the last batch, which has the longest examples, may not be full.
    The number of batches is the same in every epoch.

    Args:
        lengths: Integers [n]: the longer of each pair's source and target length in tokens, eos
            included.
        batch_tokens: The largest size of a batch, for source and target each: rows times longest
            length, padding included.
        num_replicas: Each batch is completed with `EMPTY_ROW` to a multiple of this number of rows.
            The examples of a batch do not depend on it.
        seed: Seed of the order, combined with `epoch`.
        epoch: Number of the epoch. Each epoch combines other examples, in another order.
        shuffle: Whether to shuffle. Without it, examples keep their order within a bucket, and
            batches go from short to long.
        group_by: Integers [n]: a second key, such as the source length minus the target length.
            Examples with similar keys share a batch as far as that keeps the order random.
        widths: The longest length of each bucket, ascending, such as `choose_widths` returns; by
            default geometric ones. With it, every batch has all rows of its bucket, the last one
            completed with `EMPTY_ROW`.

    Returns:
        A list of index arrays into `lengths`, one for each batch.

    Raises:
        ValueError: If a number is not positive, or a sentence does not fit into the budget.

    >>> [batch.tolist() for batch in plan_batches([3, 9, 4, 3, 4], batch_tokens=9, shuffle=False)]
    [[0, 3], [2, 4], [1]]
    """
    lengths = np.asarray(lengths)
    _check(lengths, batch_tokens, num_replicas, widths)
    boundaries = widths or _bucket_boundaries(int(lengths.min()), int(lengths.max()))
    bucket_of_length = np.searchsorted(boundaries, np.arange(boundaries[-1] + 1))
    # Small integers: they sort in linear time, and a plan of 20 million takes 4 bytes for each.
    buckets = bucket_of_length.astype(np.uint16)[lengths]

    rng = np.random.default_rng((seed, epoch))
    order = np.arange(len(lengths), dtype=np.int32 if len(lengths) < 2**31 else np.int64)
    if shuffle:
        rng.shuffle(order)
    order = order[np.argsort(buckets[order], kind="stable")]

    batches: list[np.ndarray] = []
    start = 0
    counts = np.bincount(buckets, minlength=len(boundaries))
    for rows, full in _full_batches(counts, boundaries, batch_tokens, bool(widths)):
        members = order[start:full]
        if group_by is not None:
            members = _sorted_in_windows(members, np.asarray(group_by), rows * _WINDOW)
        batches.extend(members.reshape(-1, rows))
        start = full
    if start < len(order):
        batches.append(_completed(order[start:], rows if widths else 1))
    if shuffle:
        batches = [batches[i] for i in rng.permutation(len(batches))]
    return [_completed(batch, num_replicas) for batch in batches]


def count_batches(
    lengths: ArrayLike, batch_tokens: int, widths: Sequence[int] | None = None
) -> int:
    """Return the number of batches of `plan_batches`, without a plan.

    Raises:
        ValueError: If `plan_batches` refuses the arguments.

    >>> count_batches([3, 9, 4, 3, 4], batch_tokens=9)
    3
    """
    lengths = np.asarray(lengths)
    _check(lengths, batch_tokens, num_replicas=1, widths=widths)
    by_length = np.bincount(lengths)
    boundaries = widths or _bucket_boundaries(int(lengths.min()), len(by_length) - 1)
    buckets = np.searchsorted(boundaries, np.arange(len(by_length)))
    counts = np.bincount(buckets, weights=by_length, minlength=len(boundaries)).astype(np.int64)
    number = start = 0
    for rows, full in _full_batches(counts, boundaries, batch_tokens, bool(widths)):
        number += (full - start) // rows
        start = full
    return number + (start < len(lengths))


def choose_widths(
    lengths: ArrayLike, count: int, *, longest: int | None = None, multiple: int = 8
) -> list[int]:
    """Choose the widths of batches that pad a text least.

    Each sentence is padded to the smallest width that holds it. The sum of these widths over the
    text, and with it the number of batches, is the smallest that `count` widths allow.

    Args:
        lengths: Integers [n]: lengths in tokens, eos included.
        count: The largest number of widths.
        longest: A length that the last width must hold; by default the longest of `lengths`.
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
    _check_lengths(lengths)
    for name, value in (("count", count), ("multiple", multiple)):
        if value < 1:
            raise ValueError(f"{name} must be positive, received {value}. Use 8.")
    if longest is not None and longest < lengths.max():
        raise ValueError(
            f"longest must hold every sentence, of up to {lengths.max()} tokens, received "
            f"{longest}. Leave it out, or drop longer sentences."
        )
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


def rows_per_batch(batch_tokens: int, width: int, is_static: bool) -> int:
    """Return the rows of a full batch of this width.

    Many rows of a static shape are a multiple of 8. XLA would pad others for the matrix units of an
    accelerator, in every product.

    >>> rows_per_batch(2400, 24, is_static=False), rows_per_batch(2400, 24, is_static=True)
    (100, 96)
    """
    rows = batch_tokens // width
    return rows - rows % 8 if is_static and rows >= _MANY_ROWS else rows


def _full_batches(
    counts: np.ndarray, boundaries: Sequence[int], batch_tokens: int, is_static: bool
) -> Iterator[tuple[int, int]]:
    """Yield for each bucket its rows per batch, and where its full batches end.

    The rest of a bucket belongs to the next one.
    """
    start = 0
    for boundary, end in zip(boundaries, np.cumsum(counts).tolist(), strict=True):
        rows = rows_per_batch(batch_tokens, boundary, is_static)
        start += (end - start) // rows * rows
        yield rows, start


def _completed(batch: np.ndarray, multiple: int) -> np.ndarray:
    missing = -len(batch) % multiple
    return np.append(batch, np.full(missing, EMPTY_ROW)) if missing else batch


def _sorted_in_windows(members: np.ndarray, keys: np.ndarray, window: int) -> np.ndarray:
    """Sort each window of members by their keys."""
    if not len(members):
        return members
    windows = np.split(members, range(window, len(members), window))
    return np.concatenate([w[np.argsort(keys[w], kind="stable")] for w in windows])


def _check(
    lengths: np.ndarray, batch_tokens: int, num_replicas: int, widths: Sequence[int] | None
) -> None:
    """Raise a ValueError for arguments of `plan_batches` that allow no plan."""
    for name, value in (("batch_tokens", batch_tokens), ("num_replicas", num_replicas)):
        if value < 1:
            raise ValueError(
                f"{name} must be positive, received {value}. Start with batch_tokens=4096 and "
                "num_replicas=1."
            )
    _check_lengths(lengths)
    if (longest := int(lengths.max())) > batch_tokens:
        raise ValueError(
            f"batch_tokens must be at least {longest} for a sentence of {longest} tokens, received "
            f"{batch_tokens}. Raise it, or drop long sentences with a smaller max_length."
        )
    if widths and not longest <= widths[-1] <= batch_tokens:
        raise ValueError(
            f"The last of widths must hold a sentence of {longest} tokens and fit into "
            f"batch_tokens={batch_tokens}, received widths={list(widths)}. Take them from "
            "choose_widths, and raise batch_tokens."
        )


def _check_lengths(lengths: np.ndarray) -> None:
    if not lengths.size or lengths.min() < 1:
        raise ValueError(
            "lengths must be positive numbers of tokens, eos included, received "
            f"{lengths.min() if lengths.size else 'none'}. Drop empty sentences first."
        )
