import dataclasses
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from keras_transformer.config import DataConfig, ExperimentConfig, TrainingConfig
from keras_transformer.config.data import as_list
from keras_transformer.export import ExportRecord
from keras_transformer.presets import PRESETS
from keras_transformer.training import load_translator
from pipelines import train
from tests.helpers.parser import parser
from tests.helpers.tiny import (
    ROOT,
    run_python,
    toy_experiment,
    toy_sentences,
    toy_training,
    write_toy_text,
)


@pytest.fixture
def trained(monkeypatch):
    """The calls of `train`, which does nothing."""
    calls = []
    monkeypatch.setattr(
        "keras_transformer.training.train",
        lambda experiment, output: calls.append((experiment, output)),
    )
    return calls


@pytest.fixture
def config_file(tmp_path):
    def write(content):
        path = tmp_path / "config.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write


MINIMAL = {
    "model": {"vocab_size": 380, "d_model": 32},
    "data": {"train_source": "train.tsv", "validation_source": "validation.tsv"},
}


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


def experiment_of(preset, data, **model):
    """The preset with some of the model's sizes replaced."""
    return ExperimentConfig.from_dict(
        {
            "model": dataclasses.asdict(preset.model) | model,
            "data": data,
            "training": dataclasses.asdict(preset.training),
            "decoding": dataclasses.asdict(preset.decoding),
        }
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_needs_nothing_but_text(trained, config_file, name):
    path = config_file({"data": MINIMAL["data"]})
    train.main(["--config", path, "--preset", name, "--output", "x"])
    assert trained == [(experiment_of(PRESETS[name], MINIMAL["data"]), "x")]


def test_file_and_options_override_a_preset(trained, config_file):
    path = config_file({**MINIMAL, "preset": "parsing_wsj", "output": "x"})
    train.main(["--config", path, "--model.d_ff", "40"])
    parsing = experiment_of(PRESETS["parsing_wsj"], MINIMAL["data"], **MINIMAL["model"], d_ff=40)
    assert trained.pop() == (parsing, "x")
    train.main(["--config", path, "--preset", "big"])
    big = experiment_of(PRESETS["big"], MINIMAL["data"], **MINIMAL["model"])
    assert trained.pop() == (big, "x")


def test_a_model_to_start_from_gives_everything_but_the_text(trained, config_file, run):
    start = ExperimentConfig.from_file(f"{run}/config.yaml")
    expected = dataclasses.replace(
        start,
        model=dataclasses.replace(start.model, dropout=0.3),
        data=DataConfig(**MINIMAL["data"]),
        training=dataclasses.replace(start.training, warmup_steps=9, init_from=run),
    )
    options = ["--training.warmup_steps", "9", "--model.dropout", "0.3", "--output", "x"]
    path = config_file({"data": MINIMAL["data"]})
    train.main(["--config", path, "--training.init_from", run, *options])
    path = config_file({"data": MINIMAL["data"], "training": {"init_from": run}})
    train.main(["--config", path, *options])
    assert trained == [(expected, "x")] * 2


def test_a_model_to_start_from_gives_its_kind_of_subwords_but_not_its_devices(
    trained, config_file, run, tmp_path
):
    start = ExperimentConfig.from_file(f"{run}/config.yaml")
    data = dataclasses.replace(start.data, subwords="wordpiece")
    recipe = dataclasses.replace(
        start.training, precision="mixed_bfloat16", replicas=2, teachers=["elsewhere"], seed=5
    )
    directory = tmp_path / "start"
    directory.mkdir()
    dataclasses.replace(start, data=data, training=recipe).to_file(directory / "config.yaml")
    (directory / "model.keras").touch()
    path = config_file({"data": MINIMAL["data"]})
    train.main(["--config", path, "--training.init_from", str(directory), "--output", "x"])
    config = trained.pop()[0]
    assert config.data == DataConfig(**MINIMAL["data"], subwords="wordpiece")
    assert config.training.seed == 5
    assert (config.training.precision, config.training.replicas) == ("float32", None)
    assert config.training.teachers == []


def test_a_translator_saved_in_python_gives_its_model_its_subwords_and_its_search(
    trained, config_file, saved
):
    path = config_file({"data": MINIMAL["data"]})
    train.main(["--config", path, "--training.init_from", saved, "--output", "x"])
    config = trained.pop()[0]
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


def test_a_recipe_that_this_version_does_not_know_is_named(trained, config_file, saved_model):
    version = Path(saved_model) / "1"
    record = ExportRecord.read(version)
    command = ["--config", config_file({"data": MINIMAL["data"]}), "--output", "x"]
    command += ["--training.init_from", saved_model]
    try:
        for recipe, message in (
            ({"r_drop": 5.0}, "export.json: training.r_drop must be 0 or left out"),
            ({"epochs": 3, "magic": 1}, "export.json has invalid .* training.magic is not an opt"),
        ):
            dataclasses.replace(record, facts={"training": recipe}).write(version)
            with pytest.raises(SystemExit, match=f"error: .*{message}"):
                train.main(command)
        dataclasses.replace(record, facts={"training": {"epochs": 3, "r_drop": 0.0}}).write(version)
        train.main(command)
    finally:
        record.write(version)
    assert trained.pop()[0].training == TrainingConfig(epochs=3, init_from=saved_model)


def test_each_teacher_is_an_option(trained, config_file):
    path = config_file(MINIMAL)
    train.main(
        ["--config", path, "--output", "x", *"--training.teachers a --training.teachers b".split()]
    )
    assert trained.pop()[0].training.teachers == ["a", "b"]


def test_several_corpora_are_given_with_an_option_each(trained, config_file):
    path = config_file(MINIMAL)
    one = ["--config", path, "--output", "x", "--data.train_source", "a,b.tsv"]
    train.main(one)
    train.main([*one, "--data.train_source", "c.tsv", "--data.train_weights", "2,0.5"])
    first, second = (config.data for config, _ in trained)
    assert first.train_source == "a,b.tsv"
    assert (second.train_source, second.train_weights) == (["a,b.tsv", "c.tsv"], [2, 0.5])


def test_a_run_that_has_begun_no_longer_needs_its_start(trained, config_file, run, tmp_path):
    start = shutil.copytree(run, tmp_path / "start")
    path = config_file({"data": MINIMAL["data"]})
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
    path = config_file({"data": MINIMAL["data"], "output": str(output)})
    train.main(command)
    assert config.training.epochs == 7
    assert trained == [trained[0]] * 4


def test_a_missing_model_to_start_from_is_named(trained):
    with pytest.raises(SystemExit, match="error: There is no directory none. Give the directory"):
        train.main(["--training.init_from", "none", "--output", "x"])
    assert not trained


def test_an_unknown_preset_is_refused_with_the_known_names(trained, config_file):
    path = config_file({**MINIMAL, "preset": ["huge"]})
    with pytest.raises(SystemExit, match=r"error: Presets are tiny, base, big, .*\['huge'\]"):
        train.main(["--config", path, "--output", "x"])


CONFIGS = {
    path.stem: path
    for path in (ROOT / "pipelines" / "configs").glob("*.yaml")
    if path.stem != "quickstart"  # Another command's.
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_committed_configuration_needs_nothing_more(trained, name):
    train.main(["--config", str(CONFIGS[name]), "--output", "x"])
    data = trained[0][0].data
    if name.startswith("parsing"):
        expected = "data/dev.mrg" if name == "parsing_small" else "data/wsj/22"
        assert (data.task, data.validation_source) == ("parsing", expected)
        return
    source, target, *others = [part for part in name.split("_") if len(part) == 2]
    if name.endswith("_tfds"):
        assert (data.source_language, data.target_language) == (source, target)
        sets = {"multi30k": "multi30k", "wmt14": f"wmt14_translate/{target}-{source}"}
        assert data.tfds == sets[name.partition("_")[0]]
        return
    folder = "multi30k" if name.startswith("multi30k") else f"wmt14_{source}_{target}"
    targets = [target, *others]
    assert data.train_languages == data.validation_languages == (targets if others else [])
    for paths, languages in (
        (data.train_source, [source] * len(targets)),
        (data.train_target, targets),
        (data.validation_source, [source] * len(targets)),
        (data.validation_target, targets),
    ):
        for path, language in zip(as_list(paths), languages, strict=True):
            assert path.startswith(f"data/{folder}/")
            assert path.removesuffix(".gz").endswith(f".{language}")


@pytest.mark.parametrize(
    ("name", "preset", "changes"),
    [
        ("wmt14_en_de_base", "base", {}),
        ("wmt14_en_de_base_tfds", "base", {}),
        ("wmt14_en_de_big", "big", {}),
        ("wmt14_en_fr_base", "base", {"vocab_size": 32_000}),
        # Section 6.1: less dropout than from English to German.
        ("wmt14_en_fr_big", "big", {"vocab_size": 32_000, "dropout": 0.1}),
    ],
)
def test_the_configurations_of_the_papers_runs(trained, name, preset, changes):
    train.main(["--config", str(CONFIGS[name]), "--output", "x"])
    data = dataclasses.asdict(trained[0][0].data)
    assert trained[0][0] == experiment_of(PRESETS[preset], data, **changes)
    # Section 5.1: byte pairs for German, word pieces for French.
    assert data["subwords"] == ("wordpiece" if "en_fr" in name else "bpe")


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.endswith("_tfds")])
def test_a_configuration_for_tfds_differs_from_that_for_files_only_in_the_text(trained, name):
    for config in (name, name.removesuffix("_tfds")):
        train.main(["--config", str(CONFIGS[config]), "--output", "x"])
    (tfds, _), (files, _) = trained
    text = {"tfds": None, "source_language": None, "target_language": None}
    paths = ("train_source", "train_target", "validation_source", "validation_target")
    text |= {path: getattr(files.data, path) for path in paths}
    assert dataclasses.replace(tfds, data=dataclasses.replace(tfds.data, **text)) == files


