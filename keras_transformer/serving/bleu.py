"""BLEU for the page: small requests only, since any client of the server can ask for it."""

import dataclasses
import json
from typing import Any

from keras_transformer.serving.errors import invalid

MOST_BYTES = 256 << 10
"""Size of a request, both sides together."""
MOST_LINE = 64 << 10
"""Characters of a sentence."""
MOST_SENTENCES = 1024
"""Sentences of a side."""


def score_request(body: bytes) -> dict[str, Any]:
    """Return the scores that a request asks for.

    Args:
        body: JSON with `translations` and `references`, two lists of strings.

    Raises:
        ServingError: If it is anything else, or has too many or too long sentences.

    >>> score_request(b'{"translations": ["A dog runs."], "references": ["A dog runs."]}')["chrf"]
    100.0
    """
    try:
        given = json.loads(body)
        translations, references = given["translations"], given["references"]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise invalid("The body must be JSON with `translations` and `references`.") from error
    for texts in (translations, references):
        if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
            raise invalid("`translations` and `references` must be lists of strings.")
        if len(texts) > MOST_SENTENCES:
            raise invalid(f"BLEU takes at most {MOST_SENTENCES} sentences, received {len(texts)}.")
        longest = max(map(len, texts), default=0)
        if longest > MOST_LINE:
            raise invalid(f"A sentence may have {MOST_LINE} characters, received {longest}.")
    from keras_transformer.evaluation import score  # Slow to import, and not always needed.

    try:
        scores = score(translations, references)
    except ValueError as error:
        raise invalid(str(error)) from error
    finally:
        _forget_sentences()
    return {key: value for key, value in dataclasses.asdict(scores).items() if key != "published"}


def _forget_sentences() -> None:
    """Empty the caches of sacrebleu's tokenizers, which would keep each sentence they have seen."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        tokenizer.__call__.cache_clear()
