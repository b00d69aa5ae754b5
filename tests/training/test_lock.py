"""The lock of a run directory."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from keras_transformer.training import lock
from keras_transformer.training.run_directory import locked_directory
from tests.helpers.tiny import ROOT

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
    lock_file, calls = lock._lock_file, []

    def first_run_ends_meanwhile(file):
        lock_file(file)
        if not calls:
            (run / "run.lock").unlink()
        calls.append(file)

    monkeypatch.setattr(lock, "_lock_file", first_run_ends_meanwhile)
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
        raise OSError(lock.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", fail)
    with locked_directory(run):
        pass
    assert "is on a file system without locks" in caplog.text
