"""WordPiece in a TensorFlow graph: strings to token ids and back; training of vocabularies."""

import collections
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable

import tensorflow as tf
import tensorflow_text
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from keras_transformer.config import EOS_ID, PAD_ID, UNK_ID
from keras_transformer.text.base import NO_TEXT, SPECIAL, Tokenizer, check_coverage

FIRST_BYTE_ID = EOS_ID + 1
RESERVED = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
"""The first pieces of every vocabulary. No text matches them."""
WORD_MARK = "▁"
"""The space at the beginning of a piece. As text, this character is spelled in bytes."""

# Marks the beginning of a word in the graph. It is white space, so no normalized text has it.
_MARK = "\x1f"
_WHITE_SPACE = r"[\s\pZ\x0b\x1c-\x1f\x{85}]+"
_ANY_WORD = rf"{_MARK}?(?:[\pL\pM]+|\pN+|[^\pL\pM\pN{_MARK}])|{_MARK}"

_LINES_AT_ONCE = 8192
_MOST_WORDS = 400_000  # the learner counts every part of a word, which takes gigabytes
_TOLERANCE = 1.05  # stop the search at this multiple of the vocabulary size


class WordPieceTokenizer(Tokenizer):
    """Tokenize with a WordPiece vocabulary (Wu et al., 2016) inside a TensorFlow graph.

    Text is normalized to NFKC, with single spaces. Words are runs of letters, runs of digits, and
    other single characters; each is split into the longest matching pieces from the left. A piece
    after a space begins with "▁". A character that is not in the vocabulary is spelled as its UTF-8
    bytes, so no text becomes unk. It has the methods of `Tokenizer`.

    Normalization follows the Unicode version of TensorFlow Text: 16, or 12 in model servers before
    2.20. The results differ only for characters that Unicode added in between.

    Args:
        model: A vocabulary as UTF-8 bytes, one piece per line, such as `train_word_piece` returns.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of pieces in the vocabulary (V), including control pieces and bytes.

    Raises:
        TypeError: If `model` is not bytes.
        ValueError: If `model` is not such a vocabulary.

    >>> from keras_transformer.text import train_word_piece
    >>> tokenizer = WordPieceTokenizer(train_word_piece(["a dog", "a cat"], vocab_size=270))
    >>> ids = tokenizer.tokenize(["a cat", "", "a dog 🐕"])
    >>> [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    ['a cat', '', 'a dog 🐕']
    """

    _KIND = "WordPiece vocabulary"
    _TRAINED_BY = "train_word_piece"

    def __init__(self, model: bytes):
        super().__init__(model)
        pieces = self._pieces_by_id[len(RESERVED) :]
        self._pieces_in_graph = [piece.replace(WORD_MARK, _MARK) for piece in pieces]
        characters = {piece for piece in pieces if len(piece) == 1} - {WORD_MARK}
        self._unknown, self._word = _patterns(characters)

    def _read(self, model: bytes) -> list[str]:
        advice = "Read a file that was written by save, or train one with train_word_piece."
        try:
            pieces = model.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"model must be text in UTF-8, received other bytes. {advice}"
            ) from error
        if pieces[: len(RESERVED)] != RESERVED:
            raise ValueError(
                f"a WordPiece vocabulary must begin with {', '.join(RESERVED[:5])} and so on to "
                f"{RESERVED[-1]}, received {', '.join(pieces[:5])[:80]!r}. {advice}"
            )
        own = pieces[len(RESERVED) :]
        missing = {WORD_MARK, *"".join(own)} - {*own}
        is_wrong = any(re.search(f"^$|[\\s\0-\x1f]|.{WORD_MARK}", piece) for piece in own)
        if missing or is_wrong or len({*pieces}) < len(pieces):
            lacking = ", ".join(sorted(missing)[:5]) or "none"
            raise ValueError(
                "the pieces of a WordPiece vocabulary must be distinct, without white space, with "
                f"{WORD_MARK} only at the beginning, and each of their characters must be a piece; "
                f"received {len(own):,} pieces that lack {lacking}. {advice}"
            )
        return pieces

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        is_piece = (ids >= 0) & (ids < self.vocab_size)
        return self._join(tf.cast(tf.where(is_piece, ids, PAD_ID), tf.int32))

    # Separate tf.functions, so that a graph contains the vocabulary only once.

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text):
        words = tf.strings.split(tf.strings.regex_replace(normalized(text), self._word, r"\0 "))
        is_unknown = tf.strings.regex_full_match(words.values, self._unknown)
        wordpiece = tensorflow_text.FastWordpieceTokenizer(
            [*RESERVED, *self._pieces_in_graph],
            suffix_indicator="",
            max_bytes_per_word=2**31 - 1,
            token_out_type=tf.int32,
            unknown_token=RESERVED[UNK_ID],
            no_pretokenization=True,
        )
        known = wordpiece.tokenize(tf.where(is_unknown, "", words.values))
        unknown = tf.where(is_unknown, words.values, "")
        spelled = tf.io.decode_raw(tf.strings.reduce_join(unknown), tf.uint8)
        ids = tf.concat([known.values, FIRST_BYTE_ID + tf.cast(spelled, tf.int32)], axis=0)
        # `ids` has known words first; `order` restores the order of the text.
        counts = tf.cast(tf.strings.length(unknown), tf.int64)
        limits = tf.size(known.values, tf.int64) + tf.cumsum(counts)
        order = tf.ragged.range(
            tf.where(is_unknown, limits - counts, known.row_starts()),
            tf.where(is_unknown, limits, known.row_limits()),
        )
        return tf.RaggedTensor.from_row_splits(
            tf.gather(ids, order.values),
            tf.gather(order.row_splits, words.row_splits),
            validate=False,
        )

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def _join(self, ids):
        special = [b""] * FIRST_BYTE_ID
        special[UNK_ID] = " ⁇ ".encode()
        texts = [*special, *(bytes([byte]) for byte in range(256))]
        texts += [piece.replace(_MARK, " ").encode() for piece in self._pieces_in_graph]
        text = tf.strings.reduce_join(tf.gather(tf.constant(texts), ids), axis=1)
        return _valid(tf.strings.regex_replace(text, "^ ", ""))


