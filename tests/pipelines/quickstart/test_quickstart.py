import functools
import json
import shlex

import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.config.experiment import read_yaml
from keras_transformer.config.record import ExportRecord
from keras_transformer.translation import Translator
from keras_transformer.utils.versions import find_saved_model
from pipelines.quickstart import __main__ as quickstart
from pipelines.quickstart import toy_corpus
from tests.helpers.tiny import toy_experiment


@pytest.fixture
def small_corpus(monkeypatch):
    corpus = functools.partial(toy_corpus.generated_corpus, train=60, validation=10, test=30)
    monkeypatch.setattr(toy_corpus, "generated_corpus", corpus)
    return corpus()


@pytest.mark.slow
def test_the_whole_workflow(small_corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "CONFIG", tmp_path / "toy.yaml")
    text = {"train_source": "none", "validation_source": "none"}
    toy_experiment(text, epochs=1, batch_tokens=500).to_file(tmp_path / "toy.yaml")
    directory, output = tmp_path / "run", tmp_path / "saved models" / "toy"
    quickstart.main(["--directory", str(directory), "--output", str(output)])
    printed = capsys.readouterr().out

    assert find_saved_model(output) == output / "1"
    facts = ExportRecord.read(output / "1").facts
    assert facts["languages"] == ["en", "de"]
    assert facts["examples"] == [source for source, _ in small_corpus.test[:3]]
    for name in ("curves.png", "attention.png"):
        assert (directory / name).read_bytes().startswith(b"\x89PNG")
    sources = [source for source, _ in small_corpus.test[:3]]
    translator = Translator.load(directory)
    for source, translation in zip(sources, translator(sources), strict=True):
        assert f"  {source}\n  -> {translation}\n" in printed
    assert "60 generated pairs of sentences" in printed
    assert "minutes on two idle CPU cores; training prints how long is left" in printed
    assert "\nBLEU " in printed

    steps = printed.split("Translate your own sentences:\n")[1]
    translate, _, serve, _, ask = steps.splitlines()[:5]
    model = ["--model", str(output)]
    assert shlex.split(translate)[1:] == ["-m", "pipelines.translate", *model, sources[0]]
    assert shlex.split(serve)[1:] == ["-m", "pipelines.serve", *model]
    assert json.loads(shlex.split(ask)[2]) == {"instances": [sources[0]]}


def test_a_directory_with_other_sentences_is_refused(small_corpus, tmp_path):
    (tmp_path / "test.tsv").write_text("of an\tolder grammar\n")
    with pytest.raises(SystemExit, match="error: .*test.tsv has other sentences than this version"):
        quickstart.main(["--directory", str(tmp_path), "--output", str(tmp_path / "model")])
    assert (tmp_path / "test.tsv").read_text() == "of an\tolder grammar\n"


def test_its_configuration_is_valid():
    text = {"train_source": "train.tsv", "validation_source": "validation.tsv"}
    ExperimentConfig.from_dict({"data": text} | read_yaml(quickstart.CONFIG))
