"""Scores of translations and of trees.

BLEU and chrF are sacrebleu's, on detokenized text. `published_bleu` is BLEU on tokenized text as
papers report it, comparable with such scores only. The F1 of labeled brackets is what EVALB counts
with COLLINS.prm.
"""

import collections
import dataclasses
import importlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.documents.bilingual import load_checker
from keras_transformer.trees import Tree
from keras_transformer.utils.files import write_json

__all__ = ["BracketScores", "Scores", "score", "score_brackets"]

PUBLISHED = ("paper", "multi30k")
"""Names of the scores that `published_bleu` computes."""

_HYPHEN = re.compile(rb"(\S)-(\S)")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Letters of Thai, Lao, Burmese, Khmer and Japanese, which have no spaces between words either.
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff]")
_LEAST_SHARE = 0.2
"""Share of letters of such scripts. A word of Latin letters has the length of several Chinese."""

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])
"""Tags of words that do not count."""

_UNCOUNTED = _PUNCTUATION | {"TOP"}
"""Labels of brackets that do not count."""

_EQUAL = {"PRT": "ADVP"}
"""Labels that count as another one."""


class JsonScores:
    """Write a dataclass of scores as JSON; a base class without fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name, as values that JSON can represent."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]  # Subclasses are dataclasses.

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the scores to a file as a JSON object.

        Args:
            path: The file. It appears only when it is complete.
        """
        write_json(Path(path), self.to_dict())


@dataclasses.dataclass(frozen=True)
class PublishedBleu:
    """A BLEU score with its signature.

    Attributes:
        bleu: The score, 0 to 100.
        signature: Settings and versions in sacrebleu's format; `tok` is the name and language.
    """

    bleu: float
    signature: str


_LENGTH_TOLERANCE = 1.25
"""Length of translations, relative to references or the other way round, that is not reported."""
_SAMPLES = 500
"""Resampled texts for a confidence interval."""


@dataclasses.dataclass(frozen=True)
class Scores(JsonScores):
    """Scores of the translations of a corpus.

    Attributes:
        bleu: sacrebleu's BLEU, 0 to 100.
        chrf: sacrebleu's chrF2, 0 to 100.
        signature: Signature of `bleu`: its settings and sacrebleu's version. Report it with the
            score.
        chrf_signature: Signature of `chrf`.
        sentences: Number of sentences.
        published: Further BLEU scores by name, computed as in publications; see `published_bleu`.
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    sentences: int
    published: Mapping[str, PublishedBleu] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"BLEU {self.bleu:.2f} ({self.signature}), chrF {self.chrf:.2f} "
            f"({self.chrf_signature}), sentences: {self.sentences:,}"
        ]
        for name, score in self.published.items():
            lines.append(f"BLEU as {name} {score.bleu:.2f} ({score.signature})")
        return "\n".join(lines)


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    published: Sequence[str] = (),
    language: str | None = None,
) -> Scores:
    """Return BLEU and chrF of translations, compared with one reference each.

    Both must be detokenized text in its original case. Scores are comparable with published ones
    that have the same signature. The references choose sacrebleu's tokenizer: 13a, or if most are
    written without spaces, zh for Chinese and char for Japanese, Thai, Lao, Burmese and Khmer.

    Args:
        hypotheses: Translations.
        references: Reference translations, in the same order.
        published: Names of further scores to compute; see `published_bleu`.
        language: Language of the text, such as "de". Required for `published`.

    Returns:
        The `Scores` of the corpus, which are not averages of sentence scores.

    Raises:
        ImportError: If `published` is given and sacremoses is not installed.
        ValueError: If the numbers of sentences differ or are 0, a name in `published` is unknown,
            or `published` is given without `language`.

    >>> scores = score(["Ein Hund rennt schnell."], ["Ein Hund rennt sehr schnell."])
    >>> round(scores.bleu, 1), round(scores.chrf, 1), scores.sentences
    (40.9, 75.7, 1)
    >>> scores.chrf_signature.rpartition("|")[0]
    'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no'
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            "score needs one reference for each hypothesis, received "
            f"{len(hypotheses)} hypotheses and {len(references)} references. "
            "Check that no line was lost or added."
        )
    if not hypotheses:
        raise ValueError(
            "score needs at least one sentence, received an empty list. Check the input files."
        )
    if published and language is None:
        raise ValueError(
            "published scores need the language of the text, which is missing. Try 'de'."
        )
    bleu, chrf = BLEU(tokenize=_bleu_tokenizer(references)), CHRF()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
        published={
            name: published_bleu(hypotheses, references, name, str(language)) for name in published
        },
    )


