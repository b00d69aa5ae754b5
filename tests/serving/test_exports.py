"""What a server knows of an export: its sizes, its rows and its heads."""

import json
import logging

import numpy as np
import pytest

from keras_transformer.config.record import ExportRecord
from keras_transformer.export.signatures import METHODS
from keras_transformer.serving.model import Model
from keras_transformer.serving.parts import RowNeeds
from tests.helpers.tiny import ROOT, export_quickly, tiny_translator


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """An export of a model of 2 layers and 3 heads. Tests must not change it."""
    translator = tiny_translator(beam_size=2, extra_length=6, max_source_length=24)
    path = tmp_path_factory.mktemp("exports") / "toy"
    export_quickly(translator, path, methods=METHODS)
    return path / "1"


def check_rows(model):
    for name in METHODS.keys() | {"serving_default"}:
        texts = {key: np.array([b"a", b"b c"], object) for key in model.dtypes(name)}
        assert model.estimates[name].is_row_wise(texts), name


def test_a_new_export_runs_in_parts(toy):
    model = Model(toy)
    check_rows(model)
    assert model.estimates["inspect"].heads == 2 * 3
    needs = RowNeeds.read(toy)
    assert (needs.most_tokens, needs.target_tokens) == (24, (6, 1))
    # Of 2 beams, in bytes: three numbers for each of 380 tokens, and keys and values of 12.
    assert needs.search_bytes == (2 * 3 * 380 * 4, 2 * 2 * 2 * 12 * 4)


def test_the_shipped_export_runs_in_parts(monkeypatch):
    version = ROOT / "saved_models" / "multi30k_en_de" / "1"
    monkeypatch.setattr(Model, "run", lambda *_: {})  # Its warm-up requests take long.
    model = Model(version)
    check_rows(model)
    assert model.estimates["inspect"].heads == 4 * 4
    needs = RowNeeds.read(version)
    assert (needs.most_tokens, needs.target_tokens) == (128, (15, 1))


@pytest.mark.parametrize(
    ("section", "name"), [("decoding", "max_source_length"), ("model", "d_model")]
)
def test_a_record_without_sizes_is_named(section, name, toy, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    assert RowNeeds.read(tmp_path) == RowNeeds()  # Of another program, without a record.
    assert caplog.messages == []
    content = json.loads((toy / ExportRecord.FILE).read_text())
    del content[section][name]
    path = tmp_path / ExportRecord.FILE
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    assert RowNeeds.read(tmp_path) == RowNeeds()
    [message] = caplog.messages
    assert f"{path} does not say how large the model is ('{name}')" in message
    assert "without a limit of memory" in message
