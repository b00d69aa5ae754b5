"""The program `keras-transformer`, and what all commands share."""

import importlib
import os
import signal
import subprocess
import sys
import time

import pytest

from pipelines import main, translate
from pipelines.cli.process import import_tensorflow
from tests.helpers.tiny import ROOT, run_python

MODULES = [*main.COMMANDS.values(), "pipelines.main"]


@pytest.mark.parametrize("options", [[], ["--help"], ["-h"]])
def test_help_lists_each_command_with_a_line(options, capsys):
    main.main(options)
    printed = capsys.readouterr().out
    for name, module in main.COMMANDS.items():
        about = importlib.import_module(module).__doc__.split("\n")[0]
        assert f"\n  {name:<18}{about}\n" in printed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("trian", "error: trian is not a command, did you mean train? See keras-tra"),
        ("xyz", "error: xyz is not a command; choose from quickstart, import, import_marian, "),
    ],
)
def test_a_mistyped_command_is_answered_in_a_line(given, message, capsys):
    with pytest.raises(SystemExit) as error:
        main.main([given, "--output", "x"])
    assert error.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


def test_the_version_is_printed(capsys):
    from keras_transformer import __version__

    main.main(["--version"])
    assert capsys.readouterr().out == f"keras-transformer {__version__}\n"


@pytest.mark.parametrize("name", main.COMMANDS)
def test_usage_names_the_program_that_was_called(name, capsys):
    module = importlib.import_module(main.COMMANDS[name])
    for call, program in (
        (lambda: main.main([name, "--help"]), f"keras-transformer {name}"),
        (lambda: module.main(["--help"]), f"python -m pipelines.{name}"),
    ):
        with pytest.raises(SystemExit) as error:
            call()
        assert error.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: {program} [")


def test_arguments_reach_the_command(monkeypatch):
    calls = []
    monkeypatch.setattr(translate, "main", lambda argv, prog: calls.append((argv, prog)))
    main.main(["translate", "--model", "x", "--help"])
    assert calls == [(["--model", "x", "--help"], "keras-transformer translate")]


def test_help_imports_no_framework():
    code = """
import contextlib, importlib, io, sys
for name in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module(name).main(["--help"])
    slow = {"tensorflow", "keras", "numpy", "jax", "torch", "matplotlib"} & set(sys.modules)
    assert not slow, f"{name}: {slow}"
"""
    run_python("-c", code, *MODULES)


def test_importing_a_command_changes_nothing():
    code = """
import importlib, os, sys
def state():
    files = {name: os.path.realpath(f"/proc/self/fd/{name}") for name in (0, 1, 2)}
    return dict(os.environ), files, len(os.listdir("/proc/self/fd"))
before = state()
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert state() == before, name
assert "tensorflow" not in sys.modules
"""
    run_python("-c", code, "pipelines", "pipelines.cli", *MODULES)


@pytest.mark.parametrize(
    ("training", "given", "expected"),
    [(True, None, ["1", "true"]), (True, "0", ["0", "0"]), (False, None, [None, "true"])],
)
def test_onednn_and_the_growth_of_gpu_memory_are_on_unless_the_environment_decides(
    training, given, expected, monkeypatch
):
    names = "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH"
    for name in names:
        monkeypatch.delenv(name, raising=False)
        if given:
            monkeypatch.setenv(name, given)
    seen = []
    monkeypatch.setattr(
        "keras_transformer.utils.quiet_start.import_tensorflow_quietly",
        lambda: seen.extend(map(os.environ.get, names)),
    )
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    import_tensorflow(training=training)
    assert seen == expected


@pytest.mark.slow
def test_tensorflow_is_imported_without_its_report():
    code = """
import os, sys
from keras_transformer.utils.quiet_start import import_tensorflow_quietly
import_tensorflow_quietly()
print("tensorflow" in sys.modules)
os.write(2, b"the descriptor is back")
"""
    process = run_python("-c", code)
    assert process.stdout == "True\n"
    assert process.stderr == "the descriptor is back"


@pytest.mark.parametrize("name", [name for name in main.COMMANDS if name != "serve"])
def test_ctrl_c_ends_a_command_with_a_line_while_it_imports(name, tmp_path):
    # The package that the command imports first waits for the signal.
    package = "urllib3" if name == "client" else "tensorflow"
    waiting = 'import time\nprint("waiting", flush=True)\ntime.sleep(60)\n'
    (tmp_path / f"{package}.py").write_text(waiting, encoding="utf-8")
    text = tmp_path / "text"
    text.write_text("a\tb\n", encoding="utf-8")
    data = f"--data.train_source {text} --data.validation_source {text}"
    options = {
        "quickstart": "",
        "import": "x --output y",
        "import_marian": "--model x --output y",
        "plan": f"--source {text} --target {text} --validation-source {text} "
        f"--validation-target {text} --output {tmp_path}/plan.yaml",
        "train": f"--preset tiny --output {tmp_path}/run {data}",
        "prepare": f"--preset tiny --output {tmp_path}/run {data}",
        "split": f"--source {text} --output x",
        "evaluate": f"--model x --source {text}",
        "translate": "--model x one",
        "translate_corpus": f"--model x --input {text} --output {tmp_path}/out",
        "parse": "--model x one",
        "figures": "--model x --output y one",
        "export": "--checkpoint x --output y",
        "client": "--model x one",
    }
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    process = subprocess.Popen(
        # A test run in the background would pass on that it ignores the signal.
        ["env", "--default-signal=INT", sys.executable, "-m", "pipelines.main"]
        + [name, *options[name].split()],
        env=environment | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    with process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
    assert process.returncode == 130
    (line,) = err.splitlines()
    assert line.startswith("Interrupted")
