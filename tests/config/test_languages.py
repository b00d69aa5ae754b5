"""The target languages, weights and temperature of the corpora of a run."""

import pytest
from pydantic import ValidationError

from keras_transformer.config import DataConfig

TWO = {
    "train_source": ["a.en", "b.en"],
    "train_target": ["a.de", "b.fr"],
    "train_languages": ["de", "fr"],
    "validation_source": ["c.en", "d.en"],
    "validation_target": ["c.de", "d.fr"],
    "validation_languages": ["de", "fr"],
}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"temperature": 5},
        {"train_weights": [1, 2]},
        {"train_languages": ["de", "de"], "validation_languages": ["de", "de"]},
        {"train_languages": ["pt-BR", "zh_Hans"], "validation_languages": ["pt-BR", "pt-BR"]},
        {"validation_source": "c.tsv", "validation_target": None, "validation_languages": ["fr"]},
    ],
)
def test_corpora_may_have_languages(values):
    assert DataConfig(**TWO | values).train_languages


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_languages": ["de"]}, "train_languages must have one .* received 1 for 2"),
        ({"validation_languages": ["de"]}, "validation_languages must have .* received 1 for 2"),
        ({"train_languages": []}, "received validation_languages without train_languages; give"),
        ({"validation_languages": []}, "received train_languages without validation_languages"),
        ({"train_languages": [], "validation_languages": []}, "received 2 files without it"),
        ({"train_languages": ["de", "de"]}, "must be among train_languages, received fr"),
        ({"train_languages": ["de", ""]}, "letters from a to z, .* received ''"),
        ({"train_languages": ["de", "f r"]}, "letters from a to z, .* received 'f r'"),
        ({"train_languages": ["de", "fr<<"]}, "letters from a to z, .* received 'fr<<'"),
        ({"train_languages": ["de", "fr\n"]}, "letters from a to z"),
        ({"train_languages": ["de", "français"]}, "letters from a to z"),
        ({"subwords": "wordpiece"}, "vocabulary with tags, received subwords='wordpiece'"),
        ({"validation_target": ["c.de"]}, "validation_target must name equally many .* 2 and 1"),
        ({"validation_source": []}, "validation_source must name a file, received an empty"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": 2, "train_weights": [1, 2]}, "and temperature=2.0; leave one of them"),
    ],
)
def test_what_does_not_fit_is_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(**TWO | values)
