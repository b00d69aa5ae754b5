"""Serve an exported model with TensorFlow's model server, as a program or in Docker.

Usage:
    python -m pipelines.serve --model saved_models/quickstart
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "tensorflow_model_server"
IMAGE = "tensorflow/serving"
HOW_TO_INSTALL = f"""\
error: There is no model server: no {PROGRAM} on PATH, and no Docker with a running daemon. Either \
start Docker, which fetches the image {IMAGE} by itself, or install the package \
tensorflow-model-server (Debian and Ubuntu on x86-64) from the APT repository \
"deb http://storage.googleapis.com/tensorflow-serving-apt stable tensorflow-model-server", as \
https://www.tensorflow.org/tfx/serving/setup says."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="saved_models/NAME, from pipelines.export")
    parser.add_argument("--name", help="in requests; by default that of the model's directory")
    parser.add_argument("--port", type=int, default=8500, help="for gRPC (default 8500)")
    parser.add_argument("--rest-port", type=int, default=8501, help="for REST (default 8501)")
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="of one request's operation; as many as cores by default, and 1 is often faster where "
        "there are several requests at a time",
    )
    parser.add_argument(
        "--timeout", type=float, default=60, help="seconds for a REST request (default 60)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the server's command line, and do not run it"
    )
    args = parser.parse_args(argv)
    if args.port == args.rest_port:
        parser.error("--port and --rest-port must differ")
    try:
        version = find_version(args.model)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")

    base = version.parent
    name = args.name or base.name
    if set(name) & set(":/"):
        sys.exit(
            f"error: A name must have no colon or slash, received {name}. Give another --name."
        )
    in_docker = shutil.which(PROGRAM) is None and docker_runs()
    flags = server_flags(
        version,
        Path("/model") if in_docker else base,
        name=name,
        port=args.port,
        rest_port=args.rest_port,
        threads=args.threads,
        timeout=args.timeout,
    )
    ports = args.port, args.rest_port
    command = docker_command(base, ports, flags) if in_docker else [PROGRAM, *flags]
    if args.dry_run:
        print(shlex.join(command))
        return
    if shutil.which(command[0]) is None:
        sys.exit(HOW_TO_INSTALL)
    print(
        f"Serving {base} as {name}, now version {version.name}: REST at localhost:"
        f"{args.rest_port}, gRPC at localhost:{args.port}.",
        file=sys.stderr,
        flush=True,
    )
    os.execvp(command[0], command)  # In this process, so that signals reach the server.


def find_version(model: str | os.PathLike) -> Path:
    """Return the version, an absolute path, that a server of a model's directory loads first.

    Args:
        model: the directory over the versions, or that of the highest version itself.

    Raises:
        FileNotFoundError: there is no SavedModel where the server looks for one.
        ValueError: `model` is a SavedModel that the server would not load.
    """
    path = Path(os.path.abspath(model))  # A link keeps its name.
    is_version = (path / "saved_model.pb").exists()
    if is_version and not _is_number(path.name):
        raise ValueError(
            f"{path} is a SavedModel, but its directory has no number for a name, and the server "
            f"takes the directory over numbered ones. Move it to {path / '1'}."
        )
    base = path.parent if is_version else path
    children = base.iterdir() if base.is_dir() else ()
    version = max(
        (child for child in children if _is_number(child.name)),
        key=lambda child: int(child.name),
        default=None,
    )
    if version is None:
        raise FileNotFoundError(
            f"There is no model in {path}: expected {path / '1' / 'saved_model.pb'} or a higher "
            "number. Write one with python -m pipelines.export --output, and give the same here."
        )
    if not (version / "saved_model.pb").exists():
        raise FileNotFoundError(
            f"{version} has no saved_model.pb, and the server loads the highest number. Remove or "
            "rename that directory."
        )
    if is_version and path != version:
        raise ValueError(
            f"The server loads the highest version, {version}, and not {path.name}. Give --model "
            f"{base} to serve that, or move {path.name} to a directory of its own, NAME/1."
        )
    return version


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def server_flags(
    version: Path,
    seen_at: Path,
    *,
    name: str,
    port: int,
    rest_port: int,
    threads: int,
    timeout: float,
) -> list[str]:
    """Return the server's arguments for a model and for the files that came with it.

    Args:
        version: the directory of the version that is loaded first.
        seen_at: where the server finds the directory over it.
        name: of the model, in requests.
        port: for gRPC.
        rest_port: for REST.
        threads: of an operation, while other requests have their own; 0 for as many as cores.
        timeout: seconds for a REST request.
    """
    flags = [
        f"--port={port}",
        f"--rest_api_port={rest_port}",
        f"--rest_api_timeout_in_ms={round(1000 * timeout)}",
        f"--model_name={name}",
        f"--model_base_path={seen_at}",
        "--enable_profiler=false",  # By default anybody who reaches the port may profile.
    ]
    if threads:
        flags.append(f"--tensorflow_intra_op_parallelism={threads}")
    serving = version.parent / "serving"
    # A version's own file says how large its batches are, the common one then only how many
    # threads run them.
    own, common = version / "batching_params.pbtxt", serving / "batching.config"
    if own.exists() or common.exists():
        flags.append("--enable_batching=true")
    if own.exists():
        flags.append("--enable_per_model_batching_parameters=true")
    if common.exists():
        flags.append(f"--batching_parameters_file={seen_at / 'serving' / common.name}")
    monitoring = serving / "monitoring.config"
    if monitoring.exists():
        flags.append(f"--monitoring_config_file={seen_at / 'serving' / monitoring.name}")
    export = version / "assets.extra" / "export.json"
    if export.exists() and json.loads(export.read_text(encoding="utf-8")).get("compiled"):
        # Without it the warm-up fails, and a compiled model is not loaded.
        flags.append("--xla_cpu_compilation_enabled=true")
    return flags


def docker_command(base: Path, ports: Sequence[int], flags: Sequence[str]) -> list[str]:
    """Return the command that runs the server on a model's directory, which it sees as /model."""
    return [
        *("docker", "run", "--rm"),
        # The server as its child gets the signals, which the image's own shell would keep.
        *("--init", "--entrypoint", PROGRAM),
        *(f"--publish={port}:{port}" for port in ports),
        f"--mount=type=bind,source={base},target=/model,readonly",
        IMAGE,
        *flags,
    ]


def docker_runs() -> bool:
    """Return whether there is a Docker client, and a daemon that answers it."""
    if shutil.which("docker") is None:
        return False
    server = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(server, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
