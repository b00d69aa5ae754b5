"""Training of SentencePiece vocabularies from raw text."""

import io
import re
from collections.abc import Iterable

import sentencepiece

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_ERRORS_ONLY = 2


def train_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    *,
    model_type: str = "bpe",
    character_coverage: float = 1.0,
    byte_fallback: bool = True,
) -> bytes:
    """Trains a SentencePiece vocabulary with pad 0, unk 1, bos 2 and eos 3.

    A joint vocabulary, which the paper's English-German models share between source, target and
    softmax (section 5.1), is one call with the lines of both sides; separate vocabularies are two
    calls. The same lines give the same bytes. Text is normalised by SentencePiece's NFKC rules,
    which the model carries along, so training and serving see the same characters.

    Args:
        lines: Raw sentences. SentencePiece leaves out those of more than 4,192 bytes.
        vocab_size: The exact number of pieces, control pieces and bytes included (V).
        model_type: "bpe" (byte pair encoding, as in the paper) or "unigram".
        character_coverage: The share of the text's characters, 0.98 to 1, that become pieces of
            their own; for languages with thousands of characters 0.9995 is usual.
        byte_fallback: Spell a character that is not a piece as its UTF-8 bytes, so that no text
            becomes unk. Takes 256 pieces.

    Returns:
        The model's bytes, for `SentencePieceTokenizer`.

    Raises:
        ValueError: An argument is out of range, the lines hold no text, or `vocab_size` is too
            large or too small for them.

    >>> from keras_transformer.text import SentencePieceTokenizer
    >>> SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269)).vocab_size
    269
    """
    if model_type not in ("bpe", "unigram"):
        raise ValueError(
            f"model_type must be 'bpe' or 'unigram', received {model_type!r}. "
            "Use 'bpe' for the paper's byte pair encoding."
        )
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            f"character_coverage must be between 0.98 and 1, received {character_coverage}. "
            "Use 1.0 for alphabetic languages."
        )
    if vocab_size < 1:
        raise ValueError(f"vocab_size must be positive, received {vocab_size}. Try 8000.")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            # Partial sums are added up per thread, so another number gives slightly other scores.
            num_threads=16,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        raise _explained(error, vocab_size) from error
    return model.getvalue()


def _explained(error: RuntimeError, vocab_size: int) -> Exception:
    """SentencePiece's failure in terms of the caller's arguments."""
    message = str(error)
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return ValueError(
            "lines must hold some text to train a vocabulary on, received none. "
            "Check that the files are not empty."
        )
    if largest := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        return ValueError(
            f"vocab_size must be at most {largest[1]} for these lines, received {vocab_size}. "
            "Use a smaller vocab_size or more text."
        )
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ValueError(
            f"vocab_size must be at least {smallest[1]} for these lines (control pieces, bytes "
            f"and single characters), received {vocab_size}. Use a larger vocab_size, a smaller "
            "character_coverage or byte_fallback=False."
        )
    return error
