"""Train SentencePiece vocabularies on raw text."""

import io
import re
from collections.abc import Iterable, Sequence

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.text.language_tags import is_language_tag
from keras_transformer.text.sentencepiece import import_sentencepiece

_ERRORS_ONLY = 2


def train_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    *,
    model_type: str = "bpe",
    character_coverage: float = 1.0,
    byte_fallback: bool = True,
    language_tags: Sequence[str] = (),
) -> bytes:
    """Train a SentencePiece vocabulary with pad 0, unk 1, bos 2 and eos 3.

    For a joint vocabulary, which the paper's English-German models use for source, target and
    softmax (Section 5.1), pass the lines of both languages; for separate vocabularies, call the
    function once for each. Training is deterministic. The vocabulary contains SentencePiece's NFKC
    normalization rules, so training and serving normalize text in the same way.

    Args:
        lines: Raw sentences. SentencePiece skips those of more than 4,192 bytes.
        vocab_size: Exact number of pieces (V), including control pieces and bytes.
        model_type: "bpe" (byte pair encoding, as in the paper) or "unigram".
        character_coverage: Share of the text's characters, 0.98 to 1, that become pieces; 0.9995
            is usual for languages with thousands of characters.
        byte_fallback: Whether to spell other characters as their UTF-8 bytes, so that no text
            becomes unk. This takes 256 pieces.
        language_tags: Tags of target languages, such as `>>de<<`, which get the ids from 4 on.
            Inside a text, they are text.

    Returns:
        The vocabulary as bytes, for `SentencePieceTokenizer`.

    Raises:
        ImportError: If sentencepiece is not installed.
        ValueError: If an argument is out of range, the lines have no text, or `vocab_size` is too
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
    for tag in language_tags:
        if not is_language_tag(tag):
            raise ValueError(f"language_tags must be such as >>de<<, received {tag!r}.")
    trainer = import_sentencepiece().SentencePieceTrainer
    model = io.BytesIO()
    try:
        trainer.train(
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
            control_symbols=list(dict.fromkeys(language_tags)),
            # Each thread adds up a partial sum, so another number of threads changes the scores.
            num_threads=16,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        raise _explained(error, vocab_size) from error
    return model.getvalue()


def _explained(error: RuntimeError, vocab_size: int) -> Exception:
    """Return an error of SentencePiece in terms of the arguments of `train_sentencepiece`."""
    message = str(error)
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return ValueError(
            "lines must contain text to train a vocabulary on, received none. "
            "Check that the files are not empty."
        )
    if largest := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        return ValueError(
            f"vocab_size must be at most {largest[1]} for these lines, received {vocab_size}. "
            "Use a smaller vocab_size (model.vocab_size) or more text."
        )
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ValueError(
            f"vocab_size must be at least {smallest[1]} for these lines (control pieces, bytes "
            f"and single characters), received {vocab_size}. Use a larger vocab_size "
            "(model.vocab_size) or a smaller character_coverage (data.character_coverage)."
        )
    return error
