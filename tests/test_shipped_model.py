"""The models that come with the repository, and what README.md says about them."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config.record import ExportRecord
from keras_transformer.export import load_saved_model
from keras_transformer.export.model_card import model_card
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.translation import Translator
from tests.helpers.tiny import ROOT

SENTENCES = {
    "multi30k_en_de": ["A dog runs on the beach.", "Two men."],
    "software_en_de": ["&Open File...", "Two files."],
}
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(params=SENTENCES)
def model(request):
    """The directory of each model."""
    return ROOT / "saved_models" / request.param


def test_the_readme_has_the_scores_of_its_record(model):
    scores = ExportRecord.read(model / "1").facts["scores"]
    (row,) = re.findall(rf"^\| \[`{model.name}`\].*$", README, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    for score in (scores["bleu"], scores["chrf"]):
        assert f"{score:.1f}" in cells
    assert scores["signature"].rpartition("|")[0] in README


def test_its_card_is_that_of_its_record(model):
    card = (model / "1" / "README.md").read_text(encoding="utf-8")
    assert card == model_card(model.name, ExportRecord.read(model / "1"))


@pytest.mark.slow
def test_it_is_loaded_as_a_translator_whose_model_can_be_trained(model):
    translator = Translator.load(model)
    sentences = SENTENCES[model.name]
    assert translator(sentences) == load_saved_model(model)(sentences)
    trained = translator.model
    assert len(trained.trainable_weights) == len(trained.weights)
    ids = translator.encode_text(tf.constant(sentences))[0].numpy()
    inputs = {"source": ids, "target": np.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=2)}
    before = trained.get_weights()
    trained.compile("sgd", LabelSmoothedCrossEntropy(0.1))
    first, second = (trained.train_on_batch(inputs, ids) for _ in range(2))
    assert second < first
    assert all((new != old).any() for new, old in zip(trained.get_weights(), before, strict=True))


def test_it_is_small(model):
    files = [path for path in (model / "1").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16_000_000
