"""The command line of TensorFlow's model server, as a program or in Docker."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = "tensorflow_model_server"
IMAGE = "tensorflow/serving"
HOW_TO_INSTALL = f"""\
error: There is no model server: {PROGRAM} is not on PATH, and there is no Docker with a running \
daemon. Either start Docker, which downloads the image {IMAGE}, or install the package \
tensorflow-model-server (Debian and Ubuntu on x86-64) from the APT repository \
"deb http://storage.googleapis.com/tensorflow-serving-apt stable tensorflow-model-server"; see \
https://www.tensorflow.org/tfx/serving/setup. Or give --engine python."""

_GRPC_THREADS = 256
"""gRPC requests that may wait for an answer. The server's own limit is 4 per core."""


def server_flags(
    version: Path, seen_at: Path, *, name: str, batching: bool, **usual: Any
) -> list[str]:
    """Return the arguments of the model server.

    Args:
        version: The version directory that is loaded first, on this machine.
        seen_at: The directory above it, as the server sees it.
        name: Model name in requests.
        batching: Whether to join requests, as the model's files say.
        usual: The arguments of `usual_flags`.
    """
    from keras_transformer.config.record import ExportRecord

    which = [f"--model_name={name}", f"--model_base_path={seen_at}"]
    flags = usual_flags(which, **usual)
    serving = version.parent / "serving"
    # A version's own file sets the size of its batches; the shared one then only sets the number
    # of threads that run them.
    own, common = version / "batching_params.pbtxt", serving / "batching.config"
    if batching:
        flags.append("--enable_batching=true")
    if batching and own.exists():
        flags.append("--enable_per_model_batching_parameters=true")
    if batching and common.exists():
        flags.append(f"--batching_parameters_file={seen_at / 'serving' / common.name}")
    monitoring = serving / "monitoring.config"
    if monitoring.exists():
        flags.append(f"--monitoring_config_file={seen_at / 'serving' / monitoring.name}")
    if (version / ExportRecord.FILE).exists() and ExportRecord.read(version).compiled:
        # Without it the warm-up fails, and the server does not load the model.
        flags.append("--xla_cpu_compilation_enabled=true")
    return flags


def config_flags(file: str, *, batching: bool, **usual: Any) -> list[str]:
    """Return the arguments of the model server for the models of a file.

    Args:
        file: The file, as the server sees it.
        batching: Whether to join requests, as the models' files say.
        usual: The arguments of `usual_flags`.
    """
    which = [
        f"--model_config_file={file}",
        "--model_config_file_poll_wait_seconds=10",  # By default, it is read once.
        # A label can only be set when the server has its version, and it reads labels first.
        "--allow_version_labels_for_unavailable_models=true",
    ]
    flags = usual_flags(which, **usual)
    if batching:
        flags += ["--enable_batching=true", "--enable_per_model_batching_parameters=true"]
    return [*flags, "--xla_cpu_compilation_enabled=true"]  # A model of the file may be compiled.


def usual_flags(
    which: Sequence[str], *, port: int, rest_port: int, threads: int, timeout: float
) -> list[str]:
    """Return the arguments of the model server that any model needs.

    Args:
        which: Those that name the models.
        port: Port for gRPC.
        rest_port: Port for REST.
        threads: Threads per operation; 0 for one per core.
        timeout: Seconds for a REST request.
    """
    flags = [
        f"--port={port}",
        f"--rest_api_port={rest_port}",
        f"--rest_api_timeout_in_ms={round(1000 * timeout)}",
        *which,
        f"--grpc_max_threads={_GRPC_THREADS}",
        # Otherwise a model that does not load is tried for five minutes, without an open port.
        "--max_num_load_retries=0",
        "--enable_profiler=false",  # By default, anyone who can reach the port may profile.
    ]
    return flags + ([f"--tensorflow_intra_op_parallelism={threads}"] if threads else [])


def docker_command(
    mounts: Mapping[Path, str],
    ports: Sequence[int],
    flags: Sequence[str],
    host: str | None = None,
) -> list[str]:
    """Return the command that runs the server in Docker.

    Args:
        mounts: Directories of this machine, and where the server sees them.
        ports: The ports to publish.
        flags: The server's arguments.
        host: The address to publish the ports at; None for all addresses.
    """
    at = "" if host is None else f"[{host}]:" if ":" in host else f"{host}:"
    return [
        *("docker", "run", "--rm"),
        # An init process passes signals on to the server; the shell of the image does not.
        *("--init", "--entrypoint", PROGRAM),
        *(f"--publish={at}{port}:{port}" for port in ports),
        *(f"--mount=type=bind,source={one},target={at},readonly" for one, at in mounts.items()),
        IMAGE,
        *flags,
    ]


def docker_runs() -> bool:
    """Return whether there is a Docker client with a running daemon."""
    if shutil.which("docker") is None:
        return False
    server = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(server, capture_output=True).returncode == 0
