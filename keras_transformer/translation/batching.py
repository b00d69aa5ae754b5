"""Any number of sentences, by a function that translates a batch."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import tensorflow as tf
from tqdm import tqdm

_AT_ONCE = 2
"""Two cores with a batch each take 0.6 of the time in which they divide the operations of one."""


def translate_in_batches(
    translate: Callable[[tf.Tensor], tf.Tensor],
    sentences: Sequence[str],
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Translate any number of sentences in batches of similar length, and restore their order.

    Two batches are translated at a time, each in a thread of its own, where a `tf.device` around
    the call does not hold.

    Args:
        translate: from string [B] to string [B].
        sentences: what to translate.
        batch_size: sentences that are translated at once.
        progress: whether to show a progress bar.

    Raises:
        TypeError: `sentences` is a single string.
        ValueError: `batch_size` is less than 1.

    >>> translate_in_batches(tf.strings.upper, ["a", "bcd", "ef"], batch_size=2)
    ['A', 'BCD', 'EF']
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be a list of strings, received a single one. Put it into a list."
        )
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, received {batch_size}. Try 64.")
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def translate_batch(batch):
        # Half a surrogate pair, as in a wrongly decoded file name, has no UTF-8 of its own.
        texts = [sentences[i].encode("utf-8", "surrogatepass") for i in batch]
        return translate(tf.constant(texts)).numpy()

    translations = [""] * len(sentences)
    with (
        tqdm(total=len(sentences), unit=" sentences", disable=not progress) as bar,
        ThreadPoolExecutor(_AT_ONCE) as pool,
        closing(pool.map(translate_batch, batches)) as results,  # Closed, it begins no more.
    ):
        for batch, outputs in zip(batches, results, strict=True):
            for i, output in zip(batch, outputs, strict=True):
                translations[i] = output.decode("utf-8")
            bar.update(len(batch))
    return translations
