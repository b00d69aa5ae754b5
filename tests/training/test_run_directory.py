"""The lock of a run directory, the configuration that claims it, and what it says of a run."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import yaml

from keras_transformer.config import DecodingConfig
from keras_transformer.training import run_directory
from keras_transformer.training.run_directory import (
    check_inputs,
    claim,
    locked_directory,
    read_state,
    run_facts,
    settle,
)
from keras_transformer.translation.translator import Translator
from tests.helpers.damage import flip_a_bit
from tests.helpers.tiny import (
    ROOT,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_experiment,
    write_toy_text,
)

TEXT = {"train_source": "train.tsv", "validation_source": "validation.tsv"}
HOLD = """
import pathlib, sys, time
from keras_transformer.training.run_directory import locked_directory
with locked_directory(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path):
    return tmp_path / "runs" / "first"


def test_a_second_run_in_the_process_is_refused_with_the_first_one_s_name(run):
    refused = []

    def second():
        with pytest.raises(BlockingIOError, match=f"first is in use by process {os.getpid()} on "):
            with locked_directory(run):
                pass
        refused.append(True)

    with locked_directory(run):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert refused
        assert (run / "run.lock").exists()
    with locked_directory(run):
        pass


@pytest.mark.slow
def test_another_process_is_refused_until_the_first_is_killed(run):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, run],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout.readline() == b"locked\n"
            with pytest.raises(BlockingIOError, match=f"process {process.pid} on "):
                with locked_directory(run):
                    pass
        finally:
            process.send_signal(signal.SIGKILL)
    assert (run / "run.lock").exists()
    with locked_directory(run):
        assert f"process {os.getpid()} on" in (run / "run.lock").read_text()
    assert not (run / "run.lock").exists()


def test_a_lock_that_was_removed_before_it_was_locked_is_not_trusted(run, monkeypatch):
    run.mkdir(parents=True)
    lock_file, calls = run_directory._lock_file, []

    def first_run_ends_meanwhile(file):
        lock_file(file)
        if not calls:
            (run / "run.lock").unlink()
        calls.append(file)

    monkeypatch.setattr(run_directory, "_lock_file", first_run_ends_meanwhile)
    with locked_directory(run):
        assert len(calls) == 2
        assert (run / "run.lock").exists()


def test_temporary_files_of_killed_runs_are_removed(run):
    checkpoints = run / "checkpoints"
    checkpoints.mkdir(parents=True)
    for path in (run / "writing-1-model.keras", checkpoints / "writing-2-epoch-0001.weights.h5"):
        path.touch()
    (checkpoints / "epoch-0001.weights.h5").touch()
    (run / "writing-3-1").mkdir()  # An export that another process writes.
    with locked_directory(run):
        left = sorted(path.name for path in run.rglob("*"))
    assert left == ["checkpoints", "epoch-0001.weights.h5", "run.lock", "writing-3-1"]


def test_new_directories_that_stay_empty_are_removed(run, tmp_path):
    with pytest.raises(ValueError, match="mistake"), locked_directory(run):
        raise ValueError("mistake")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="mistake"), locked_directory(run):
        (run / "config.yaml").touch()
        raise ValueError("mistake")
    assert [path.name for path in run.iterdir()] == ["config.yaml"]


def test_a_directory_that_was_there_stays(run):
    run.mkdir(parents=True)
    with locked_directory(run):
        pass
    assert list(run.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file") as error:
        with locked_directory(tmp_path / "file" / "run"):
            pass
    assert error.value.filename


def test_a_file_system_without_locks_is_used_with_a_warning(run, monkeypatch, caplog):
    def fail(*arguments):
        raise OSError(run_directory.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_directory.fcntl, "flock", fail)
    with locked_directory(run):
        pass
    assert "is on a file system without locks" in caplog.text


def reversed_middle(data):
    """Return the bytes of a file with the middle third the other way round."""
    third = len(data) // 3
    return data[:third] + data[2 * third : third : -1] + data[2 * third :]


@pytest.fixture
def trained(tmp_path):
    """A run directory as `train` leaves it, with the tiny model and a beam of 2."""
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer(), tiny_tokenizer()], {})
    tiny_model(num_layers=1).save(tmp_path / "model.keras")
    return tmp_path


