import dataclasses
import shutil
from pathlib import Path

import pytest

from keras_transformer.config.record import ExportRecord
from keras_transformer.export import load_saved_model
from keras_transformer.pretrained import import_marian
from keras_transformer.translation.translator import Translator
from pipelines import export
from tests.helpers.tiny import toy_sentences

pytestmark = pytest.mark.slow  # They train a model and export it.


def test_the_new_version_is_printed(run, translator, tmp_path, capsys, caplog, monkeypatch):
    caplog.set_level("INFO", logger="keras_transformer")
    monkeypatch.setattr("keras_transformer.export.signatures.METHODS", {})  # Takes less time.
    output = tmp_path / "models" / "toy"
    export.main(["--checkpoint", run, "--output", str(output)])
    out, err = capsys.readouterr()
    assert out == f"{output / '1'}\n"
    advice = f"serve it: keras-transformer serve --model {output}"
    assert caplog.messages[-1:] == [advice]
    assert err.removeprefix(f"{advice}\n") == ""
    translate = load_saved_model(Path(out.strip()))
    sentences = toy_sentences(5)
    assert translate(sentences) == translator(sentences)


def test_options_reach_the_export(run, tmp_path, monkeypatch):
    exported = {}

    def export_saved_model(translator, path, facts):
        exported.update(translator=translator, path=path, facts=facts)

    monkeypatch.setattr("keras_transformer.export.export_saved_model", export_saved_model)
    (tmp_path / "scores.json").write_text('{"bleu": 37.7}')
    arguments = ["--checkpoint", run, "--output", "toy", "--device", "gpu", "--beam-size", "2"]
    (tmp_path / "about.md").write_text("Toys.\n")
    arguments += ["--precision", "bfloat16", "--quantize", "int8"]
    arguments += ["--min-length", "3", "--description", str(tmp_path / "about.md")]
    (tmp_path / "examples").write_text(f"\n{81 * 'x'}\n Two men. \nA dog.\nA dog.\na\nb\n")
    arguments += ["--examples", str(tmp_path / "examples"), "--license", "MIT"]
    arguments += ["--languages", "en", "de", "--attribution", "A. Turing"]
    export.main([*arguments, "--scores", str(tmp_path / "scores.json")])
    translator = exported["translator"]
    assert (translator.compiled, translator.device) == (True, "gpu")
    assert translator.model.dtype_policy.name == "bfloat16"
    assert translator.model.quantization_mode == "int8"
    assert (translator.decoding.beam_size, translator.decoding.min_length) == (2, 3)
    assert exported["facts"]["scores"] == {"bleu": 37.7}
    assert exported["facts"]["description"] == "Toys."
    assert exported["facts"]["examples"] == ["Two men.", "A dog.", "a"]
    assert exported["facts"]["languages"] == ["en", "de"]
    assert exported["facts"]["license"] == "MIT"
    assert exported["facts"]["attribution"] == "A. Turing"
    assert exported["facts"]["command"].endswith(f"--scores {tmp_path}/scores.json")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], {"description", "examples", "scores", "training"}),
        (["--beam-size", "3"], {"description", "examples", "training"}),
    ],
)
def test_the_facts_of_an_export_are_carried_over(options, kept, saved_model, tmp_path, monkeypatch):
    model = shutil.copytree(saved_model, tmp_path / "model")
    record = ExportRecord.read(model / "1")
    facts = {"description": "Toys.", "scores": {"bleu": 37.7}, "training": {"epochs": 3}}
    facts["examples"] = ["A dog."]
    dataclasses.replace(record, facts=facts | {"command": "before"}).write(model / "1")
    given = []
    monkeypatch.setattr("keras_transformer.translation.Translator.load", lambda *_, **options: None)
    monkeypatch.setattr(
        "keras_transformer.export.export_saved_model", lambda *arguments: given.append(arguments)
    )
    export.main(["--checkpoint", str(model), "--output", "toy", *options])
    ((_, _, received),) = given
    assert received.pop("command").startswith("python -m pipelines.export --checkpoint")
    # Scores of another search say nothing about this one.
    assert received == {name: facts[name] for name in kept}


def test_one_language_is_refused(capsys):
    with pytest.raises(SystemExit):
        export.main("--checkpoint run --output toy --languages de".split())
    assert "--languages needs source and target, received de" in capsys.readouterr().err


def test_other_formats_are_written(run, translator, tmp_path, capsys):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    for name, file in (("ctranslate2", "model.bin"), ("hugging_face", "model.safetensors")):
        output = tmp_path / name
        options = ["--format", name, "--beam-size", "1", "--max-length", "20"]
        export.main(["--checkpoint", run, "--output", str(output), *options])
        assert capsys.readouterr().out == f"{output}\n"
        assert (output / file).is_file()
    imported = import_marian(tmp_path / "hugging_face")
    greedy = dataclasses.replace(translator.decoding, beam_size=1, max_length=20)
    assert imported.decoding == greedy
    ours = Translator(translator.model, translator.tokenizer, decoding=greedy)
    assert imported(toy_sentences(5)) == ours(toy_sentences(5))
