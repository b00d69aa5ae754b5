"""The benchmark of imported models: the same weights in Hugging Face, CTranslate2 and ours."""

from dataclasses import replace

import pytest

from benchmarks import imported, multilingual
from benchmarks.text import made_up_pairs
from keras_transformer.presets import PRESETS, Preset
from keras_transformer.pretrained import import_model
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


@pytest.mark.slow
@pytest.mark.parity
def test_a_made_up_model_of_many_languages_is_read_by_both(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(multilingual, "TEXT_TOKENS", 600)
    sizes = {"tokens": 900, "d_model": 16, "d_ff": 24, "num_heads": 2, "num_layers": 1}
    monkeypatch.setitem(multilingual.SIZES, "small", sizes)
    pairs = made_up_pairs(500)
    parameters, _ = multilingual.write_model(tmp_path / "model", "small", pairs)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    assert theirs.num_parameters() == parameters
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    ours = import_model(tmp_path / "model")
    texts = [source for source, _ in pairs[:20]]
    pieces = [tokenizer.convert_ids_to_tokens(row)[1:-1] for row in tokenizer(texts).input_ids]
    assert pieces == [ours.tokenizer.id_to_piece(row) for row in ours.tokenizer.tokenize(texts)]
    assert ours.tokenizer.vocab_size == 901  # Our start token is one more.