@pytest.mark.parametrize("damage", [lambda data: data[:5000], lambda data: b"", reversed_middle])
def test_a_damaged_model_is_named(trained, damage):
    path = trained / "model.keras"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="model.keras is damaged: .* Restore it. In a run"):
        Translator.load(trained)


def test_a_damaged_configuration_is_named(trained):
    path = trained / "config.yaml"
    path.write_bytes(path.read_bytes()[:200] + b"{")
    with pytest.raises(ValueError, match="config.yaml is damaged: its checksum is not the one in"):
        Translator.load(trained)
    (trained / "SHA256SUMS").unlink()  # As in version 0.1.
    with pytest.raises(ValueError, match="config.yaml is not YAML"):
        Translator.load(trained)


@pytest.mark.parametrize("length", [0, 9, 30, 200, 400])
def test_a_truncated_configuration_is_named_with_a_remedy(trained, length):
    path = trained / "config.yaml"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match="config.yaml is damaged: .* Restore it; if"):
        read_state(trained, toy_experiment(TEXT))
    (trained / "SHA256SUMS").unlink()  # As in version 0.1.
    with pytest.raises(ValueError, match="config.yaml .* Correct or restore it.$"):
        read_state(trained, toy_experiment(TEXT))


def test_a_run_resumes_with_its_configuration_or_other_ends(tmp_path):
    experiment = toy_experiment(TEXT)
    read_state(tmp_path, experiment)
    claim(tmp_path, experiment, [tiny_tokenizer()], {})
    read_state(tmp_path, experiment)
    for ends in ({"epochs": 99}, {"epochs": 2}, {"max_steps": 9}, {"max_minutes": 0.5}):
        read_state(tmp_path, toy_experiment(TEXT, **ends))
    read_state(tmp_path, dataclasses.replace(experiment, decoding=DecodingConfig(beam_size=9)))


@pytest.mark.parametrize(
    "given, on_gpu, on_cpu",
    [
        ({}, ("mixed_bfloat16", 6), ("float32", None)),
        ({"precision": "float32"}, ("float32", 6), ("float32", None)),
        ({"jit_compile": False}, ("mixed_bfloat16", None), ("float32", None)),
        ({"jit_compile": True}, ("mixed_bfloat16", 6), ("float32", 6)),
    ],
)
def test_a_run_keeps_the_precision_and_shapes_that_suit_its_devices(
    tmp_path, monkeypatch, given, on_gpu, on_cpu
):
    def settled(gpus, folder):
        for name in ("has_bfloat16", "has_gpu", "count_gpus"):
            monkeypatch.setattr(run_directory, name, lambda: gpus)
        found = settle(toy_experiment(TEXT, **given), folder)
        return found, (found.training.precision, found.data.static_shapes)

    assert settled(0, tmp_path)[1] == on_cpu
    several = None if given.get("jit_compile") is None else on_gpu[1]
    assert settled(2, tmp_path)[1] == (on_gpu[0], several)
    config, found = settled(1, tmp_path)
    assert found == on_gpu
    claim(tmp_path, config, [tiny_tokenizer()], {})
    assert settled(0, tmp_path) == (config, found)


def test_every_option_that_differs_from_the_run_is_named(tmp_path):
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer()], {})
    other = toy_experiment(TEXT | {"train_source": "other.tsv"}, seed=2)
    model = dataclasses.replace(other.model, norm="pre")
    message = (
        "model.norm='pre' instead of 'post', data.train_source='other.tsv' instead of 'train.tsv', "
        "training.seed=2 instead of 1. A run resumes with"
    )
    with pytest.raises(ValueError, match=message):
        read_state(tmp_path, dataclasses.replace(other, model=model))


def test_a_run_of_version_0_1_resumes(tmp_path):
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer()], {})
    path = tmp_path / "config.yaml"
    values = yaml.safe_load(path.read_text())
    values["training"]["r_drop"] = 0.0
    path.write_text(yaml.safe_dump(values))
    (tmp_path / "SHA256SUMS").unlink()
    read_state(tmp_path, toy_experiment(TEXT, epochs=99))


