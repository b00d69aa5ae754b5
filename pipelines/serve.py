"""Serve an exported model with TensorFlow's model server, as a program or in Docker.

Usage:
    python -m pipelines.serve --model saved_models/quickstart
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser

PROGRAM = "tensorflow_model_server"
IMAGE = "tensorflow/serving"
HOW_TO_INSTALL = f"""\
error: There is no model server: {PROGRAM} is not on PATH, and there is no Docker with a running \
daemon. Either start Docker, which downloads the image {IMAGE}, or install the package \
tensorflow-model-server (Debian and Ubuntu on x86-64) from the APT repository \
"deb http://storage.googleapis.com/tensorflow-serving-apt stable tensorflow-model-server"; see \
https://www.tensorflow.org/tfx/serving/setup."""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.serve") -> None:
    from keras_transformer.export import find_served_version
    from keras_transformer.utils.checksums import check_files

    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="saved_models/NAME, from pipelines.export")
    parser.add_argument("--name", help="model name in requests (default: that of the directory)")
    parser.add_argument(
        "--port", type=int, default=8500, metavar="N", help="gRPC port (default 8500)"
    )
    parser.add_argument(
        "--rest-port", type=int, default=8501, metavar="N", help="REST port (default 8501)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads per operation (default: one per core); 1 is often faster for several "
        "requests at a time",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60,
        metavar="SECONDS",
        help="timeout of a REST request (default 60)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the server's command line without running it"
    )
    args = parser.parse_args(argv)
    if args.port == args.rest_port:
        parser.error("--port and --rest-port must differ")
    version = find_served_version(args.model)
    check_files(version)
    base = version.parent
    name = args.name or base.name
    if set(name) & set(":/"):
        sys.exit(
            f"error: A model name must not contain a colon or a slash, received {name}. Give "
            "another --name."
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
        f"Serving {base} as {name}, version {version.name}: REST at localhost:{args.rest_port}, "
        f"gRPC at localhost:{args.port}.",
        file=sys.stderr,
        flush=True,
    )
    os.execvp(command[0], command)  # Replaces this process, so that signals reach the server.


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
    """Return the arguments of the model server.

    Args:
        version: The version directory that is loaded first, on this machine.
        seen_at: The directory above it, as the server sees it.
        name: Model name in requests.
        port: Port for gRPC.
        rest_port: Port for REST.
        threads: Threads per operation; 0 for one per core.
        timeout: Seconds for a REST request.
    """
    from keras_transformer.export import ExportRecord

    flags = [
        f"--port={port}",
        f"--rest_api_port={rest_port}",
        f"--rest_api_timeout_in_ms={round(1000 * timeout)}",
        f"--model_name={name}",
        f"--model_base_path={seen_at}",
        "--enable_profiler=false",  # By default, anyone who can reach the port may profile.
    ]
    if threads:
        flags.append(f"--tensorflow_intra_op_parallelism={threads}")
    serving = version.parent / "serving"
    # A version's own file sets the size of its batches; the shared one then only sets the number
    # of threads that run them.
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
    if (version / ExportRecord.FILE).exists() and ExportRecord.read(version).compiled:
        # Without it the warm-up fails, and the server does not load the model.
        flags.append("--xla_cpu_compilation_enabled=true")
    return flags


def docker_command(base: Path, ports: Sequence[int], flags: Sequence[str]) -> list[str]:
    """Return the command that runs the server in Docker, with the model's directory as /model."""
    return [
        *("docker", "run", "--rm"),
        # An init process passes signals on to the server; the shell of the image does not.
        *("--init", "--entrypoint", PROGRAM),
        *(f"--publish={port}:{port}" for port in ports),
        f"--mount=type=bind,source={base},target=/model,readonly",
        IMAGE,
        *flags,
    ]


def docker_runs() -> bool:
    """Return whether there is a Docker client with a running daemon."""
    if shutil.which("docker") is None:
        return False
    server = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(server, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
