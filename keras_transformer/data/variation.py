"""Other tokens for the same text in each pass: BPE-dropout and word dropout."""

import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from keras_transformer.config import UNK_ID
from keras_transformer.data.encoding import EncodedPairs, offsets_of
from keras_transformer.utils.devices import available_cores

if TYPE_CHECKING:
    from keras_transformer.text import SentencePieceTokenizer, WordTokenizer

_AT_ONCE = 1024
"""Sentences of a task for a process."""
_MOST_PROCESSES = 16
_SAMPLE = 500
"""Pairs that tell how much longer the text becomes."""


class Variation(Protocol):
    """Other tokens for the same pairs in each pass, such as `SubwordDropout`."""

    growth: float
    """How many times as many tokens the text has afterwards."""

    def segment(self, number: int, first: int, members: np.ndarray) -> Future[EncodedPairs]:
        """Start to give pairs other tokens, in the order of the calls.

        Args:
            number: The number of the pass.
            first: The place in the pass of the first pair.
            members: Integers [n]: the pairs.

        Returns:
            A future of `EncodedPairs` with these pairs in their order.
        """


class InOrder:
    """Runs functions in the background, one after another.

    >>> start = InOrder()
    >>> [start(pow, 2, n).result() for n in (3, 4)]
    [8, 16]
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._last: Future[Any] | None = None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return a future of what a function returns."""
        future: Future[Any] = Future()
        with self._turn:
            before, self._last = self._last, future

        def run():
            try:
                if before is not None:
                    wait([before])
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        # The end of the program does not wait for a daemon.
        threading.Thread(target=run, daemon=True).start()
        return future


