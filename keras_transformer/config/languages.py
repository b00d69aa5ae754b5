"""The tags that tell a model which language to translate into, and the rules of corpora."""

import math
import re
from collections.abc import Sequence


def language_tag(language: str) -> str:
    """Return the tag of a target language, which is put in front of a source sentence.

    >>> language_tag("de")
    '>>de<<'
    """
    return f">>{language}<<"


def language_problems(
    train: Sequence[str], validation: Sequence[str], corpora: int, validations: int, subwords: str
) -> list[str]:
    """Return what is wrong with the target languages of the corpora of a run.

    Args:
        train: The target languages of the training corpora, none if they have no tags.
        validation: Those of the validation files.
        corpora: Number of training corpora.
        validations: Number of validation files.
        subwords: Kind of vocabulary.

    Returns:
        A sentence for each problem, without a final period; none if all is well.

    >>> language_problems(["de", "fr"], ["fr"], corpora=2, validations=1, subwords="bpe")
    []
    >>> language_problems(["de"], ["de"], corpora=2, validations=1, subwords="bpe")
    ['train_languages must have one language for each corpus, received 1 for 2']
    """
    problems = []
    if train and len(train) != corpora:
        problems.append(
            "train_languages must have one language for each corpus, received "
            f"{len(train)} for {corpora}"
        )
    if validation and len(validation) != validations:
        problems.append(
            "validation_languages must have one language for each validation file, received "
            f"{len(validation)} for {validations}"
        )
    if bool(train) != bool(validation):
        given, missing = ("train", "validation") if train else ("validation", "train")
        problems.append(
            "train_languages and validation_languages must be set together, received "
            f"{given}_languages without {missing}_languages; give both"
        )
    elif unknown := sorted(set(validation) - set(train)):
        problems.append(
            f"validation_languages must be among train_languages, received {', '.join(unknown)}"
        )
    if validations > 1 and not validation:
        problems.append(
            f"several validation files need validation_languages, received {validations} files "
            "without it"
        )
    if bad := [each for each in train if not re.fullmatch("[A-Za-z0-9_-]+", each)]:
        problems.append(
            "a language must have letters from a to z, digits, - and _ only, received "
            f"{', '.join(map(repr, bad))}; try de, or pt-BR"
        )
    if train and subwords == "wordpiece":
        problems.append(
            "train_languages need a vocabulary with tags, received subwords='wordpiece'; choose "
            "'bpe' or 'unigram'"
        )
    return problems


def weight_problems(weights: Sequence[float], corpora: int, temperature: float) -> list[str]:
    """Return what is wrong with the weights of the training corpora.

    >>> weight_problems([2.0, 0.5], corpora=2, temperature=1)
    []
    """
    problems = []
    if weights and len(weights) != corpora:
        problems.append(
            "train_weights must have one number for each corpus, received "
            f"{len(weights)} numbers for {corpora}"
        )
    if weights and not (min(weights) >= 0 and 0 < sum(weights) < math.inf):
        problems.append(f"train_weights must be at least 0, and not all 0, received {weights}")
    if weights and temperature != 1:
        problems.append(
            "the sizes of the corpora decide their weights with a temperature, received "
            f"train_weights={weights} and temperature={temperature}; leave one of them out"
        )
    return problems
