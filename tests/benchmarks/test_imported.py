"""The benchmark of imported models: the same weights in Hugging Face, CTranslate2 and ours."""

from dataclasses import replace

import pytest

from benchmarks import imported
from keras_transformer.presets import PRESETS, Preset
from tests.helpers.tiny import toy_pairs


@pytest.mark.slow
@pytest.mark.parity
def test_all_engines_run_the_imported_model(parallel, monkeypatch, capsys):
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    model = replace(PRESETS["tiny"].model, num_layers=1, d_model=16, d_ff=24, num_heads=2)
    monkeypatch.setattr(imported, "PRESETS", {"tiny": Preset(model)})
    monkeypatch.setattr(imported, "OURS", ["ours, portable"])
    monkeypatch.setattr(imported, "BEAM_SIZES", {1: "greedy"})
    monkeypatch.setattr(imported, "SENTENCES", {"base": {4: 6}})
    options = "--model tiny --vocab-size 400 --repeats 1 --threads 1".split()
    imported.main([*parallel(toy_pairs(300)), *options])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| tiny")]
    assert [row[3] for row in rows] == ["ours, portable", "CTranslate2", "Hugging Face"]
    for row in rows[:2]:  # Hugging Face writes bytes that are no text in another way.
        assert row[8] == "100.0%"
