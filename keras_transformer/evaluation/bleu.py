"""BLEU and chrF as sacrebleu computes them: on detokenised text, with a signature."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.evaluation.published import PublishedBleu, published_bleu
from keras_transformer.utils.files import whole_file


@dataclasses.dataclass(frozen=True)
class Scores:
    """How close translations of a corpus are to its references.

    Attributes:
        bleu: sacrebleu's BLEU, 0 to 100.
        chrf: sacrebleu's chrF2, 0 to 100.
        signature: how `bleu` was computed, with sacrebleu's version; to be printed beside it.
        chrf_signature: the same for `chrf`.
        sentences: how many were compared.
        published: the scores beside them that are computed as published ones are, by name.
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    sentences: int
    published: Mapping[str, PublishedBleu] = dataclasses.field(default_factory=dict)

    def __str__(self):
        lines = [
            f"BLEU {self.bleu:.2f} ({self.signature}), chrF {self.chrf:.2f} "
            f"({self.chrf_signature}), sentences: {self.sentences:,}"
        ]
        for name, score in self.published.items():
            lines.append(f"BLEU as {name} {score.bleu:.2f} ({score.signature})")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the scores as a JSON object; the file appears only when it is whole."""
        with whole_file(Path(path)) as temporary:
            temporary.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    published: Sequence[str] = (),
    language: str | None = None,
) -> Scores:
    """Compare translations with references, one of each for a sentence, in the same order.

    Both are text as a reader wants it: detokenised, in its own case. sacrebleu splits them by its
    rule 13a, so that the scores can be compared with published ones that have the same signature.

    Args:
        hypotheses: the translations.
        references: what they should be.
        published: names of `published_bleu`, to score beside in these ways too.
        language: of both sides, such as "de", which those need.

    Returns:
        The `Scores` of the whole corpus; they are no averages of the sentences' scores.

    Raises:
        ImportError: `published` needs sacremoses, which is not installed.
        ValueError: the counts differ, or are 0, or a name of `published` is unknown, or those lack
            the language.

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
            "Check that no line was lost or added on the way."
        )
    if not hypotheses:
        raise ValueError("score needs at least one sentence, received none. Check the input files.")
    if published and language is None:
        raise ValueError("published scores need the text's language, received none. Try 'de'.")
    bleu, chrf = BLEU(tokenize="13a"), CHRF()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
        published={
            name: published_bleu(hypotheses, references, name, language) for name in published
        },
    )
