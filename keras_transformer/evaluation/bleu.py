"""BLEU and chrF computed by sacrebleu: on detokenized text, with a signature."""

import dataclasses
from collections.abc import Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.evaluation.json_scores import JsonScores
from keras_transformer.evaluation.published import PublishedBleu, published_bleu


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

    Both must be detokenized text in its original case. sacrebleu tokenizes it by its rule 13a, so
    scores are comparable with published ones that have the same signature.

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
        raise ValueError("score needs at least one sentence, received none. Check the input files.")
    if published and language is None:
        raise ValueError("published scores need the language of the text, received none. Try 'de'.")
    bleu, chrf = BLEU(tokenize="13a"), CHRF()
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
