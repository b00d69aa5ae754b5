"""Translation of any number of sentences, in batches of similar length."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import tensorflow as tf
from tqdm import tqdm

from keras_transformer.utils.devices import available_cores, has_gpu, usual_batch_size

Advance = Callable[[Sequence[str]], object]
"""Is called with sentences that are done."""

_BAR = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]"
_SMOOTHING = 0.1
"""Weight of the last batch in the speed: little, as batches that run at a time end together."""
_CHARACTERS = 20
"""What a sentence takes besides the time of its characters, in characters."""


@contextmanager
def progress_bar(sentences: Sequence[str] | int, disable: bool = False) -> Iterator[Advance]:
    """Show a progress bar of sentences, and yield a function to call with those that are done.

    Time is proportional to characters, so the time left is right although long sentences come
    first. The first batch, for which TensorFlow traces the search, doesn't count.

    Args:
        sentences: All sentences; or the characters of texts that will be split into sentences,
            for an estimate.
        disable: Whether to show nothing.
    """
    done = 0
    if isinstance(sentences, int):
        total, count, each = sentences, "", 0
    else:
        total, count, each = _work(sentences), f"/{len(sentences)}", _CHARACTERS
    with tqdm(total=total, bar_format=_BAR, smoothing=_SMOOTHING, disable=disable) as bar:

        def advance(batch: Sequence[str]) -> None:
            nonlocal done
            done += len(batch)
            bar.set_description_str(f"{done}{count} sentences", refresh=False)
            work = min(_work(batch, each), total - bar.n)  # Texts may be translated twice.
            if done == len(batch):
                bar.initial = bar.last_print_n = bar.n = work
                bar.last_print_t = time.time()
                bar.refresh()
            else:
                bar.update(work)

        bar.set_description_str(f"0{count} sentences")
        yield advance
        bar.update(total - bar.n)  # The white space between sentences.


def _work(sentences: Sequence[str], each: int = _CHARACTERS) -> int:
    return sum(len(sentence) + each for sentence in sentences)


def translate_in_batches(
    translate: Callable[..., tf.Tensor],
    sentences: Iterable[str],
    batch_size: int | None = None,
    progress: bool | Advance = False,
    columns: Sequence[Sequence[str]] = (),
) -> list[str]:
    """Translate any number of sentences in batches of similar length, and return them in order.

    On CPUs, each available core translates another batch, in another thread; a
    `tf.device` around the call does not apply there. With a GPU, batches follow one another.

    Args:
        translate: A function from string [B], and string [B] of each column, to string [B].
        sentences: The sentences to translate.
        batch_size: B, the number of sentences per batch; by default 64, or 256 with a GPU.
        progress: Whether to show a progress bar; or a function to call with the sentences of each
            batch that is done.
        columns: Further strings of each sentence, such as its languages.

    Returns:
        The translations, in the order of the sentences.

    Raises:
        TypeError: If `sentences` is a single string, or holds anything but strings.
        ValueError: If `batch_size` is less than 1.

    >>> translate_in_batches(tf.strings.upper, ["a", "bcd", "ef"], batch_size=2)
    ['A', 'BCD', 'EF']
    """
    sentences = list_of_strings(sentences)
    if batch_size is None:
        batch_size = usual_batch_size()
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, received {batch_size}. Try 64.")
    if progress and not callable(progress):
        with progress_bar(sentences) as advance:
            return translate_in_batches(translate, sentences, batch_size, advance, columns)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def translate_batch(batch):
        # Lone surrogates, as in a wrongly decoded file name, have no UTF-8 encoding.
        texts = [sentences[i].encode("utf-8", "surrogatepass") for i in batch]
        others = (tf.constant([column[i] for i in batch]) for column in columns)
        return translate(tf.constant(texts), *others).numpy()

    translations = [""] * len(sentences)
    with (
        ThreadPoolExecutor(concurrent_batches()) as pool,
        # A generator; closing it cancels later batches.
        closing(pool.map(translate_batch, batches)) as results,  # type: ignore[type-var]
    ):
        for batch, outputs in zip(batches, results, strict=True):
            for i, output in zip(batch, outputs, strict=True):
                translations[i] = output.decode("utf-8")
            if callable(progress):
                progress([sentences[i] for i in batch])
    return translations


def list_of_strings(given: Iterable[str], name: str = "sentences") -> list[str]:
    """Return strings of any iterable, such as a column of a table, as a list.

    Raises:
        TypeError: If `given` is a single string, or holds anything but strings.

    >>> list_of_strings(["a", None])
    Traceback (most recent call last):
    TypeError: sentences must be strings, received None at place 1 (from 0). Leave it out.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        kind = "a single string" if isinstance(given, str | bytes) else repr(given)
        raise TypeError(f"{name} must be a list of strings, received {kind}. Put it into a list.")
    strings = list(given)
    for place, string in enumerate(strings):
        if not isinstance(string, str):
            raise TypeError(
                f"{name} must be strings, received {string!r} at place {place} (from 0). Leave it "
                "out."
            )
    return strings


def concurrent_batches() -> int:
    """Return the number of batches to translate at a time: 1 with a GPU, else one per core.

    Cores that share the small operations of one batch mostly wait for each other. More batches
    than TensorFlow runs operations at a time would only take memory.
    """
    if has_gpu():
        return 1
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    return min(available_cores(), threads or available_cores())