@pytest.mark.parametrize("size", [0, 30_000_000])
def test_a_run_goes_on_with_the_text_that_it_began_with(tmp_path, size):
    data = write_toy_text(tmp_path, train=60)
    train, valid = tmp_path / "train.source", tmp_path / "validation.target"
    train.write_bytes(train.read_bytes().ljust(size))
    weights = tmp_path / "teacher" / "model.keras"
    tiny_translator(num_layers=1).save(weights.parent)
    config = toy_experiment(data, teachers=[str(weights.parent)])
    text = check_inputs(tmp_path, config)
    assert set(text) == {*data.values(), str(weights)}
    claim(tmp_path, config, [tiny_tokenizer()], text)
    assert check_inputs(tmp_path, config) == text
    os.utime(train, ns=(0, 0))  # A copy of the text is the same text.
    assert check_inputs(tmp_path, config) == text
    flip_a_bit(train, -1)
    flip_a_bit(weights, 5000)
    valid.write_text(valid.read_text() + "one\n")
    message = f"these differ: {weights}, {train}, {valid}. Restore them, or choose another"
    with pytest.raises(ValueError, match=message):
        check_inputs(tmp_path, config)


def test_a_run_without_checksums_of_its_text_gets_them(tmp_path, caplog):
    caplog.set_level("INFO", logger="keras_transformer")
    config = toy_experiment(write_toy_text(tmp_path, train=60))
    check_inputs(tmp_path, config)
    assert caplog.text == ""  # There is no run yet.
    claim(tmp_path, config, [tiny_tokenizer()], {})
    for name in ("inputs.json", "SHA256SUMS"):  # As before version 0.2.
        (tmp_path / name).unlink()
    assert check_inputs(tmp_path, config)
    assert "has no checksums of its text; they are recorded now" in caplog.text


@pytest.mark.parametrize(
    ("chosen", "rows", "finished", "patience"),
    [
        (None, 3, False, None),
        ({"epochs": 3}, 0, True, None),
        ({"epochs": 2}, 3, False, None),  # It was killed before the choice.
        ({"epochs": 3, "max_steps": 5, "trained_epochs": 2}, 3, False, None),
        ({"epochs": 9}, 9, True, None),  # It shall have fewer epochs.
        ({"epochs": 2, "trained_epochs": 2}, 2, False, None),  # It was ended early.
        ({}, 3, True, None),  # Earlier versions did not write the epochs.
        ({}, 2, False, None),
        ({}, 2, True, 1),  # It stopped early.
        ({}, 0, False, None),
    ],
)
def test_a_run_is_finished_when_its_weights_are_those_of_all_epochs(
    tmp_path, chosen, rows, finished, patience
):
    config = toy_experiment(TEXT, patience=patience)
    claim(tmp_path, config, [tiny_tokenizer()], {})
    if chosen is not None:
        (tmp_path / "chosen.json").write_text(json.dumps(chosen))
    if rows:
        table = "".join(f"{epoch},5.0\n" for epoch in range(1, rows + 1))
        (tmp_path / "epochs.csv").write_text(f"epoch,loss\n{table}")
    if patience:
        (tmp_path / "checkpoints").mkdir()
        for name in ("best-0001-bleu-5.0000", f"epoch-{rows:04d}"):
            (tmp_path / "checkpoints" / f"{name}.weights.h5").touch()
    assert read_state(tmp_path, config).is_finished == finished


def test_the_facts_of_a_run_are_its_data_its_recipe_and_what_was_chosen(trained):
    experiment = toy_experiment(TEXT)
    facts = {
        "data": dataclasses.asdict(experiment.data),
        "training": dataclasses.asdict(experiment.training),
    }
    assert run_facts(trained) == facts
    (trained / "chosen.json").write_text('{"chosen": "best", "epochs": 3}')
    assert run_facts(trained) == facts | {"validation": {"chosen": "best"}}
    for content in ('{"chosen', "", "3"):
        (trained / "chosen.json").write_text(content)
        with pytest.raises(ValueError, match="chosen.json .*damaged: .*Restore it, or choose"):
            run_facts(trained)
