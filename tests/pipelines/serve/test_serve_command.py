import re
import shlex
import signal
import socket
import subprocess
import sys

import pytest

from keras_transformer.export.serving_files import write_serving_files
from pipelines import serve
from tests.helpers.programs import program, start_serve, write
from tests.helpers.tiny import run_python


def test_what_cannot_be_served_is_an_error(model):
    with pytest.raises(SystemExit, match="error: .*loads the highest version, .*/10, and not 2. "):
        serve.main(["--model", f"{model}/2", "--dry-run"])


@pytest.mark.parametrize("name", ["en:de", "a/b"])
def test_a_name_must_fit_into_a_url(name, model):
    message = "error: A model name must not contain a colon or a slash"
    with pytest.raises(SystemExit, match=message) as error:
        serve.main(["--model", str(model), "--name", name])
    assert error.value.code == 2


def dry_run(capsys, *arguments):
    serve.main([*map(str, arguments), "--dry-run"])
    out, err = capsys.readouterr()
    assert err == ""
    return shlex.split(out)


REST = "--grpc_max_threads=256 --max_num_load_retries=0 --enable_profiler=false"


def usual_flags(model):
    flags = "--port=8500 --rest_api_port=8501 --rest_api_timeout_in_ms=60000 --model_name=en_de"
    return [*flags.split(), f"--model_base_path={model}", *REST.split()]


def test_the_program_is_given_absolute_paths(model, path, capsys, monkeypatch):
    monkeypatch.chdir(model.parent)
    program(path, "tensorflow_model_server")
    program(path, "docker")  # It has a daemon, but the program takes precedence.
    assert dry_run(capsys, "--model", "en_de") == ["tensorflow_model_server", *usual_flags(model)]


def test_docker_gets_the_model_read_only_and_its_ports(model, path, capsys):
    program(path, "docker", '[ "$1" = version ]')
    write(model / "serving" / "monitoring.config")
    options = ["--engine", "tensorflow", "--port", 70, "--rest-port", 71, "--name", "best"]
    command = "docker run --rm --init --entrypoint tensorflow_model_server --publish=70:70"
    flags = "--port=70 --rest_api_port=71 --rest_api_timeout_in_ms=60000 --model_name=best"
    assert dry_run(capsys, "--model", model, *options) == [
        *command.split(),
        "--publish=71:71",
        f"--mount=type=bind,source={model},target=/model,readonly",
        "tensorflow/serving",
        *f"{flags} --model_base_path=/model {REST}".split(),
        "--monitoring_config_file=/model/serving/monitoring.config",
    ]


def test_without_tensorflows_server_the_one_in_python_runs(model, path, capsys):
    program(path, "docker", '[ "$1" = version ]')
    command = dry_run(capsys, "--model", model, "--threads", 3, "--timeout", 0.5, "--batching")
    start = [sys.executable, "-m", "pipelines.serve", "--engine=python", f"--model={model}"]
    flags = "--name=en_de --host=127.0.0.1 --port=8500 --rest-port=8501 --threads=3 --timeout=0.5"
    assert command == [*start, *flags.split(), "--batching"]
    # The line starts the same server again.
    assert dry_run(capsys, *command[3:]) == command


@pytest.mark.parametrize(
    "options, end",
    [
        ("--no-page", "--no-page"),
        ("--gpu-memory-fraction 0.5", "--gpu-memory-fraction=0.5"),
        ("--allowed-hosts a b --allowed-origins c", "--allowed-hosts a b --allowed-origins c"),
        ("--tls-cert /c --tls-key /k", "--tls-cert=/c --tls-key=/k"),
        ("--api-keys /a", "--api-keys=/a"),
    ],
)
def test_the_line_has_the_options_of_the_one_in_python(options, end, model, path, capsys):
    command = dry_run(capsys, "--model", model, *options.split())
    assert command[-len(end.split()) :] == end.split()
    assert dry_run(capsys, *command[3:]) == command


