"""Models that write some tokens of their vocabulary only, so that the output layer is smaller."""

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from keras import ops

from keras_transformer.model import Transformer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.foreign_vocabulary import select_pieces
from keras_transformer.translation.saved import weight_place
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)

_SHARES = {"all": "target", "inputs": "none"}
"""What the embeddings share once source and target have other vocabularies."""


def restrict_vocabulary(translator: Translator, lines: Iterable[str]) -> Translator:
    """Return a translator that writes the tokens of a text and no others.

    Special tokens, languages, user symbols, bytes, the characters of the text, tokens without
    letters, and those of `decoding.prefix` stay too. A greedy translation whose tokens all stay is
    the same. In a beam search, a probability is relative to the tokens that stay, so scores are
    higher and may rank two translations differently.

    Args:
        translator: The translator. The text that it reads is not restricted.
        lines: Text in the languages to translate into.

    Raises:
        ValueError: If the vocabulary of the target is no SentencePiece model or keeps white space,
            the model is quantized, or the text is empty.

    >>> from keras_transformer.text import train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["eins zwei drei vier"], 280))
    >>> model = Transformer.from_size("tiny", vocab_size=tokenizer.vocab_size, num_layers=1)
    >>> small = restrict_vocabulary(Translator(model, tokenizer), ["eins"])
    >>> small.tokenizer.vocab_size, small.target_tokenizer.vocab_size < 275
    (280, True)
    """
    translator = translator.without_lora()
    model, target = translator.model, translator.target_tokenizer
    if (
        not isinstance(target, SentencePieceTokenizer)
        or target.keeps_white_space
        or model.quantization_mode is not None
    ):
        raise ValueError(
            "A vocabulary to restrict must be a SentencePiece model that does not keep white "
            "space, of a model with float weights. Leave the restriction out."
        )
    used, _ = target.encode([line.strip() for line in lines])
    if not len(used):
        raise ValueError("The text of a restriction must have tokens, received none.")
    prefix, _ = target.encode([translator.decoding.prefix])
    smaller, kept = select_pieces(target.model, {*used.tolist(), *prefix.tolist()})
    log.info("%s of %s target tokens stay", f"{len(kept):,}", f"{target.vocab_size:,}")
    found = Translator(
        _with_target(model, kept),
        translator.tokenizer,
        SentencePieceTokenizer(smaller),
        translator.decoding,
        translator.compiled,
        translator.device if translator.compiled else None,
    )
    found.origin = translator.origin
    return found


def _with_target(model: Transformer, kept: Sequence[int]) -> Transformer:
    """Return a model whose target vocabulary has the given ids alone."""
    share = model.config.share_embeddings
    sizes: dict[str, Any] = {
        "target_vocab_size": len(kept),
        "share_embeddings": _SHARES.get(share, share),
    }
    config = dataclasses.replace(model.config, **sizes)
    values = {weight_place(weight.path): weight for weight in model.weights}
    for side in ("target", "output"):
        kernel = getattr(model, f"{side}_embedding").kernel("embeddings")
        values[f"{side}_embedding/embeddings"] = ops.take(kernel, kept, axis=0)
    if model.output_bias is not None:
        values["output_bias"] = ops.take(model.output_bias, kept)
    smaller = Transformer(config, dtype=model.dtype_policy)
    for weight in smaller.weights:
        weight.assign(values[weight_place(weight.path)])
    return smaller
