"""BLEU as papers have printed it: on tokenised text, and to be compared with such figures alone."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version

from sacrebleu.metrics import BLEU

PUBLISHED = ("paper", "multi30k")
"""The names that `published_bleu` knows."""

_HYPHEN = re.compile(rb"(\S)-(\S)")


@dataclasses.dataclass(frozen=True)
class PublishedBleu:
    """A score and how it was computed.

    Attributes:
        bleu: 0 to 100.
        signature: in the form of sacrebleu's, with the name and the language as `tok`.
    """

    bleu: float
    signature: str


def published_bleu(
    hypotheses: Sequence[str], references: Sequence[str], name: str, language: str
) -> PublishedBleu:
    """Score translations as published figures were, which sacreBLEU's cannot be compared with.

    Both sides are tokenised as by the scripts of Moses, and counted as by its multi-bleu.perl: as
    sacrebleu counts, but 0 where no n-gram of 4 words is right.

    Args:
        hypotheses: the translations, as plain text.
        references: what they should be, as plain text.
        name: "paper" is how "Attention Is All You Need" scored English-German, by tensor2tensor's
            get_ende_bleu.sh: in its own case, with words split at hyphens. "multi30k" is how the
            literature on Multi30k does: in lower case, with punctuation normalised.
        language: of both, such as "de"; Moses has rules for some.

    Raises:
        ImportError: sacremoses is not installed.
        ValueError: there is no such name.

    >>> hypotheses, references = ["Ein Nord-Süd-Tunnel ist es."], ["Ein Nord-Ost-Tunnel ist es."]
    >>> score = published_bleu(hypotheses, references, "paper", "de")
    >>> round(score.bleu, 1), score.signature.partition("|version")[0]
    (59.7, 'nrefs:1|case:mixed|eff:no|tok:paper.de|smooth:none')
    """
    tokenize = published_tokenizer(name, language)
    # The text is in lower case already; so says the signature. Forced, it does not warn of tokens.
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=name == "multi30k", force=True)
    sides = ([tokenize(text) for text in texts] for texts in (hypotheses, references))
    hypotheses, references = sides
    bleu = metric.corpus_score(hypotheses, [references]).score
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{name}.{language}")
    return PublishedBleu(bleu, f"{signature}|sacremoses:{version('sacremoses')}")


def published_tokenizer(name: str, language: str) -> Callable[[str], str]:
    """Return what puts a text into the tokens that `published_bleu` counts, a space between two.

    >>> published_tokenizer("multi30k", "fr")("L’enfant dit: « Oui. »")
    'l&apos; enfant dit : &quot; oui . &quot;'
    """
    if name not in PUBLISHED:
        raise ValueError(
            f"published scores are {' and '.join(PUBLISHED)}, received {name}. Choose one of them."
        )
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise ImportError(
            "Scoring as published figures were needs Moses' tokenizer: pip install sacremoses"
        ) from error
    moses = MosesTokenizer(language)
    if name == "paper":
        return lambda text: _split_at_hyphens(moses.tokenize(text, return_str=True))
    normalizer = MosesPunctNormalizer(language, perl_parity=True)

    def tokenize(text):
        # The script has lines with their end, and to some of its rules the end is a character.
        return moses.tokenize(normalizer.normalize(f"{text.lower()}\n"), return_str=True)

    return tokenize


def _split_at_hyphens(text: str) -> str:
    """Do what `perl -ple 's{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g'` does, which goes by bytes."""
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", text.encode()).decode()