@pytest.mark.parametrize("option", ["--model-config-file", "--model_config_file"])
def test_a_file_of_models_is_given_to_each_server(option, model, path, capsys, monkeypatch):
    write_serving_files(model, "cpu")
    file = model / "serving" / "models.config"
    monkeypatch.chdir(file.parent)
    command = dry_run(capsys, option, "models.config")
    assert f"--model-config-file={file}" in command
    assert dry_run(capsys, *command[3:]) == command

    program(path, "docker", '[ "$1" = version ]')
    seen = ["--model_config_file_poll_wait_seconds=10"]
    seen += ["--allow_version_labels_for_unavailable_models=true"]
    command = dry_run(capsys, option, "models.config", "--engine", "tensorflow", "--batching")
    for source, target in {file.parent: "/config", model: model}.items():
        assert f"--mount=type=bind,source={source},target={target},readonly" in command
    at = command.index("--model_config_file=/config/models.config")
    assert command[at + 1 : at + 3] == seen
    assert command[-3:-1] == [
        "--enable_batching=true",
        "--enable_per_model_batching_parameters=true",
    ]

    program(path, "tensorflow_model_server")
    command = dry_run(capsys, option, "models.config")
    flags = [flag for flag in usual_flags(model) if not flag.startswith("--model_")]
    flags[3:3] = [f"--model_config_file={file}", *seen]
    assert command == [
        "tensorflow_model_server",
        *flags,
        "--xla_cpu_compilation_enabled=true",
    ]


@pytest.mark.parametrize(
    "options, message",
    [
        ("", "give either --model or --model-config-file"),
        ("--model en_de --model-config-file x", "give either --model or --model-config-file"),
        ("--model-config-file x --name y", "--name is for --model; --model-config-file names"),
        ("--backend http://a --name x --model-config-file y", "--model-config-file is for a model"),
        ("--backend http://a --name x --gpu-memory-fraction 1", "--gpu-memory-fraction is for a m"),
        ("--model x --gpu-memory-fraction 0", "--gpu-memory-fraction must be above 0 and at most"),
        ("--model x --gpu-memory-fraction 1.5", "--gpu-memory-fraction must be above 0 and at mo"),
    ],
)
def test_wrong_options_are_named(options, message, capsys):
    with pytest.raises(SystemExit):
        serve.main(options.split())
    assert capsys.readouterr().err.startswith(f"error: {message}")


@pytest.mark.slow
def test_a_share_of_a_gpu_needs_one(model):
    options = ["--engine", "python", "--model", model, "--gpu-memory-fraction", "0.5"]
    with start_serve(*options) as process:
        line = process.stderr.read().splitlines()[-1]
    assert process.returncode == 2
    assert line.startswith("error: --gpu-memory-fraction needs a GPU, and TensorFlow finds none.")


@pytest.mark.parametrize(
    "option", ["--allowed-hosts", "--allowed-origins", "--gpu-memory-fraction"]
)
def test_what_tensorflows_server_lacks_is_named(option, model, path):
    program(path, "tensorflow_model_server")
    with pytest.raises(SystemExit, match=f"server has no {option}. Leave .* --engine python"):
        serve.main(["--model", str(model), option, "1"])


def test_a_mistake_in_the_file_of_models_is_one_line(path, tmp_path, capfd):
    file = write(tmp_path / "models.config", "model_config_list { config { base_path: 1 } }")
    for given, message in {file: f"{file} must be a ModelServerConfig", "absent": "absent"}.items():
        with pytest.raises(SystemExit):
            serve.main(["--model-config-file", str(given), "--engine", "python"])
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("error: ") and message in line


def test_a_taken_port_is_one_line_that_names_its_option():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = ["--backend", "http://localhost:1", "--name", "x", "--rest-port", port]
        with start_serve(*options) as process:
            (line,) = process.stderr.read().splitlines()
    assert process.returncode == 1
    assert line.startswith(f"error: cannot listen on 127.0.0.1, port {port}: ")
    assert line.endswith("Give another --rest-port or --host.")


