"""Training of WordPiece vocabularies from raw text."""

import collections
import itertools
import math
import unicodedata
from collections.abc import Iterable

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from keras_transformer.text.word_piece import RESERVED, WORD_MARK, words_of

_LINES_AT_ONCE = 8192
_MOST_WORDS = 400_000  # Gigabytes of parts of words, each of which the learner counts.
_MOST_TOO_MANY = 1.05


def train_word_piece(
    lines: Iterable[str], vocab_size: int, *, character_coverage: float = 1.0
) -> bytes:
    """Trains a WordPiece vocabulary with pad 0, unk 1, bos 2 and eos 3, and then the 256 bytes.

    The paper's English-French models have 32,000 word pieces (section 5.1). They are learned by
    TensorFlow Text, from the words of the lines and how often each is there, 400,000 at most:
    the pieces that come often enough for as many as asked for. The same lines give the same bytes.

    Args:
        lines: Raw sentences.
        vocab_size: The exact number of pieces, control pieces and bytes included (V).
        character_coverage: The share of the text's characters, 0.98 to 1, that become pieces of
            their own; the others are spelled as their UTF-8 bytes.

    Returns:
        The vocabulary's bytes, for `WordPieceTokenizer`.

    Raises:
        ValueError: An argument is out of range, the lines hold no text, or `vocab_size` is too
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
            "lines must hold some text to train a vocabulary on, received none. "
            "Check that the files are not empty."
        )
    characters = _characters(words, character_coverage)
    words = {word: count for word, count in words.items() if characters.issuperset(word)}
    first = [*RESERVED, WORD_MARK, *sorted(characters - {WORD_MARK})]
    if vocab_size < len(first):
        raise ValueError(
            f"vocab_size must be at least {len(first)} for these lines (control pieces, bytes and "
            f"single characters), received {vocab_size}. Use a larger vocab_size or a smaller "
            "character_coverage."
        )
    pieces = _learn(words, first, vocab_size)
    return "".join(f"{piece}\n" for piece in pieces).encode()


def _count_words(lines: Iterable[str]) -> dict[str, int]:
    """Return how often each word is there, the most frequent words first."""
    counts = collections.Counter()
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, _LINES_AT_ONCE)):
        texts = [line.encode("utf-8", "replace") for line in chunk]
        counts.update(words_of(tf.constant(texts)).numpy().tolist())
    words = ((word.decode(), count) for word, count in counts.items())
    # The mark as a character of the text is spelled in bytes.
    words = [(word, count) for word, count in words if WORD_MARK not in word[1:]]
    return dict(sorted(words, key=lambda item: (-item[1], item[0])))


def _characters(words: dict[str, int], coverage: float) -> set[str]:
    """Return the most frequent characters that are this share of the text."""
    counts = collections.Counter()
    for word, count in words.items():
        for character in word.removeprefix(WORD_MARK):
            if unicodedata.category(character) != "Cc":  # What ends a string of C, and the like.
                counts[character] += count
    wanted = math.ceil(coverage * counts.total())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    sums = itertools.accumulate((count for _, count in ordered), initial=0)
    covered = {
        character for (character, _), sum_ in zip(ordered, sums, strict=False) if sum_ < wanted
    }
    return covered | {WORD_MARK}


def _learn(words: dict[str, int], first: list[str], vocab_size: int) -> list[str]:
    """Return the first pieces, and those that come often enough to be as many as asked for."""

    def learn(threshold):
        learned = learner.learn(
            words,
            vocab_size,
            reserved_tokens=[],
            # One threshold, where the learner would search for one with fewer pieces than asked.
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
        threshold = math.isqrt(low * high)  # Counts of words span orders of magnitude.
        pieces = learn(threshold)
        most = max(most, len(pieces))
        if len(pieces) < vocab_size:
            high = threshold - 1
            continue
        enough = pieces
        if len(pieces) <= _MOST_TOO_MANY * vocab_size:
            break
        low = threshold + 1
    if enough is None:
        raise ValueError(
            f"vocab_size must be at most {most} for these lines, received {vocab_size}. "
            "Use a smaller vocab_size or more text."
        )
    return enough[:vocab_size]  # The rarest are the last.
