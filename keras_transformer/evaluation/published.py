"""BLEU on tokenized text, as reported in papers; comparable with such scores only."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version

from sacrebleu.metrics import BLEU

PUBLISHED = ("paper", "multi30k")
"""Names of the scores that `published_bleu` computes."""

_HYPHEN = re.compile(rb"(\S)-(\S)")


@dataclasses.dataclass(frozen=True)
class PublishedBleu:
    """A BLEU score with its signature.

    Attributes:
        bleu: The score, 0 to 100.
        signature: Settings and versions in sacrebleu's format; `tok` is the name and language.
    """

    bleu: float
    signature: str


def published_bleu(
    hypotheses: Sequence[str], references: Sequence[str], name: str, language: str
) -> PublishedBleu:
    """Return BLEU computed as in publications that tokenize the text.

    The text is tokenized by the rules of the Moses scripts, and n-grams are counted as by
    multi-bleu.perl: without smoothing, so the score is 0 if no 4-gram matches. Don't compare these
    scores with sacreBLEU's.

    Args:
        hypotheses: Translations, as plain text.
        references: Reference translations, as plain text.
        name: "paper" for English-German in "Attention Is All You Need" (get_ende_bleu.sh of
            tensor2tensor): cased, with words split at hyphens; "multi30k" for the literature on
            Multi30k: in lower case, with normalized punctuation.
        language: Language of the text, such as "de", which selects the rules of Moses.

    Returns:
        The `PublishedBleu` of the corpus.

    Raises:
        ImportError: If sacremoses is not installed.
        ValueError: If `name` is unknown.

    >>> hypotheses, references = ["Ein Nord-Süd-Tunnel ist es."], ["Ein Nord-Ost-Tunnel ist es."]
    >>> score = published_bleu(hypotheses, references, "paper", "de")
    >>> round(score.bleu, 1), score.signature.partition("|version")[0]
    (59.7, 'nrefs:1|case:mixed|eff:no|tok:paper.de|smooth:none')
    """
    tokenize = published_tokenizer(name, language)
    # The text is already in lower case; `lowercase` is for the signature. `force` silences the
    # warning about tokenized text.
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=name == "multi30k", force=True)
    sides = ([tokenize(text) for text in texts] for texts in (hypotheses, references))
    hypotheses, references = sides
    bleu = metric.corpus_score(hypotheses, [references]).score
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{name}.{language}")
    return PublishedBleu(bleu, f"{signature}|sacremoses:{version('sacremoses')}")


def published_tokenizer(name: str, language: str) -> Callable[[str], str]:
    """Return a function that tokenizes text for `published_bleu`.

    Args:
        name: "paper" or "multi30k", as in `published_bleu`.
        language: Language of the text, such as "de".

    Returns:
        A function from a text to its tokens, separated by spaces.

    Raises:
        ImportError: If sacremoses is not installed.
        ValueError: If `name` is unknown.

    >>> published_tokenizer("multi30k", "fr")("L’enfant dit: « Oui. »")
    'l&apos; enfant dit : &quot; oui . &quot;'
    """
    if name not in PUBLISHED:
        raise ValueError(
            f"published scores are {' and '.join(PUBLISHED)}, received {name}. Choose one of these."
        )
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise ImportError(
            "Published scores need the package sacremoses: "
            "pip install 'keras-transformer-mt[published]'"
        ) from error
    moses = MosesTokenizer(language)
    if name == "paper":
        return lambda text: _split_at_hyphens(moses.tokenize(text, return_str=True))
    normalizer = MosesPunctNormalizer(language, perl_parity=True)

    def tokenize(text: str) -> str:
        # The scripts keep the newline, which some of their rules match.
        return moses.tokenize(normalizer.normalize(f"{text.lower()}\n"), return_str=True)

    return tokenize


def _split_at_hyphens(text: str) -> str:
    """Return what `perl -ple 's{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g'` does, on bytes."""
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", text.encode()).decode()