def test_environment_variables_are_not_options(trained, config_file, monkeypatch):
    monkeypatch.setenv("OUTPUT", "from_environment")
    with pytest.raises(SystemExit, match="output is missing"):
        train.main(["--config", config_file(MINIMAL)])


def test_all_mistakes_are_reported_at_once(trained, config_file):
    mistakes = {
        "model": {"vocab_size": 2, "heads": 3},
        "data": {"train_source": "train.tsv"},
        "trainin": {},
        "xyz": 1,
    }
    with pytest.raises(SystemExit) as error:
        train.main(["--config", config_file(mistakes), "--training.epochs", "three"])
    first, *lines = str(error.value).splitlines()
    assert first.startswith("error: the configuration of ")
    assert sorted(lines) == [
        "  data: text in files needs train_source, validation_source, received no "
        "validation_source; give what is missing",
        "  model.heads is not an option, did you mean model.num_heads?",
        "  model.vocab_size: Input should be greater than 4, received 2",
        "  output is missing; give --output DIRECTORY",
        "  trainin is not an option, did you mean training?",
        "  training.epochs: Input should be a valid integer, unable to parse string as an integer, "
        "received 'three'",
        "  xyz is not an option",
    ]
    assert not trained


def test_sizes_that_do_not_fit_are_reported_in_the_words_of_the_library(trained, config_file):
    path = config_file(MINIMAL)
    with pytest.raises(SystemExit, match="\n  model: d_model must be divisible by num_heads"):
        train.main(["--config", path, "--output", "x", "--model.num_heads", "5"])


