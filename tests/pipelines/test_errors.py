"""Errors that a person can cause, from every command, in one line."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest
import tensorflow as tf
import yaml

from pipelines import evaluate, export, figures, translate
from pipelines.cli.errors import Stopped, explain, plain_errors
from pipelines.cli.parser import Parser
from tests.helpers.tiny import ROOT


def failure(command, *options):
    """Return the line that a command ends with."""
    with pytest.raises(SystemExit) as error:
        command.main([*map(str, options)])
    assert error.value.code == 1
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "/x/y"), "'/x/y'. Free some disk space and run"),
        (OSError(28, "No space left on device"), "on device. Free some disk space and run"),
        (OSError(27, "File too large", "/x"), "'/x'. Raise the limit of file sizes (ulimit -f)"),
        (OSError(12, "Cannot allocate memory"), "limit (ulimit -v) or that of threads (ulimit -u)"),
        (MemoryError(), "out of memory. Free some memory, raise its limit (ulimit"),
        (RuntimeError("can't start new thread"), ": can't start new thread. Free some memory"),
        (ImportError("x.so: failed to map segment from shared object"), "object. Free some mem"),
        (PermissionError(13, "Permission denied", "/x"), "'/x'. Choose another path, or change"),
        (FileNotFoundError(2, "No such file or directory", "x"), "'x'. Check the path."),
        (FileNotFoundError("There is no x. Give y."), "There is no x. Give y."),
        (ValueError("two\n  lines"), "two lines"),
        (ImportError("pip install x"), "pip install x"),
        (FloatingPointError("The loss must be finite"), "The loss must be finite"),
        (BlockingIOError("x is in use by process 1 on y."), "x is in use by process 1 on y."),
        (
            yaml.YAMLError("while\n  parsing"),
            "a file is not YAML: while parsing. Correct or restore",
        ),
        (zipfile.BadZipFile("Bad CRC-32"), "a file is damaged: Bad CRC-32. Restore it"),
        (tf.errors.PermissionDeniedError(None, None, "/x; Read-only\nat y"), "/x; Read-only. Choo"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM at x"), "OOM at x. Free memory or disk"),
        (tf.errors.DataLossError(None, None, "x.index"), "x.index. A file is damaged: restore it"),
    ],
)
def test_a_persons_error_is_a_line_with_a_remedy(error, message):
    assert message in explain(error)
    assert "\n" not in explain(error)
    with pytest.raises(SystemExit, match="^error: "), plain_errors():
        raise error


@pytest.mark.parametrize(
    ("error", "status", "usage"),
    [(ValueError, 1, 2), (FloatingPointError, 1, 2), (BlockingIOError, 75, 75)]
    + [(ConnectionError, 75, 75)],
)
def test_a_scheduler_can_tell_what_may_pass(error, status, usage, capsys):
    for given, expected in ((1, status), (2, usage)):
        with pytest.raises(SystemExit) as end, plain_errors(status=given):
            raise error("x")
        assert end.value.code == expected
        assert capsys.readouterr().err.startswith("error: x")


@pytest.mark.parametrize(
    "bug", [KeyError("x"), TypeError("x"), tf.errors.InvalidArgumentError(None, None, "x")]
)
def test_a_bug_keeps_its_traceback(bug):
    with pytest.raises(type(bug)), plain_errors():
        raise bug


def test_ctrl_c_is_a_line_and_status_130(capsys):
    @plain_errors()
    def command():
        raise KeyboardInterrupt

    for _ in range(2):  # A decorated function can be called again.
        with pytest.raises(SystemExit) as error:
            command()
        assert error.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n" * 2


def test_a_signal_has_its_status_even_if_the_terminal_is_closed(monkeypatch):
    class Closed:
        def write(self, text):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    with pytest.raises(SystemExit) as error, plain_errors():
        raise Stopped(signal.SIGHUP)
    assert error.value.code == 129


def test_a_closed_pipe_is_no_error():
    code = """
from pipelines.cli.errors import plain_errors
with plain_errors():
    while True:
        print("line", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam-sise", "3"], "error: --beam-sise is not an option, did you mean --beam-size?"),
        (["--xyz"], "error: --xyz is not an option. See prog --help."),
        (["one"], "error: 'one' is one argument too many. See prog --help."),
        (["--number", "a"], "error: argument --number: invalid int value: 'a'. See prog --help."),
        ([], "error: give --number. See prog --help."),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, message, capsys):
    parser = Parser(prog="prog")
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--beam-size")
    number = [] if not arguments or "--number" in arguments else ["--number", "1"]
    with pytest.raises(SystemExit) as error:
        parser.parse_args([*number, *arguments])
    assert error.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


@pytest.mark.parametrize("name", ["config.yaml", "model.keras", "vocabulary.model"])
def test_a_damaged_file_of_a_run_is_named_by_every_command(name, run, tmp_path):
    directory = shutil.copytree(run, tmp_path / "run")
    content = (directory / name).read_bytes()
    end = len(content) // 2
    if name.endswith(".yaml"):
        end = content.index(b"\n", end) + 4  # Within the name of a field, as YAML has no end.
    (directory / name).write_bytes(content[:end])
    text = tmp_path / "text"
    text.write_text("a\tb\n", encoding="utf-8")
    for line in (
        failure(translate, "--model", directory, "one"),
        failure(evaluate, "--model", directory, "--source", text),
        failure(export, "--checkpoint", directory, "--output", tmp_path / "model"),
        failure(figures, "--model", directory, "--output", tmp_path / "figures", "one"),
    ):
        assert line.startswith("error: ")
        assert str(directory / name) in line


def test_a_saved_model_without_its_graph_is_named(saved_model, tmp_path):
    model = shutil.copytree(saved_model, tmp_path / "model")
    (model / "1" / "saved_model.pb").unlink()
    for directory in (model, model / "1"):
        line = failure(translate, "--model", directory, "one")
        assert str(directory) in line
        assert "saved_model.pb" in line


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--scores", b"{", "--scores must be a JSON file that pipelines.evaluate --json wrote"),
        ("--scores", b"[]", "--scores must be a JSON file that pipelines.evaluate --json wrote"),
        ("--description", b"\xff", "--description must be UTF-8 text, received"),
        ("--description", None, "No such file or directory"),
    ],
)
def test_a_file_for_the_model_card_is_checked_first(option, content, message, tmp_path):
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    line = failure(export, "--checkpoint", "none", "--output", "x", option, path)
    assert message in line
    assert str(path) in line


def test_an_export_that_cannot_be_written_is_an_error_before_the_work(run, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transformer.export.saved_model.write_graph", None)
    (tmp_path / "file").touch()
    line = failure(export, "--checkpoint", run, "--output", tmp_path / "file" / "model")
    assert f"'{tmp_path}/file/model" in line
    assert line.endswith(". Check the path.")
