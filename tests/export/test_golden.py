"""A model that version 0.1 exported: its translations must not change."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export import load_saved_model
from tests.helpers.tiny import toy_pairs

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.

GOLDEN = Path(__file__).with_name("golden")
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
TEXTS = [bytes.fromhex(row["text"]) for row in EXPECTED]
TRANSLATIONS = [bytes.fromhex(row["translation"]) for row in EXPECTED]


def test_its_translations_have_not_changed():
    translate = load_saved_model(GOLDEN)
    assert translate(tf.constant(TEXTS)).numpy().tolist() == TRANSLATIONS
    signature = translate.loaded.signatures["translate_with_scores"]
    scores = signature(text=tf.constant(TEXTS))["score"]
    np.testing.assert_allclose(scores, [row["score"] for row in EXPECTED], atol=1e-4)


def test_it_translates_well():
    # On unseen sentences, so the translations above are not those of random weights.
    correct = {source.encode(): target.encode() for source, target in toy_pairs(2050)[2000:]}
    known = [(correct[x], y) for x, y in zip(TEXTS, TRANSLATIONS, strict=True) if x in correct]
    assert len(known) > 30
    assert np.mean([x == y for x, y in known]) > 0.6


def test_it_is_small():
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < 1_000_000