@pytest.mark.parametrize(
    "option", ["--training.epoch 3", "--training.epoch=3", "--trainig.epochs=3"]
)
def test_a_mistyped_option_is_answered_with_the_one_that_was_meant(
    option, trained, config_file, capsys
):
    with pytest.raises(SystemExit) as error:
        train.main(["--config", config_file(MINIMAL), "--output", "x", *option.split()])
    assert error.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    given = option.split("=")[0].split()[0]
    assert line == (
        f"error: {given} is not an option, did you mean --training.epochs? See python -m "
        "pipelines.train --help."
    )


@pytest.mark.parametrize("options", [[], ["--output", "x"]])
def test_without_a_configuration_it_says_what_to_give(options):
    with pytest.raises(SystemExit, match="error: give --config FILE, or --preset NAME") as error:
        train.main(options)
    for option in ("--output", "--data.train_source", "--data.validation_source", "--data.tfds"):
        assert option in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.code == 2


def test_what_a_preset_leaves_open_is_named():
    with pytest.raises(SystemExit) as error:
        train.main(["--preset", "tiny"])
    assert error.value.code == 2
    assert str(error.value).splitlines()[1:] == [
        "  output is missing; give --output DIRECTORY",
        "  data is missing; give --data.train_source and --data.validation_source, or --data.tfds "
        "with --data.source_language and --data.target_language",
    ]