def _bleu_tokenizer(references: Sequence[str]) -> str:
    """Return the name of sacrebleu's tokenizer for a text.

    >>> [_bleu_tokenizer([text]) for text in ("Ein Hund.", "一只狗。", "犬が走っている。")]
    ['13a', 'zh', 'char']
    """
    han = others = without_spaces = 0
    for text in references:
        counts = len(_HAN.findall(text)), len(_WITHOUT_SPACES.findall(text))
        if sum(counts) > _LEAST_SHARE * sum(map(str.isalpha, text)):
            without_spaces += 1
            han, others = han + counts[0], others + counts[1]
    if 2 * without_spaces <= len(references):
        return "13a"
    return "char" if others > _LEAST_SHARE * (han + others) else "zh"


def length_problem(hypotheses: Sequence[str], references: Sequence[str]) -> str | None:
    """Return what is wrong with the length of translations, None if nothing is.

    Args:
        hypotheses: Translations.
        references: Reference translations.

    >>> length_problem(["Ein Hund"], ["Ein Hund rennt schnell"])
    'the translations have 50% of the words of the references; a higher length penalty makes those \
of a beam search longer'
    >>> length_problem(["Ein Hund rennt"], ["Der Hund rennt"])
    """
    has_words = _bleu_tokenizer(references) == "13a"
    words, expected = (
        sum(len(text.split() if has_words else text) for text in texts)
        for texts in (hypotheses, references)
    )
    ratio = words / max(expected, 1)
    if 1 / _LENGTH_TOLERANCE <= ratio <= _LENGTH_TOLERANCE:
        return None
    penalty, length = ("higher", "longer") if ratio < 1 else ("lower", "shorter")
    return (
        f"the translations have {ratio:.0%} of the {'words' if has_words else 'characters'} of the "
        f"references; a {penalty} length penalty makes those of a beam search {length}"
    )


def failed_checks(
    sources: Sequence[str], translations: Sequence[str], language: str | None = None
) -> collections.Counter[str]:
    """Count the translations that fail each check of translate-toolkit's pofilter.

    Spelling is not checked.

    Args:
        sources: The sources.
        translations: A translation of each.
        language: The code of the target language, which some checks depend on.

    Raises:
        ImportError: If translate-toolkit is missing.

    Example:

    ```python
    failed_checks(["Copied %s files."], ["Dateien kopiert"])  # {'endpunc': 1, 'printf': 1}
    ```
    """
    checker = load_checker(language)
    units = importlib.import_module("translate.storage.base")
    counts: collections.Counter[str] = collections.Counter()
    for source, translation in zip(sources, translations, strict=True):
        unit = units.TranslationUnit(source)
        unit.target = translation
        counts.update(checker.run_filters(unit).keys())
    return counts


