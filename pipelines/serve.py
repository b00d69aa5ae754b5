"""Serve an exported model with TensorFlow's model server, or with one in Python.

Usage:
    python -m pipelines.serve --model saved_models/quickstart
    python -m pipelines.serve --model-config-file models.config
    python -m pipelines.serve --backend http://localhost:8501 --name quickstart
"""

import argparse
import importlib.util
import ipaddress
import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pipelines.cli.errors import MISTAKE, Failed, plain_errors
from pipelines.cli.model_server import (
    HOW_TO_INSTALL,
    PROGRAM,
    config_flags,
    docker_command,
    docker_runs,
    server_flags,
)
from pipelines.cli.parser import Parser, option_of
from pipelines.cli.process import prepare_tensorflow, start_log, take_gpu_memory_as_needed

if TYPE_CHECKING:
    from keras_transformer.serving.settings import WebSettings

PACKAGES = "babel grpc_health prometheus_client starlette tensorflow_serving uvicorn".split()
NO_SERVER = f"""\
error: There is no model server: {PROGRAM} is not on PATH, and the one in Python needs more \
packages. Install its [serve] extra: pip install 'keras-transformer-mt[serve]'. Or start Docker, \
and leave --engine out."""
NO_PAGE = """\
error: The page needs more packages. Install the [serve] extra: \
pip install 'keras-transformer-mt[serve]'."""
NO_CONFIG = """\
error: --model-config-file needs more packages to find the models that Docker mounts. Install the \
[serve] extra: pip install 'keras-transformer-mt[serve]'."""
_ONLY_SERVER = (
    "engine port threads batching no_page dry_run model_config_file gpu_memory_fraction api_keys"
).split()
_ONLY_PYTHON = "allowed_hosts allowed_origins tls_cert tls_key gpu_memory_fraction api_keys".split()
_ALL = ("0.0.0.0", "::")
_REST_PORT, _PAGE_PORT = 8501, 8080


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.serve") -> None:
    from keras_transformer.utils.versions import find_served_version

    args = _parse(argv, prog)
    version = find_served_version(args.model) if args.model else None
    name = args.name or (version.parent.name if version else "")
    if set(name) & set(":/"):
        _refuse(
            f"A model name must not contain a colon or a slash, received {name}. Give "
            "another --name."
        )
    if args.backend:
        run_page(args, version, name)
        return
    engine = args.engine
    if engine == "auto":
        tensorflow = shutil.which(PROGRAM) or (not _has_packages() and docker_runs())
        engine = "tensorflow" if tensorflow else "python"
    given = [option for option in _ONLY_PYTHON if getattr(args, option)]
    if engine == "tensorflow" and given:
        option = option_of(given[0])
        _refuse(f"TensorFlow's server has no {option}. Leave it out, or give --engine python.")
    (run_tensorflow if engine == "tensorflow" else run_python)(args, version, name)


def _refuse(mistake: str) -> NoReturn:
    raise Failed(f"error: {mistake}", MISTAKE)


