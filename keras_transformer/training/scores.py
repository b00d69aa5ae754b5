"""The scores of validation outputs, by task: BLEU of translations, F1 of trees."""

from collections.abc import Sequence

from keras_transformer.config import DataConfig
from keras_transformer.evaluation import score_brackets
from keras_transformer.training.directions import direction_scores
from keras_transformer.training.text import Pairs
from keras_transformer.trees import parse_tree

SELECTING = {"translation": "val_bleu", "parsing": "val_f1"}
"""For each task, the score that selects the best epoch."""

NAMES = {"val_bleu": "BLEU", "val_f1": "F1"}
"""How these scores are called in messages."""


def output_scores(outputs: Sequence[str], pairs: Pairs, data: DataConfig) -> dict[str, float]:
    """Return the scores of outputs for validation sources; the one that selects comes first.

    For translations these are `direction_scores`. For trees, they are `val_f1` and
    `val_complete_match` of `score_brackets`.

    Args:
        outputs: What a model makes of the sources.
        pairs: Sources and references.
        data: The data section of the run.

    >>> data = DataConfig(task="parsing", train_source="a.mrg", validation_source="b.mrg")
    >>> pairs = [("We left", "(S (NP (PRP We)) (VP (VBD left)))")]
    >>> output_scores(["(S (NP (XX We)) (NP (XX left)))"], pairs, data)["val_f1"]
    66.66666666666667
    """
    if data.task == "translation":
        return direction_scores(outputs, pairs, data.validation_languages)
    references = [parse_tree(tree) for _, tree in pairs]
    found = score_brackets([parse_tree(output) for output in outputs], references)
    return {"val_f1": found.f1, "val_complete_match": found.complete_match}
