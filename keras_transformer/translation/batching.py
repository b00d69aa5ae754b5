"""Translation of any number of sentences, in batches of similar length."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import tensorflow as tf
from tqdm import tqdm

from keras_transformer.utils.cores import available_cores
from keras_transformer.utils.devices import has_gpu, usual_batch_size


def translate_in_batches(
    translate: Callable[[tf.Tensor], tf.Tensor],
    sentences: Sequence[str],
    batch_size: int | None = None,
    progress: bool = False,
) -> list[str]:
    """Translate any number of sentences in batches of similar length, and return them in order.

    On CPUs, each available core translates another batch, in another thread; a
    `tf.device` around the call does not apply there. With a GPU, batches follow one another.

    Args:
        translate: A function from string [B] to string [B].
        sentences: The sentences to translate.
        batch_size: B, the number of sentences per batch; by default 64, or 256 with a GPU.
        progress: Whether to show a progress bar.

    Returns:
        The translations, in the order of the sentences.

    Raises:
        TypeError: If `sentences` is a single string.
        ValueError: If `batch_size` is less than 1.

    >>> translate_in_batches(tf.strings.upper, ["a", "bcd", "ef"], batch_size=2)
    ['A', 'BCD', 'EF']
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be a list of strings, received a single string. Put it into a list."
        )
    if batch_size is None:
        batch_size = usual_batch_size()
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, received {batch_size}. Try 64.")
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def translate_batch(batch):
        # Lone surrogates, as in a wrongly decoded file name, have no UTF-8 encoding.
        texts = [sentences[i].encode("utf-8", "surrogatepass") for i in batch]
        return translate(tf.constant(texts)).numpy()

    translations = [""] * len(sentences)
    with (
        tqdm(total=len(sentences), unit=" sentences", disable=not progress) as bar,
        ThreadPoolExecutor(concurrent_batches()) as pool,
        # A generator; closing it cancels later batches.
        closing(pool.map(translate_batch, batches)) as results,  # type: ignore[type-var]
    ):
        for batch, outputs in zip(batches, results, strict=True):
            for i, output in zip(batch, outputs, strict=True):
                translations[i] = output.decode("utf-8")
            bar.update(len(batch))
    return translations


def concurrent_batches() -> int:
    """Return the number of batches to translate at a time: 1 with a GPU, else one per core.

    Cores that share the small operations of one batch mostly wait for each other. More batches
    than TensorFlow runs operations at a time would only take memory.
    """
    if has_gpu():
        return 1
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    return min(available_cores(), threads or available_cores())
