"""The model that comes with the repository, and what README.md says about it."""

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

MODEL = ROOT / "saved_models" / "multi30k_en_de"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scores():
    return ExportRecord.read(MODEL / "1").facts["scores"]


def test_the_readme_has_the_scores_of_its_record(scores):
    (row,) = re.findall(rf"^\| \[`{MODEL.name}`\].*$", README, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    for score in (scores["bleu"], scores["chrf"]):
        assert f"{score:.1f}" in cells
    assert scores["signature"].rpartition("|")[0] in README


def test_its_card_is_that_of_its_record():
    card = (MODEL / "1" / "README.md").read_text(encoding="utf-8")
    assert card == model_card(MODEL.name, ExportRecord.read(MODEL / "1"))


@pytest.mark.slow
def test_it_is_loaded_as_a_translator_whose_model_can_be_trained():
    translator = Translator.load(MODEL)
    sentence = "A dog runs on the beach."
    assert translator(sentence) == load_saved_model(MODEL)(sentence)
    model = translator.model
    assert len(model.trainable_weights) == len(model.weights)
    ids = translator.encode_text(tf.constant([sentence, "Two men."]))[0].numpy()
    inputs = {"source": ids, "target": np.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=2)}
    before = model.get_weights()
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1))
    first, second = (model.train_on_batch(inputs, ids) for _ in range(2))
    assert second < first
    assert all((new != old).any() for new, old in zip(model.get_weights(), before, strict=True))


def test_it_is_small():
    files = [path for path in (MODEL / "1").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16_000_000