def test_an_optional_value_of_the_file_can_be_removed(trained, config_file):
    path = config_file({**MINIMAL, "training": {"patience": 3}})
    train.main(["--config", path, "--output", "x", "--training.patience", "None"])
    assert trained.pop()[0].training.patience is None


def test_sections_that_do_not_fit_each_other_are_an_error(trained, config_file):
    path = config_file({**MINIMAL, "model": MINIMAL["model"] | {"position": "learned"}})
    options = ["--model.max_length", "9", "--data.max_length", "10", "--output", "x"]
    with pytest.raises(SystemExit, match="\n  learned positions need model.max_length"):
        train.main(["--config", path, *options])


@pytest.mark.parametrize(
    "content, message",
    [
        ("- 3", "config.yaml must hold a YAML mapping .* received list"),
        ("model: {", "config.yaml is not YAML: while parsing"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_refused(content, message, config_file):
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        train.main(["--config", config_file(content), "--output", "x"])


def test_a_missing_configuration_is_named():
    with pytest.raises(SystemExit, match="error: .*or directory: 'none.yaml'") as end:
        train.main(["--config", "none.yaml", "--output", "x"])
    assert end.value.code == 2


def test_a_missing_text_is_named(config_file, tmp_path):
    with pytest.raises(SystemExit, match="error: .*.tsv must be a text file, but does not"):
        train.main(["--config", config_file(MINIMAL), "--output", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("checkpoints", "message"),
    [
        ([], "Interrupted before the first checkpoint. The same command starts again.\n"),
        (
            ["step-0001-000050.weights.h5", "step-0001-000150.weights.h5"],
            "Interrupted. The same command resumes after step 150 of epoch 1.\n",
        ),
        (
            ["epoch-0009.weights.h5", "epoch-0010.weights.h5", "damaged-epoch-0011.weights.h5"]
            + ["step-0010-000900.weights.h5"],
            "Interrupted. The same command resumes after epoch 10.\n",
        ),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_an_interruption_it_says_what_the_same_command_does(
    number, checkpoints, message, config_file, monkeypatch, tmp_path, capsys
):
    def interrupted(experiment, output):
        (tmp_path / "checkpoints").mkdir()
        for name in checkpoints:
            (tmp_path / "checkpoints" / name).touch()
        signal.raise_signal(number)

    monkeypatch.setattr("keras_transformer.training.train", interrupted)
    # The process of the tests may ignore signals, as one in the background does.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as error:
            train.main(["--config", config_file(MINIMAL), "--output", str(tmp_path)])
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert error.value.code == 128 + number
    assert capsys.readouterr().err == message


@pytest.mark.slow
def test_a_terminated_run_says_where_it_resumes(tmp_path):
    experiment = toy_experiment(write_toy_text(tmp_path, train=60), epochs=9999)
    experiment.to_file(tmp_path / "toy.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.train", "--config", "toy.yaml", "--output", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        while not list((tmp_path / "run" / "checkpoints").glob("epoch-*")):
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        *_, last = process.stderr.read().splitlines()
    assert process.returncode == 143
    assert re.fullmatch(
        r"Interrupted\. The same command resumes after (step \d+ of )?epoch \d+\.", last
    )
    assert not (tmp_path / "run" / "run.lock").exists()


@pytest.mark.slow
def test_from_the_command_line_to_a_model(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    compressed = tmp_path / "train.source.gz"
    compressed.write_bytes(gzip.compress((tmp_path / "train.source").read_bytes()))
    toy_experiment(data).to_file(tmp_path / "toy.yaml")
    arguments = ["--config", "toy.yaml", "--output", "run", "--training.epochs", "1"]
    arguments += ["--data.train_source", compressed]
    process = run_python("-m", "pipelines.train", *arguments, cwd=tmp_path)
    assert "python -m pipelines.export --checkpoint run --output saved_models/" in process.stdout
    assert "kept 60 of 60 sentence pairs" in process.stderr
    assert "TensorFlow" not in process.stderr
    config = ExperimentConfig.from_file(tmp_path / "run" / "config.yaml")
    assert config == toy_experiment(data | {"train_source": str(compressed)}, epochs=1)
    assert len(load_translator(tmp_path / "run")(toy_sentences(3))) == 3