class SubwordDropout:
    """Segments sentence pairs again with random merges left out (BPE-dropout).

    Worker processes segment the next part of a pass while the current part is used. The
    segmentation of a pair depends only on the seed, the number of the pass and its place in it.

    Args:
        pairs: Sentence pairs to segment; not modified.
        tokenizers: Source and target tokenizers that encoded the pairs, trained with
            `model_type="bpe"`; None for a side that keeps its tokens.
        rate: Probability of leaving out a merge, from 0 to 1.
        max_length: Most tokens of a sentence, eos included. A sentence that would become longer
            keeps its segmentation, and so does a sentence with unk, whose text is unknown.
        seed: Seed of the segmentation.
        processes: Number of processes; by default one for each core, up to 16.
        before: What varies the text of the pairs before they are segmented again.

    Attributes:
        growth: How many times as many tokens the text has afterwards, from a sample.

    >>> from keras_transformer.data import encode_pairs
    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
    >>> pairs = encode_pairs([("ab", "ab ab")], tokenizer, tokenizer, max_length=10)
    >>> dropout = SubwordDropout(pairs, (tokenizer, tokenizer), rate=1, max_length=10, seed=7)
    >>> characters = dropout.segment(0, 0, np.array([0])).result()
    >>> tokenizer.id_to_piece(pairs.source_ids), tokenizer.id_to_piece(characters.source_ids)
    (['▁ab'], ['▁', 'a', 'b'])
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        tokenizers: "tuple[SentencePieceTokenizer | None, SentencePieceTokenizer | None]",
        rate: float,
        *,
        max_length: int,
        seed: int = 0,
        processes: int | None = None,
        before: Variation | None = None,
    ):
        self.pairs = pairs
        self.seed = seed
        self.processes = processes or min(_MOST_PROCESSES, available_cores())
        self._options: dict[str, Any] = {"rate": rate, "max_length": max_length, "unk_id": UNK_ID}
        self._dropouts = {
            side: tokenizer.bpe_dropout
            for side, tokenizer in enumerate(tokenizers)
            if tokenizer is not None
        }
        self._before = before
        self.growth = self._measure() * (before.growth if before else 1)
        self._in_background = InOrder()
        self._processes: list[subprocess.Popen[bytes]] = []

    def segment(self, number: int, first: int, members: np.ndarray) -> Future[EncodedPairs]:
        """Start to segment some pairs, after those of earlier calls.

        See `Variation.segment`.
        """
        return self._in_background(self._segment, number, first, members)

    def _segment(self, number: int, first: int, members: np.ndarray) -> EncodedPairs:
        if not self._processes:
            self._processes += [self._start() for _ in range(self.processes)]
        pairs = self.pairs
        if self._before is not None:
            pairs = self._before.segment(number, first, members).result()
            members = np.arange(len(members))
        tasks = (
            self._task(pairs, side, number, first + start, members[start : start + _AT_ONCE])
            for side in self._dropouts
            for start in range(0, len(members), _AT_ONCE)
        )
        try:
            results = list(_in_order(self._processes, tasks))
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            for process in self._processes:  # Others may hold answers to what is not asked again.
                _end(process)
            self._processes.clear()
            raise RuntimeError(
                "A process that segments text has ended before its task was done. Free memory and "
                "run the command again."
            ) from error
        share = -(-len(members) // _AT_ONCE)
        arrays: list[np.ndarray] = []
        for side in (0, 1):
            if side in self._dropouts:
                of_side, results = results[:share], results[share:]
                ids, counts = (b"".join(parts) for parts in zip(*of_side, strict=True))
            else:
                ids, counts = self._task(pairs, side, number, first, members)[1:3]
            arrays += [np.frombuffer(ids, np.int32), offsets_of(np.frombuffer(counts, np.int64))]
        return EncodedPairs(*arrays)

    def _start(self) -> "subprocess.Popen[bytes]":
        from keras_transformer.text import bpe_dropout

        # Without packages, a process starts in milliseconds and takes few megabytes. In its own
        # session, it does not see Ctrl-C; if this process is killed, its input ends.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", bpe_dropout.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        weakref.finalize(self, _end, process)
        vocabularies = {side: (each.pieces, each.scores) for side, each in self._dropouts.items()}
        _send(process, (vocabularies, self._options))
        return process

    def _task(
        self, pairs: EncodedPairs, side: int, number: int, first: int, members: np.ndarray
    ) -> tuple[Any, ...]:
        """Return a task for `text.bpe_dropout`: side, ids, counts and seeds."""
        ids, counts = pairs.rows(side, members)
        base = side | number << 1 | self.seed << 64
        seeds = [base | (first + i) << 32 << 64 for i in range(len(members))]
        return side, ids.tobytes(), counts.tobytes(), seeds

    def _measure(self) -> float:
        from keras_transformer.text import bpe_dropout  # `data` alone needs no TensorFlow.

        members = np.linspace(0, len(self.pairs) - 1, min(_SAMPLE, len(self.pairs))).astype(int)
        before, after = np.zeros((2, 2, len(members)), int)
        for side in (0, 1):
            ids, counts = self.pairs.rows(side, members)
            before[side] = after[side] = counts + 1
            if side in self._dropouts:
                rows = [row.tolist() for row in np.split(ids, np.cumsum(counts)[:-1])]
                dropout, seeds = self._dropouts[side], range(len(rows))
                varied = bpe_dropout.vary(dropout, rows, seeds=seeds, **self._options)
                after[side] = [len(row) + 1 for row in varied]
        # Batches are filled by the longer side.
        return float(after.max(axis=0).sum() / before.max(axis=0).sum())


class WordDropout:
    """Replaces words of sources by their classes, rare ones more often than frequent ones.

    The model learns to represent a class of words (Kiperwasser and Goldberg, 2016). A word
    that occurred n times is replaced with a probability of rate / (rate + n). The words that are
    replaced depend on the seed, the number of the pass and the place in the pass.

    Args:
        pairs: Sentence pairs; not modified.
        tokenizer: The tokenizer that encoded the sources.
        rate: The rate, at least 0.
        seed: Seed of the choice.

    Attributes:
        growth: How many times as many tokens the text has afterwards: 1.

    >>> from keras_transformer.data import encode_pairs
    >>> from keras_transformer.text import WordTokenizer, train_words
    >>> tokenizer = WordTokenizer(train_words(["tea tea", *"abcdefghij"], 20))
    >>> pairs = encode_pairs([("tea a", "tea")], tokenizer, tokenizer, max_length=10)
    >>> varied = WordDropout(pairs, tokenizer, rate=1e9).segment(0, 0, np.array([0])).result()
    >>> tokenizer.id_to_piece(pairs.source_ids), tokenizer.id_to_piece(varied.source_ids)
    (['tea', '<a>'], ['<a>', '<a>'])
    """

    growth = 1.0

    def __init__(
        self, pairs: EncodedPairs, tokenizer: "WordTokenizer", rate: float, *, seed: int = 0
    ):
        self.pairs = pairs
        self.seed = seed
        self._classes = tokenizer.class_ids()
        counts = tokenizer.counts
        self._rates = np.where(counts > 0, rate / (rate + np.maximum(counts, 1)), 0.0)

    def segment(self, number: int, first: int, members: np.ndarray) -> "Future[EncodedPairs]":
        """Return some pairs with other words replaced.

        See `Variation.segment`.
        """
        ids, counts = self.pairs.rows(0, members)
        seeds = ([self.seed, number, place] for place in range(first, first + len(members)))
        draws = np.concatenate(
            [np.random.default_rng(s).random(n) for s, n in zip(seeds, counts, strict=True)]
        )
        sources = np.where(draws < self._rates[ids], self._classes[ids], ids)
        targets, target_counts = self.pairs.rows(1, members)
        future: Future[EncodedPairs] = Future()
        future.set_result(
            EncodedPairs(sources, offsets_of(counts), targets, offsets_of(target_counts))
        )
        return future


def _in_order(
    processes: "Sequence[subprocess.Popen[bytes]]", tasks: Iterator[Any]
) -> Iterator[Any]:
    """Yield the results of tasks. Each process has one at a time, so that no pipe can be full."""
    waiting: list[subprocess.Popen[bytes]] = []
    free = list(processes)
    for task in tasks:
        if not free:
            process = waiting.pop(0)
            result = _receive(process)
            free.append(process)
            yield result
        process = free.pop(0)
        _send(process, task)
        waiting.append(process)
    for process in waiting:
        yield _receive(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _send(process: "subprocess.Popen[bytes]", value: Any) -> None:
    stdin: IO[bytes] = process.stdin  # type: ignore[assignment]
    pickle.dump(value, stdin, protocol=5)
    stdin.flush()


def _receive(process: "subprocess.Popen[bytes]") -> Any:
    stdout: IO[bytes] = process.stdout  # type: ignore[assignment]
    return pickle.load(stdout)