def bleu_interval(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return half the width of the 95% confidence interval of BLEU, by bootstrap resampling.

    Args:
        hypotheses: Translations.
        references: Reference translations, in the same order.

    >>> lines = ["a dog runs on the beach", "a cat sleeps in the sun"] * 9
    >>> bleu_interval(lines, lines)
    0.0
    >>> 5 < bleu_interval(["a dog runs on the sand", lines[1]] * 9, lines) < 7
    True
    """
    bleu = BLEU(tokenize=_bleu_tokenizer(references))
    found = bleu.corpus_score(hypotheses, [references], n_bootstrap=_SAMPLES)
    values = json.loads(found.format(is_json=True, signature=str(bleu.get_signature()), width=4))
    return values.get("confidence_var", 0.0)  # Without a match there is none.


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


@dataclasses.dataclass(frozen=True)
class BracketScores(JsonScores):
    """Scores of the trees of a corpus.

    Attributes:
        f1: Harmonic mean of precision and recall, 0 to 100.
        precision: Percentage of the predicted brackets that are in the reference.
        recall: Percentage of the brackets of the reference that are predicted.
        complete_match: Percentage of the sentences whose brackets are all right.
        sentences: Number of sentences that count. Sentences of punctuation only are skipped.
        errors: Number of sentences that do not count, because their words are different or there is
            no predicted tree.
        matched: Number of predicted brackets that are in the reference.
        predicted: Number of predicted brackets.
        reference: Number of brackets of the reference.
    """

    f1: float
    precision: float
    recall: float
    complete_match: float
    sentences: int
    errors: int
    matched: int
    predicted: int
    reference: int

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.2f}, precision {self.precision:.2f}, recall {self.recall:.2f}, complete "
            f"match {self.complete_match:.2f}, sentences: {self.sentences:,}, errors: "
            f"{self.errors:,}"
        )


def score_brackets(
    predicted: Sequence[Tree | None], references: Sequence[Tree], max_words: int | None = None
) -> BracketScores:
    """Return labeled precision, recall and F1 of the brackets of trees, and complete matches.

    A predicted bracket is right if the reference has one with the same label over the same words;
    each bracket of the reference counts once. As in EVALB with COLLINS.prm, punctuation is removed
    first, with brackets around nothing else; TOP does not count, nor do part-of-speech tags; and
    PRT equals ADVP. The reference decides what punctuation is, so that predicted trees need no
    tags. On normalized trees with the right tags of punctuation, F1, precision and recall
    equal EVALB's; on original files, EVALB also counts brackets that normalization removes.

    Args:
        predicted: Predicted trees, normalized; None for a sentence without one.
        references: The trees of the reference, normalized, in the same order.
        max_words: Leave out sentences with more words (punctuation included), usually 40.

    Returns:
        The `BracketScores` of the corpus, which are not averages of sentence scores.

    Raises:
        ValueError: If the numbers of trees differ or no sentence is left.

    >>> from keras_transformer.trees import parse_tree
    >>> reference = parse_tree("(S (NP (PRP We)) (VP (VBD had) (NP (NN tea))) (. .))")
    >>> predicted = parse_tree("(S (NP (PRP We)) (VP (VBD had) (ADJP (NN tea)) (. .)))")
    >>> print(score_brackets([predicted], [reference]))
    F1 75.00, precision 75.00, recall 75.00, complete match 0.00, sentences: 1, errors: 0
    """
    if len(predicted) != len(references):
        raise ValueError(
            "score_brackets needs one reference for each predicted tree, received "
            f"{len(predicted)} predicted trees and {len(references)} references. Check that no "
            "tree was lost or added."
        )
    pairs = [
        (tree, reference)
        for tree, reference in zip(predicted, references, strict=True)
        if _has_words(reference, max_words)
    ]
    if not pairs:
        limit = "" if max_words is None else f" of at most {max_words} words"
        raise ValueError(
            f"score_brackets needs at least one sentence{limit}, received an empty list. Check "
            "the input files."
        )
    counts = [
        _count(tree, reference)
        for tree, reference in pairs
        if tree is not None and tree.words == reference.words
    ]
    matched, in_predicted, in_reference = (sum(row[i] for row in counts) for i in range(3))
    complete = sum(len(set(numbers)) == 1 for numbers in counts)
    return BracketScores(
        f1=_percentage(2 * matched, in_predicted + in_reference),
        precision=_percentage(matched, in_predicted),
        recall=_percentage(matched, in_reference),
        complete_match=_percentage(complete, len(counts)),
        sentences=len(counts),
        errors=len(pairs) - len(counts),
        matched=matched,
        predicted=in_predicted,
        reference=in_reference,
    )


def _has_words(reference: Tree, max_words: int | None) -> bool:
    """Return whether a sentence counts: it has a word other than punctuation, and is not long."""
    tags = reference.tags
    return not _PUNCTUATION.issuperset(tags) and (max_words is None or len(tags) <= max_words)


def _count(predicted: Tree, reference: Tree) -> tuple[int, int, int]:
    """Return the numbers of matched, predicted and reference brackets."""
    counts_word = [tag not in _PUNCTUATION for tag in reference.tags]
    ours, theirs = (_brackets(tree, counts_word) for tree in (predicted, reference))
    return (ours & theirs).total(), ours.total(), theirs.total()


def _brackets(tree: Tree, counts_word: Sequence[bool]) -> collections.Counter:
    """Return how often a tree has each bracket (label, start, end) around words that count."""
    brackets: collections.Counter = collections.Counter()
    is_counted = iter(counts_word)

    def visit(tree: Tree, start: int) -> int:
        """Add the brackets of a tree, and return the number of counted words up to its end."""
        if tree.word is not None:
            return start + next(is_counted)
        end = start
        for child in tree.children:
            end = visit(child, end)
        if end > start and tree.label not in _UNCOUNTED:
            brackets[_EQUAL.get(tree.label, tree.label), start, end] += 1
        return end

    visit(tree, 0)
    return brackets


def _percentage(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
