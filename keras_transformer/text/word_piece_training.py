"""Train WordPiece vocabularies on raw text."""

import collections
import itertools
import math
import unicodedata
from collections.abc import Iterable

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from keras_transformer.text.word_piece import RESERVED, WORD_MARK, words_of

_LINES_AT_ONCE = 8192
_MOST_WORDS = 400_000  # the learner counts every part of a word, which takes gigabytes
_TOLERANCE = 1.05  # stop the search at this multiple of the vocabulary size


def train_word_piece(
    lines: Iterable[str], vocab_size: int, *, character_coverage: float = 1.0
) -> bytes:
    """Train a WordPiece vocabulary with pad 0, unk 1, bos 2, eos 3, and then the 256 bytes.

    The paper's English-French models use 32,000 word pieces (Section 5.1). TensorFlow Text learns
    them from the 400,000 most frequent words. Training is deterministic.

    Args:
        lines: Raw sentences.
        vocab_size: Exact number of pieces (V), including control pieces and bytes.
        character_coverage: Share of the text's characters, 0.98 to 1, that become pieces; other
            characters are spelled as their UTF-8 bytes.

    Returns:
        The vocabulary as bytes, for `WordPieceTokenizer`.

    Raises:
        ValueError: If an argument is out of range, the lines have no text, or `vocab_size` is too
            large or too small for them.

    >>> from keras_transformer.text import WordPieceTokenizer
    >>> WordPieceTokenizer(train_word_piece(["a dog", "a cat"], vocab_size=270)).vocab_size
    270
    """
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            f"character_coverage must be between 0.98 and 1, received {character_coverage}. "
            "Use 1.0 for alphabetic languages."
        )
    words = _count_words(lines)
    if not words:
        raise ValueError(
            "lines must contain text to train a vocabulary on, received none. "
            "Check that the files are not empty."
        )
    characters = _characters(words, character_coverage)
    words = {word: count for word, count in words.items() if characters.issuperset(word)}
    first = [*RESERVED, WORD_MARK, *sorted(characters - {WORD_MARK})]
    if vocab_size < len(first):
        raise ValueError(
            f"vocab_size must be at least {len(first)} for these lines (control pieces, bytes and "
            f"single characters), received {vocab_size}. Use a larger vocab_size "
            "(model.vocab_size) or a smaller character_coverage (data.character_coverage)."
        )
    pieces = _learn(words, first, vocab_size)
    return "".join(f"{piece}\n" for piece in pieces).encode()


def _count_words(lines: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each word, the most frequent words first."""
    counts: collections.Counter[bytes] = collections.Counter()
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, _LINES_AT_ONCE)):
        texts = [line.encode("utf-8", "replace") for line in chunk]
        counts.update(words_of(tf.constant(texts)).numpy().tolist())
    decoded = ((word.decode(), count) for word, count in counts.items())
    # If the text itself contains the mark, it is spelled in bytes.
    words = [(word, count) for word, count in decoded if WORD_MARK not in word[1:]]
    return dict(sorted(words, key=lambda item: (-item[1], item[0])))


def _characters(words: dict[str, int], coverage: float) -> set[str]:
    """Return the most frequent characters, which make up this share of the text."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word.removeprefix(WORD_MARK):
            if unicodedata.category(character) != "Cc":  # control characters, such as NUL
                counts[character] += count
    wanted = math.ceil(coverage * counts.total())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    sums = itertools.accumulate((count for _, count in ordered), initial=0)
    covered = {
        character for (character, _), sum_ in zip(ordered, sums, strict=False) if sum_ < wanted
    }
    return covered | {WORD_MARK}


def _learn(words: dict[str, int], first: list[str], vocab_size: int) -> list[str]:
    """Return the given first pieces, followed by the most frequent pieces of the words."""

    def learn(threshold: int) -> list[str]:
        learned = learner.learn(
            words,
            vocab_size,
            reserved_tokens=[],
            # With a range, the learner would settle for fewer pieces than requested.
            upper_thresh=threshold,
            lower_thresh=threshold,
            max_input_tokens=_MOST_WORDS,
            max_unique_chars=len(first),
            include_joiner_token=False,
            joiner="",
        )
        return list(dict.fromkeys([*first, *learned]))

    low, high = 1, max(words.values())
    enough, most = None, 0
    while low <= high:
        threshold = math.isqrt(low * high)  # word counts span orders of magnitude
        pieces = learn(threshold)
        most = max(most, len(pieces))
        if len(pieces) < vocab_size:
            high = threshold - 1
            continue
        enough = pieces
        if len(pieces) <= _TOLERANCE * vocab_size:
            break
        low = threshold + 1
    if enough is None:
        raise ValueError(
            f"vocab_size must be at most {most} for these lines, received {vocab_size}. "
            "Use a smaller vocab_size (model.vocab_size) or more text."
        )
    return enough[:vocab_size]  # the rarest pieces come last