def test_docker_takes_the_place_of_missing_packages(model, path, capsys, monkeypatch):
    program(path, "docker", '[ "$1" = version ]')
    monkeypatch.setattr(serve, "PACKAGES", ("starlette", "no_such_package"))
    assert dry_run(capsys, "--model", model)[:2] == ["docker", "run"]
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="models that Docker mounts. Install the .serve. extra"):
        serve.main(["--model-config-file", str(model), "--dry-run"])


@pytest.mark.parametrize(
    "host, published", [("10.0.0.7", "10.0.0.7:70:70"), ("::1", "[::1]:70:70")]
)
def test_docker_publishes_at_the_given_address(host, published, model, path, capsys):
    program(path, "docker", '[ "$1" = version ]')
    options = ["--engine", "tensorflow", "--port", 70, "--rest-port", 71, "--host", host]
    command = dry_run(capsys, "--model", model, *options)
    assert f"--publish={published}" in command
    assert f"--publish={published.replace('70', '71')}" in command


def test_the_program_takes_no_address(model, path):
    program(path, "tensorflow_model_server")
    with pytest.raises(SystemExit, match="listens on all addresses.* --engine python"):
        serve.main(["--model", str(model), "--host", "127.0.0.1"])


def test_without_the_packages_of_the_extra_the_error_names_it(model, path, monkeypatch):
    monkeypatch.setattr(serve, "PACKAGES", ("starlette", "no_such_package"))
    with pytest.raises(SystemExit, match=r"pip install 'keras-transformer-mt\[serve\]'"):
        serve.main(["--model", str(model)])


@pytest.mark.parametrize("docker", [None, "echo Cannot connect to the Docker daemon >&2; exit 1"])
def test_without_a_server_the_error_says_how_to_install_one(docker, model, path, capfd):
    if docker:
        program(path, "docker", docker)
    with pytest.raises(SystemExit) as error:
        serve.main(["--model", str(model), "--engine", "tensorflow"])
    message = error.value.code
    missing = "error: There is no model server: tensorflow_model_server is not on PATH"
    assert message.startswith(missing) and "\n" not in message
    for way in ("image tensorflow/serving", "package tensorflow-model-server", "https://"):
        assert way in message
    assert capfd.readouterr() == ("", "")
    command = dry_run(capfd, "--model", model, "--engine", "tensorflow")
    assert command[0] == "tensorflow_model_server"


# Prints its process id and arguments, waits for a signal, and reports it.
WAITING = """\
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: sys.exit(f"got {signal.Signals(number).name}"))
print(os.getpid(), *sys.argv[1:], sep="\\n", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_replaces_the_process_and_receives_its_signals(number, model, path):
    waiting = write(path / "waiting.py", WAITING)
    program(path, "tensorflow_model_server", f'exec "{sys.executable}" "{waiting}" "$@"')
    options = ["--model", model, "--threads", "3"]
    with start_serve(*options, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline()) == process.pid
        received = [process.stdout.readline().rstrip("\n") for _ in range(9)]
        process.send_signal(number)
        err = process.stderr.read()
    assert received == [*usual_flags(model), "--tensorflow_intra_op_parallelism=3"]
    assert re.fullmatch(
        rf"Serving {model} as en_de, version 10: REST at port 8501, gRPC at port 8500, "
        rf"on all addresses. The ports open once .* minute or two.\ngot {number.name}\n",
        err,
    )


def test_serving_needs_no_tensorflow(model):
    command = ["-X", "importtime", "-m", "pipelines.serve", "--model", model, "--dry-run"]
    process = run_python(*command, "--engine", "tensorflow")
    assert "--model_name=en_de" in process.stdout
    assert "argparse" in process.stderr
    assert not re.search(r"\b(tensorflow|keras|numpy)$", process.stderr, re.MULTILINE)