def words_of(text: tf.Tensor) -> tf.Tensor:
    """Return the words of all texts [B], concatenated, to train a vocabulary on.

    A word after a space, or at the beginning of a text, begins with `WORD_MARK`.
    """
    words = tf.strings.split(tf.strings.regex_replace(normalized(text), _ANY_WORD, r"\0 "))
    return tf.strings.regex_replace(words.values, f"^{_MARK}", WORD_MARK)


def normalized(text: tf.Tensor) -> tf.Tensor:
    """Return texts [B] in NFKC, with a mark instead of white space and at the beginning."""
    text = tensorflow_text.normalize_utf8(_valid(text), "NFKC")
    text = tf.strings.regex_replace(tf.strings.join([_MARK, text]), _WHITE_SPACE, _MARK)
    return tf.strings.regex_replace(text, f"{_MARK}$", "")


def _valid(text: tf.Tensor) -> tf.Tensor:
    """Replace bytes that are not UTF-8 with U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def _patterns(characters: Iterable[str]) -> tuple[str, str]:
    """Return regular expressions for a character outside the vocabulary and for a word."""
    kinds = {"L": "", "N": "", "": ""}
    for character in sorted(characters):
        kind = unicodedata.category(character)[0].replace("M", "L")
        kinds[kind if kind in kinds else ""] += rf"\x{{{ord(character):x}}}"
    runs = [f"[{kind}]{'+' if name else ''}" for name, kind in kinds.items() if kind]
    unknown = f"[^{_MARK}{''.join(kinds.values())}]"
    return unknown, "|".join([*(f"{_MARK}?{run}" for run in runs), _MARK, unknown])


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
    check_coverage(character_coverage)
    words = _count_words(lines)
    if not words:
        raise ValueError(NO_TEXT)
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
