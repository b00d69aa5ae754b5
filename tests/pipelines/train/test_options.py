"""What files, options, presets and models to start from give an experiment."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from keras_transformer.config import DataConfig, ExperimentConfig, TrainingConfig
from keras_transformer.config.record import ExportRecord
from keras_transformer.presets import PRESETS
from pipelines import train
from tests.helpers.experiment import MINIMAL, experiment_of
from tests.helpers.parser import parser
from tests.helpers.tiny import toy_training

TEXT = {"data": MINIMAL["data"]}


def test_options_override_the_file(trained, config_file):
    path = config_file({**MINIMAL, "training": {"epochs": 7, "seed": 3}, "output": "from_file"})
    options = ["--training.epochs", "2", "--model.dropout=0.3", "--output", "given"]
    train.main(["--config", path, *options])
    train.main([*options, f"--config={path}"])
    expected = ExperimentConfig.from_dict(
        {
            **MINIMAL,
            "model": {"vocab_size": 380, "d_model": 32, "dropout": 0.3},
            "training": {"epochs": 2, "seed": 3},
        }
    )
    assert trained == [(expected, "given")] * 2
    train.main(["--config", path])
    assert trained[-1][1] == "from_file"


def test_options_alone_are_enough(trained):
    train.main(
        "--output x --model.vocab_size 380 --model.d_model 32 --data.train_source train.tsv "
        "--data.validation_source validation.tsv".split()
    )
    assert trained == [(ExperimentConfig.from_dict(MINIMAL), "x")]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_needs_nothing_but_text(train_with, name):
    expected = experiment_of(PRESETS[name], MINIMAL["data"])
    assert train_with(TEXT, "--preset", name, "--output", "x") == (expected, "x")


def test_file_and_options_override_a_preset(train_with):
    content = {**MINIMAL, "preset": "parsing_wsj", "output": "x"}
    parsing = experiment_of(PRESETS["parsing_wsj"], MINIMAL["data"], **MINIMAL["model"], d_ff=40)
    assert train_with(content, "--model.d_ff", 40) == (parsing, "x")
    big = experiment_of(PRESETS["big"], MINIMAL["data"], **MINIMAL["model"])
    assert train_with(content, "--preset", "big") == (big, "x")


def test_a_model_to_start_from_gives_everything_but_the_text(train_with, run):
    start = ExperimentConfig.from_file(f"{run}/config.yaml")
    expected = dataclasses.replace(
        start,
        model=dataclasses.replace(start.model, dropout=0.3),
        data=DataConfig(**MINIMAL["data"]),
        training=dataclasses.replace(
            start.training, warmup_steps=9, init_from=run, precision="auto"
        ),
    )
    options = "--training.warmup_steps 9 --model.dropout 0.3 --output x".split()
    assert train_with(TEXT, "--training.init_from", run, *options) == (expected, "x")
    assert train_with(TEXT | {"training": {"init_from": run}}, *options) == (expected, "x")


def test_a_model_to_start_from_gives_its_kind_of_subwords_but_not_its_devices(
    train_with, run, tmp_path
):
    start = ExperimentConfig.from_file(f"{run}/config.yaml")
    data = dataclasses.replace(start.data, subwords="wordpiece")
    devices = {"precision": "mixed_bfloat16", "replicas": 2, "jit_compile": True}
    recipe = dataclasses.replace(start.training, seed=5, teachers=["elsewhere"], **devices)
    directory = tmp_path / "start"
    directory.mkdir()
    dataclasses.replace(start, data=data, training=recipe).to_file(directory / "config.yaml")
    (directory / "model.keras").touch()
    config, _ = train_with(TEXT, "--training.init_from", directory, "--output", "x")
    assert config.data == DataConfig(**MINIMAL["data"], subwords="wordpiece")
    assert config.training.seed == 5
    assert {name: getattr(config.training, name) for name in devices} == {
        **dict.fromkeys(devices),
        "precision": "auto",
    }
    assert config.training.teachers == []


def test_a_translator_saved_in_python_gives_its_model_its_subwords_and_its_search(
    train_with, saved
):
    config, _ = train_with(TEXT, "--training.init_from", saved, "--output", "x")
    translator = toy_training()[1]
    assert config.model == translator.model.config
    assert config.decoding == translator.decoding
    assert config.training == TrainingConfig(init_from=saved)


def test_a_parser_gives_its_task(trained, tmp_path):
    parser("source", subwords="word").save(tmp_path / "parser")
    options = f"--training.init_from {tmp_path / 'parser'} --output x --data.train_source a.mrg"
    train.main([*options.split(), "--data.validation_source", "b.mrg"])
    data = trained.pop()[0].data
    assert (data.task, data.word_tags, data.subwords) == ("parsing", "source", "word")


def test_a_recipe_that_this_version_does_not_know_is_named(train_with, saved_model):
    version = Path(saved_model) / "1"
    record = ExportRecord.read(version)
    options = ["--output", "x", "--training.init_from", saved_model]
    try:
        for recipe, message in (
            ({"r_drop": 5.0}, "export.json: training.r_drop must be 0 or left out"),
            ({"epochs": 3, "magic": 1}, "export.json has invalid .* training.magic is not an opt"),
        ):
            dataclasses.replace(record, facts={"training": recipe}).write(version)
            with pytest.raises(SystemExit, match=f"error: .*{message}"):
                train_with(TEXT, *options)
        dataclasses.replace(record, facts={"training": {"epochs": 3, "r_drop": 0.0}}).write(version)
        assert train_with(TEXT, *options)[0].training == TrainingConfig(
            epochs=3, init_from=saved_model
        )
    finally:
        record.write(version)


def test_an_option_that_is_given_again_adds_to_a_list(train_with):
    teachers = "--output x --training.teachers a --training.teachers b".split()
    assert train_with(MINIMAL, *teachers)[0].training.teachers == ["a", "b"]
    one = ["--output", "x", "--data.train_source", "a,b.tsv"]
    assert train_with(MINIMAL, *one)[0].data.train_source == "a,b.tsv"
    two = [*one, "--data.train_source", "c.tsv", "--data.train_weights", "2,0.5"]
    data = train_with(MINIMAL, *two)[0].data
    assert (data.train_source, data.train_weights) == (["a,b.tsv", "c.tsv"], [2, 0.5])
    file = MINIMAL | {"data": {"validation_source": "valid.tsv"}}
    given = ["[{source: a.tsv, weight: 2}]", '{"source": "b"}']
    options = [text for value in given for text in ("--data.corpora", value)]
    corpora = train_with(file, "--output", "x", *options)[0].data.corpora
    assert [(corpus.source, corpus.weight) for corpus in corpora] == [("a.tsv", 2), ("b", None)]
    with pytest.raises(SystemExit, match="'{source: ' must be YAML, such as {source: a.en"):
        train_with(MINIMAL, "--output", "x", "--data.corpora", "{source: ")


def test_user_symbols_are_as_they_are_written(train_with):
    given = ["[NAME],{0},re:[A-Z]{2,3}", "[html, urls]", "printf", "re:#,re:[a,b]"]
    options = [text for value in given for text in ("--data.user_symbols", value)]
    assert train_with(MINIMAL, "--output", "x", *options)[0].data.user_symbols == [
        *("[NAME]", "{0}", "re:[A-Z]{2,3}", "html", "urls", "printf", "re:#", "re:[a,b]")
    ]


def test_a_run_that_has_begun_no_longer_needs_its_start(trained, config_file, run, tmp_path):
    start = shutil.copytree(run, tmp_path / "start")
    path = config_file(TEXT)
    output = tmp_path / "run"
    command = ["--config", path, "--training.init_from", str(start), "--training.epochs", "7"]
    train.main([*command, "--output", str(output)])
    output.mkdir()
    config = trained[0][0]
    config.to_file(output / "config.yaml")
    # The start has been trained on with another recipe.
    recipe = dataclasses.replace(config.training, epochs=20, warmup_steps=99)
    dataclasses.replace(config, training=recipe).to_file(start / "config.yaml")
    train.main([*command, "--output", str(output)])
    shutil.rmtree(start)
    train.main([*command, "--output", str(output)])
    path = config_file(TEXT | {"output": str(output)})
    train.main(command)
    assert config.training.epochs == 7
    assert trained == [trained[0]] * 4


def test_a_missing_model_to_start_from_is_named(trained):
    with pytest.raises(SystemExit, match="error: There is no directory none. Give the directory"):
        train.main(["--training.init_from", "none", "--output", "x"])
    assert not trained


def test_an_unknown_preset_is_refused_with_the_known_names(train_with):
    with pytest.raises(SystemExit, match=r"error: Presets are tiny, base, big, .*\['huge'\]"):
        train_with({**MINIMAL, "preset": ["huge"]}, "--output", "x")
