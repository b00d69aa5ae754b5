import gzip
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.training.run_directory import settle
from keras_transformer.translation import Translator
from pipelines import train
from tests.helpers.experiment import MINIMAL
from tests.helpers.tiny import ROOT, run_python, toy_experiment, toy_sentences, write_toy_text


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
        "  model.vocab_size must be greater than 4, received 2",
        "  output is missing; give --output DIRECTORY",
        "  trainin is not an option, did you mean training?",
        "  training.epochs must be a valid integer, unable to parse string as an integer, "
        "received 'three'",
        "  xyz is not an option",
    ]
    assert not trained


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
    assert "\n" not in str(error.value) and error.value.code == 2


def test_what_a_preset_leaves_open_is_named():
    with pytest.raises(SystemExit) as error:
        train.main(["--preset", "tiny"])
    assert error.value.code == 2
    assert str(error.value).splitlines()[1:] == [
        "  output is missing; give --output DIRECTORY",
        "  data is missing; give --data.train_source and --data.validation_source, or --data.tfds "
        "with --data.source_language and --data.target_language",
    ]


def test_an_optional_value_of_the_file_can_be_removed(train_with):
    content, options = {**MINIMAL, "training": {"patience": 3}}, ["--training.patience", "None"]
    assert train_with(content, "--output", "x", *options)[0].training.patience is None


def test_values_that_do_not_fit_are_reported_in_the_words_of_the_library(train_with):
    options = "--model.position learned --model.max_length 9 --data.max_length 10 --output x"
    with pytest.raises(SystemExit, match="\n  learned positions need model.max_length"):
        train_with(MINIMAL, *options.split())


def test_repeated_keys_are_reported_with_the_other_mistakes(config_file):
    content = "model: {vocab_size: 2, vocab_size: 3}\ndata: {}\ndata: {train_source: a}\n"
    with pytest.raises(SystemExit) as error:
        train.main(["--config", config_file(content), "--training.epochs", "inf"])
    lines = str(error.value).splitlines()[1:]
    assert lines[:3] == [
        "  output is missing; give --output DIRECTORY",
        "  model.vocab_size is given twice, in line 1; remove one",
        "  data is given twice, in lines 2 and 3; remove one",
    ]
    assert len(lines) == 6


def test_the_weights_are_chosen_now_or_again_if_asked(config_file, monkeypatch, tmp_path, capsys):
    seen = []
    monkeypatch.setattr("keras_transformer.training.train", lambda *_, **how: seen.append(how))
    (tmp_path / "config.yaml").touch()
    command = ["--config", config_file(MINIMAL), "--output", str(tmp_path)]
    modes = {"--choose-again": "choose_again", "--finish": "finish"}
    for options in ([], *([option] for option in modes)):
        train.main([*command, *options])
        assert seen.pop() == {name: [option] == options for option, name in modes.items()}
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    for option in modes:
        with pytest.raises(SystemExit, match=f"{option} needs TensorFlow. Set KERAS_BACKEND="):
            train.main([*command, option])
        with pytest.raises(SystemExit):
            train.main([*command, option, "--dry-run"])
        assert f"{option} and --dry-run exclude each other" in capsys.readouterr().err


def test_a_run_that_has_begun_needs_its_directory_alone(trained, config_file, tmp_path):
    ExperimentConfig.from_dict(MINIMAL).to_file(tmp_path / "config.yaml")
    for options in ([], ["--finish"], ["--training.epochs", "7"]):
        train.main(["--output", str(tmp_path), *options])
    epochs = [experiment.training.epochs for experiment, _ in trained]
    assert epochs == [20, 20, 7]
    other = config_file({**MINIMAL, "training": {"epochs": 5}})
    train.main(["--output", str(tmp_path), "--config", other])
    assert trained[-1][0].training.epochs == 5
    with pytest.raises(SystemExit, match="error: --finish needs a run, .*none has none") as error:
        train.main(["--output", str(tmp_path / "none"), "--finish"])
    assert error.value.code == 2


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
            "Interrupted. The same command resumes after step 150 of epoch 1; {finish}\n",
        ),
        (
            ["epoch-0009.weights.h5", "epoch-0010.weights.h5", "damaged-epoch-0011.weights.h5"]
            + ["step-0010-000900.weights.h5"],
            "Interrupted. The same command resumes after epoch 10; {finish}\n",
        ),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_an_interruption_it_says_what_the_same_command_does(
    number, checkpoints, message, config_file, monkeypatch, tmp_path, capsys
):
    def interrupted(experiment, output, **_):
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
    finish = f"python -m pipelines.train --finish --output {tmp_path} ends the run there."
    assert capsys.readouterr().err == message.format(finish=finish)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_says_where_it_resumes(tmp_path, number):
    experiment = toy_experiment(write_toy_text(tmp_path, train=60), epochs=9999)
    experiment.to_file(tmp_path / "toy.yaml")
    command = [sys.executable, "-m", "pipelines.train", "--config", "toy.yaml", "--output", "run"]
    process = subprocess.Popen(
        # Tests that nohup runs would pass on that they ignore the signal.
        ["env", f"--default-signal={number.name.removeprefix('SIG')}", *command],
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
        process.send_signal(number)
        *_, last = process.stderr.read().splitlines()
    assert process.returncode == 128 + number
    assert re.fullmatch(
        r"Interrupted\. The same command resumes after (step \d+ of )?epoch \d+; "
        r"python -m pipelines.train --finish --output run ends the run there\.",
        last,
    )
    assert not (tmp_path / "run" / "run.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (
            "-f 300",
            r"error: .* File too large: '.*0001.*weights.h5'. Raise the limit of file",
        ),
        ("-v 800000", "error: out of memory: libtensorflow.* failed to map segment .* Free some"),
    ],
)
def test_a_run_that_meets_a_limit_ends_with_a_line_and_resumes(tmp_path, limit, message):
    experiment = toy_experiment(write_toy_text(tmp_path, train=60), epochs=1)
    experiment.to_file(tmp_path / "toy.yaml")
    arguments = "-m pipelines.train --config toy.yaml --output run"
    process = subprocess.run(
        ["bash", "-c", f"ulimit {limit}; exec {sys.executable} {arguments}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
    )
    *log, last = process.stderr.splitlines()
    assert process.returncode == 1 and re.match(message, last), process.stderr
    assert ("the address space is limited to 0.8 GB" in log[0]) == ("-v" in limit)
    assert not [line for line in log if "Traceback" in line or "Exception" in line]
    assert not list(tmp_path.rglob("writing-*"))
    run_python(*arguments.split(), cwd=tmp_path)
    assert len(Translator.load(tmp_path / "run")(toy_sentences(3))) == 3


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
    expected = toy_experiment(data | {"train_source": str(compressed)}, epochs=1)
    assert config == settle(expected, tmp_path)
    assert len(Translator.load(tmp_path / "run")(toy_sentences(3))) == 3
