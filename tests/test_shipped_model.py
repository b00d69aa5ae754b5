"""The model that comes with the repository, and what README.md says of it."""

import json
import re
import shlex

import pytest
import tensorflow as tf
from tests.helpers.tiny import ROOT, run_python

from keras_transformer import Transformer
from keras_transformer.export import load_saved_model
from keras_transformer.text import read_tokenizers
from keras_transformer.training.start import find_start
from keras_transformer.translation.translator import Translator

NAME = "saved_models/multi30k_en_de"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scores():
    path = ROOT / NAME / "1" / "assets.extra" / "export.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    return facts["scores"]


def test_the_readme_has_the_scores_of_its_model_card(scores):
    (row,) = re.findall(rf"^\| \[`{NAME}`\].*$", README, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    for score in (scores["bleu"], scores["chrf"], scores["published"]["multi30k"]["bleu"]):
        assert f"{score:.1f}" in cells
    assert scores["signature"] in README


def test_the_readmes_command_prints_the_readmes_translations():
    command = rf"```bash\npython (-m pipelines.translate --model {NAME} .*?)```"
    ((command, printed),) = re.findall(rf"{command}\n\n```text\n(.*?)```", README, re.DOTALL)
    arguments = shlex.split(command.replace("\\\n", ""))
    assert run_python(*arguments, cwd=ROOT).stdout == printed


def test_it_can_be_trained_further():
    start = find_start(ROOT / NAME)
    model = Transformer(start.config.model)
    start.set_weights(model)
    tokenizers = read_tokenizers(start.vocabularies, start.config.data.subwords)
    translator = Translator(model, *tokenizers, start.config.decoding)
    sentence = "A dog runs on the beach."
    (exported,) = load_saved_model(ROOT / NAME)(tf.constant([sentence])).numpy()
    assert translator([sentence]) == [exported.decode()]


def test_it_is_small():
    files = [path for path in (ROOT / NAME / "1").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16_000_000
