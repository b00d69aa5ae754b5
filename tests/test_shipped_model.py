"""The model that comes with the repository, and what README.md says about it."""

import contextlib
import io
import re

import pytest

from keras_transformer.export import ExportRecord, load_saved_model
from keras_transformer.text import read_tokenizers
from keras_transformer.training import load_translator
from keras_transformer.training.start import find_start
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


def test_the_readmes_example_prints_the_readmes_translations(monkeypatch):
    monkeypatch.chdir(ROOT)
    example = r"```python\n([^`]*saved_models/multi30k_en_de[^`]*)```\n\n```text\n(.*?)```"
    ((code, printed),) = re.findall(example, README, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, {})
    assert output.getvalue() == printed


def test_a_run_can_start_from_it():
    start = find_start(MODEL)
    tokenizers = read_tokenizers(start.vocabularies, start.config.data.subwords)
    translator = Translator(start.read_model(), *tokenizers, start.config.decoding)
    sentence = "A dog runs on the beach."
    assert translator([sentence]) == [load_saved_model(MODEL)(sentence)]


def test_load_translator_says_how_to_load_it():
    with pytest.raises(ValueError, match="is an exported SavedModel, .* Load it with .*load_saved"):
        load_translator(MODEL)


def test_it_is_small():
    files = [path for path in (MODEL / "1").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16_000_000