def _parse(argv: Sequence[str] | None, prog: str) -> argparse.Namespace:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="saved_models/NAME, from pipelines.export")
    parser.add_argument(
        "--model-config-file",
        "--model_config_file",
        type=Path,
        metavar="FILE",
        help="file with several models, their versions and labels, in the format of TensorFlow "
        "Serving, instead of --model; it is read again when it changes",
    )
    parser.add_argument("--name", help="model name in requests (default: the directory's name)")
    parser.add_argument(
        "--engine",
        choices=["auto", "tensorflow", "python"],
        default="auto",
        help=f"tensorflow: {PROGRAM}, or its Docker image; python: the server of this package, "
        f"which needs the [serve] extra and has a web page at its REST port; auto "
        f"(default): {PROGRAM} if it is on PATH, else python; Docker if the extra is not installed",
    )
    parser.add_argument(
        "--no-page", action="store_true", help="leave out the page of --engine python"
    )
    parser.add_argument(
        "--backend",
        metavar="URL",
        help="serve only the page, at --rest-port, in front of a model server that runs already; "
        "URL is its REST address, such as http://localhost:8501. Give --name, the model's name "
        "there, or --model, whose card the page then shows",
    )
    _add_network_options(parser)
    parser.add_argument(
        "--batching",
        action="store_true",
        help="join requests of several clients, as batching_params.pbtxt and serving/"
        "batching.config of the model say",
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
        "--gpu-memory-fraction",
        type=float,
        metavar="F",
        help="share of a GPU's memory that all models of --engine python may take together, such "
        "as 0.5 (default: what is free, as it is needed)",
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
    if args.rest_port is None:
        args.rest_port = _REST_PORT if args.backend is None else _PAGE_PORT
    _check_options(parser, args)
    return args


def _add_network_options(parser: Parser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument(
        "--host",
        help="address to listen on (default 127.0.0.1, this machine only); TensorFlow's server "
        "listens on all addresses, and takes this option in Docker only",
    )
    group.add_argument(
        "--allowed-hosts",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names by which clients reach --engine python or the page, besides IP addresses and "
        "the names of this machine; patterns such as *.example.com, or * for any",
    )
    group.add_argument(
        "--allowed-origins",
        nargs="+",
        default=[],
        metavar="ORIGIN",
        help="web pages elsewhere that may use --engine python or the page (CORS), such as "
        "https://example.com; * for any",
    )
    group.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="certificate chain in PEM format: REST, gRPC and the page of --engine python use TLS",
    )
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")
    group.add_argument(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help="keys for LibreTranslate's API of --engine python, one a line, of which each request "
        "must have one; the other APIs ask for none",
    )
    group.add_argument(
        "--port", type=int, default=8500, metavar="N", help="gRPC port (default 8500)"
    )
    group.add_argument(
        "--rest-port",
        type=int,
        metavar="N",
        help=f"REST port (default {_REST_PORT}; with --backend, {_PAGE_PORT})",
    )


def _check_options(parser: Parser, args: argparse.Namespace) -> None:
    if args.backend is not None:
        _check_backend(parser, args)
    elif bool(args.model) == bool(args.model_config_file):
        parser.error("give either --model or --model-config-file")
    if args.model_config_file and args.name:
        parser.error("--name is for --model; --model-config-file names its models")
    if args.engine == "tensorflow" and args.no_page:
        parser.error("--no-page is for --engine python; TensorFlow's server has no page")
    if args.port == args.rest_port and args.backend is None:
        parser.error("--port and --rest-port must differ")
    for option, port in {"--port": args.port, "--rest-port": args.rest_port}.items():
        if not 1 <= port <= 65535:
            parser.error(f"{option} must be between 1 and 65535, received {port}")
    if bool(args.tls_cert) != bool(args.tls_key):
        parser.error("give both --tls-cert and --tls-key, or neither")
    if args.timeout <= 0 or args.threads < 0:
        parser.error("--timeout must be positive, and --threads must not be negative")
    fraction = args.gpu_memory_fraction
    if fraction is not None and not 0 < fraction <= 1:
        parser.error(f"--gpu-memory-fraction must be above 0 and at most 1, received {fraction:g}")


def _check_backend(parser: Parser, args: argparse.Namespace) -> None:
    from keras_transformer.serving.settings import split_address

    try:
        host, port = split_address(args.backend)
    except ValueError as error:
        parser.error(str(error))
    if not (args.name or args.model):
        parser.error("--backend needs --name, the name of the model there, or --model")
    for name in _ONLY_SERVER:
        if getattr(args, name) != parser.get_default(name):
            parser.error(
                f"{option_of(name)} is for a model server, and --backend serves only the page"
            )
    if port == args.rest_port and (host == args.host or _is_local(host)):
        parser.error(
            f"--backend must be another server, and port {port} of this machine is that of the "
            "page. Give another --rest-port"
        )


def _is_local(host: str) -> bool:
    """Return whether a host is this machine, as far as its name or address says.

    >>> [_is_local(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "10.0.0.1")]
    [True, True, True, True, False]
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".") == "localhost"
    return address.is_loopback or address.is_unspecified


def run_tensorflow(args: argparse.Namespace, version: Path | None, name: str) -> None:
    """Replace this process by TensorFlow's model server, so that signals reach it.

    Args:
        args: The command's options.
        version: The version directory that is loaded first; None for the models of a file.
        name: The model's name in requests.
    """
    from keras_transformer.utils.checksums import check_files

    in_docker = shutil.which(PROGRAM) is None and docker_runs()
    if args.host is not None and not in_docker:
        _refuse(
            f"{PROGRAM} listens on all addresses, received --host {args.host}. Leave it out, or "
            "give --engine python."
        )
    if version:
        check_files(version)
    names = "port rest_port threads timeout batching".split()
    options = {name: getattr(args, name) for name in names}
    if version:
        base = version.parent
        mounts = {base: "/model"}
        flags = server_flags(version, Path("/model") if in_docker else base, name=name, **options)
    else:
        file = Path(os.path.abspath(args.model_config_file))
        mounts = {file.parent: "/config", **_bases(file)} if in_docker else {}
        flags = config_flags(f"/config/{file.name}" if in_docker else str(file), **options)
    ports = args.port, args.rest_port
    command = docker_command(mounts, ports, flags, args.host) if in_docker else [PROGRAM, *flags]
    if args.dry_run:
        print(shlex.join(command))
        return
    if shutil.which(command[0]) is None:
        sys.exit(HOW_TO_INSTALL)
    _announce(args, version, name, args.host or _ALL[0])
    take_gpu_memory_as_needed()
    os.execvp(command[0], command)


def _bases(file: Path) -> dict[Path, str]:
    """Return the directories of a file's models, which Docker mounts at the same paths."""
    from keras_transformer.serving.settings import parse_text

    if importlib.util.find_spec("tensorflow_serving") is None:
        sys.exit(NO_CONFIG)
    models = parse_text(file.read_bytes(), file).model_config_list.config
    return {Path(model.base_path): model.base_path for model in models}


def run_python(args: argparse.Namespace, version: Path | None, name: str) -> None:
    """Run the server of this package, until a signal ends it; see `run_tensorflow`."""
    if args.dry_run:
        print(shlex.join(_own_command(args, version and version.parent, name)))
        return
    if not _has_packages():
        sys.exit(NO_SERVER)
    from keras_transformer.serving.settings import (
        ModelConfig,
        Settings,
        parse_model_config,
        read_keys,
    )

    file: Path | None = args.model_config_file
    with plain_errors(status=MISTAKE):
        settings = Settings(
            models=parse_model_config(file.read_bytes(), file)
            if file
            else [ModelConfig(name=name, base=version.parent)],
            model_config_file=file,
            page=not args.no_page,
            api_keys=read_keys(args.api_keys) if args.api_keys else (),
            port=args.port,
            threads=args.threads,
            batching=args.batching,
            gpu_memory_fraction=args.gpu_memory_fraction,
            **_web_settings(args),
        )
    _end_on_signals()
    _announce(args, version, name, settings.host)
    from keras_transformer.utils.memory import share_arenas

    share_arenas(2)
    prepare_tensorflow()
    from keras_transformer.serving.server import Server
    from keras_transformer.serving.session import configure, has_gpu

    configure(settings.threads, settings.gpu_memory_fraction)
    if args.gpu_memory_fraction and not has_gpu():
        _refuse("--gpu-memory-fraction needs a GPU, and TensorFlow finds none. Leave it out.")
    _serve(lambda: Server(settings), lambda: None if args.no_page else _invite(settings))


def _web_settings(args: argparse.Namespace) -> dict[str, Any]:
    names = ("rest_port", "timeout", "allowed_hosts", "allowed_origins", "tls_cert", "tls_key")
    return {"host": args.host or "127.0.0.1", **{name: getattr(args, name) for name in names}}


def run_page(args: argparse.Namespace, version: Path | None, name: str) -> None:
    """Run the page in front of another server, until a signal ends it.

    The card of `version` is shown, until its directory has a higher one.
    """
    if not _has_packages():
        sys.exit(NO_PAGE)
    _end_on_signals()
    from keras_transformer.serving.backend import PageServer
    from keras_transformer.serving.settings import PageSettings

    settings = PageSettings(
        backend=args.backend,
        name=name,
        base=version.parent if version else None,
        **_web_settings(args),
    )
    _serve(lambda: PageServer(settings), lambda: _invite(settings))


def _serve(make_server: Callable[[], Any], invite: Callable[[], None]) -> NoReturn:
    from keras_transformer.serving.http import serve

    start_log()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # Clients that have gone.
    serve(make_server, invite)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # A usual exit would wait for runs of the model whose clients have gone.


def _invite(settings: "WebSettings") -> None:
    host, scheme = settings.host, "https" if settings.tls_cert else "http"
    where = "localhost" if host in _ALL else f"[{host}]" if ":" in host else host
    print(
        f"Open {scheme}://{where}:{settings.rest_port}/ in a browser to try it.",
        file=sys.stderr,
        flush=True,
    )


def _end_on_signals() -> None:
    """End at once until the server takes signals, and after the first that it took.

    As process 1 too, for which the system has no default.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: os._exit(128 + number))


def _announce(args: argparse.Namespace, version: Path | None, name: str, host: str) -> None:
    at = f"REST at {host}:{args.rest_port}, gRPC at {host}:{args.port}"
    if host in _ALL:
        at = f"REST at port {args.rest_port}, gRPC at port {args.port}, on all addresses"
    what = f"the models of {args.model_config_file}"
    if version:
        what = f"{version.parent} as {name}, version {version.name}"
    print(
        f"Serving {what}: {at}. The ports open once every model is loaded and its warm-up requests "
        "are done, which can take a minute or two.",
        file=sys.stderr,
        flush=True,
    )


def _has_packages() -> bool:
    return None not in map(importlib.util.find_spec, PACKAGES)


def _own_command(args: argparse.Namespace, base: Path | None, name: str) -> list[str]:
    """Return a command line that starts the server of this package from any directory."""
    files = "model_config_file tls_cert tls_key api_keys".split()
    options = {
        "engine": "python",
        **({"model": base, "name": name} if base else {}),
        "host": args.host or "127.0.0.1",
        "port": args.port,
        "rest_port": args.rest_port,
        "threads": args.threads,
        "timeout": f"{args.timeout:g}",
        **({"gpu_memory_fraction": fraction} if (fraction := args.gpu_memory_fraction) else {}),
        **{each: os.path.abspath(file) for each in files if (file := getattr(args, each))},
    }
    given = [f"{option_of(option)}={value}" for option, value in options.items()]
    given += ["--batching"] if args.batching else []
    given += ["--no-page"] if args.no_page else []
    for option in ("allowed_hosts", "allowed_origins"):
        if values := getattr(args, option):
            given += [option_of(option), *values]
    return [sys.executable, "-m", "pipelines.serve", *given]


if __name__ == "__main__":
    main()
