"""Work in other processes: workers of Ray, on this machine or on a cluster."""

import argparse
import contextlib
import functools
import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log

_ATTEMPTS = 5
"""How often a task is tried again after its worker or machine was lost."""
_IN_FLIGHT = 2
"""Tasks per worker that are with Ray at a time, so that no worker waits for the next."""
_OPTIONS = "address", "workers", "cpus_per_worker", "gpus_per_worker"


class Task(NamedTuple):
    """What a worker is to do."""

    about: Any
    """What it belongs to, which stays in this process."""
    arguments: tuple[Any, ...]
    """What the function gets."""


Run = Callable[..., Iterator[tuple[Any, Any]]]
"""Calls a function for each of some tasks, and yields what each is about, and its result or the
error that it raised. With `ordered=True`, results come in the order of the tasks."""


def add_engine_options(parser: Parser) -> None:
    """Add --engine, and options of Ray."""
    parser.add_argument(
        "--engine",
        choices=["process", "ray"],
        default="process",
        help="this process (default), or workers of Ray",
    )
    group = parser.add_argument_group(
        "Ray", "For --engine ray, which needs pip install 'keras-transformer-mt[ray]'."
    )
    group.add_argument(
        "--address", help="of a cluster, such as auto; by default, Ray starts on this machine"
    )
    group.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: as many as there is room for)"
    )
    group.add_argument("--cpus-per-worker", type=int, metavar="N", help="cores of each (default 1)")
    group.add_argument(
        "--gpus-per-worker", type=float, metavar="N", help="GPUs of each (default 0)"
    )


def check_engine_options(parser: Parser, args: argparse.Namespace) -> None:
    """Exit with status 2 if options of Ray do not fit.

    Raises:
        ImportError: If Ray is to be used and missing.
    """
    for name in _OPTIONS:
        value = getattr(args, name)
        option = f"--{name.replace('_', '-')}"
        if value is not None and args.engine != "ray":
            parser.error(f"{option} needs --engine ray")
        if name in ("workers", "cpus_per_worker") and value is not None and value < 1:
            parser.error(f"{option} must be at least 1, received {value}")
        if name == "gpus_per_worker" and value is not None and value < 0:
            parser.error(f"{option} must be at least 0, received {value:g}")
    if args.engine == "ray" and not find_spec("ray"):
        raise ImportError("--engine ray needs Ray: pip install 'keras-transformer-mt[ray]'")


def pop_engine_options(args: argparse.Namespace) -> argparse.Namespace:
    """Remove the options of `add_engine_options`, and return them."""
    return argparse.Namespace(**{name: vars(args).pop(name) for name in ("engine", *_OPTIONS)})


@contextlib.contextmanager
def engine(args: argparse.Namespace) -> Iterator[Run]:
    """Yield a function that runs tasks in this process, or with the workers of Ray."""
    if args.engine == "process":
        yield _in_this_process
        return
    import ray

    cpus, gpus = args.cpus_per_worker or 1, args.gpus_per_worker or 0
    given = {"num_cpus": args.workers * cpus} if args.workers and not args.address else {}
    address = args.address or "local"
    before = signal.getsignal(signal.SIGTERM)
    ray.init(address, include_dashboard=False, logging_level=logging.ERROR, **given)
    signal.signal(signal.SIGTERM, before)  # Ray has its own, which ends the process at once.
    # No retry of exceptions: the same arguments would raise them again. By default, Ray ends a
    # worker with a GPU after each task, and the next one would load the model again.
    options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": _ATTEMPTS, "max_calls": 0}
    task = ray.remote(**options)(_call)

    def most_at_a_time() -> int:
        if args.workers:
            return args.workers if args.address else _IN_FLIGHT * args.workers
        total = ray.cluster_resources()  # Machines may come and go.
        room = [total.get("CPU", 0) // cpus, *([total.get("GPU", 0) // gpus] if gpus else [])]
        return _IN_FLIGHT * max(1, int(min(room)))

    def run(
        function: Callable[..., Any], tasks: Iterable[Task], ordered: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        copied = [ray.put(function)]  # In a list, it reaches a worker as a reference.
        running: dict[Any, Any] = {}
        for about, arguments in tasks:
            running[task.remote(copied, cpus, arguments)] = about
            while len(running) >= most_at_a_time():
                yield _next(running, ordered)
        while running:
            yield _next(running, ordered)

    try:
        yield run
    finally:
        ray.shutdown()


def mapped_by(run: Run) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
    """Return a function like `map` that runs tasks, in order."""

    def mapped(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for _, result in run(function, (Task(None, (item,)) for item in items), ordered=True):
            if isinstance(result, Exception):
                raise result
            yield result

    return mapped


def _in_this_process(
    function: Callable[..., Any], tasks: Iterable[Task], ordered: bool = False
) -> Iterator[tuple[Any, Any]]:
    for about, arguments in tasks:
        try:
            yield about, function(*arguments)
        except Exception as error:
            yield about, error


def _call(copied: list[Any], cpus: int, arguments: tuple[Any, ...]) -> Any:
    """Call a function in a worker."""
    _prepare_worker(cpus)
    return _function(copied[0])(*arguments)


@functools.cache
def _prepare_worker(cpus: int) -> None:
    start_log()
    import_tensorflow()
    import tensorflow as tf

    # A core translates a batch; see `prepare_cpu`.
    tf.config.threading.set_inter_op_parallelism_threads(cpus)
    tf.config.threading.set_intra_op_parallelism_threads(1)


@functools.lru_cache(maxsize=1)
def _function(reference: Any) -> Callable[..., Any]:
    import ray

    return ray.get(reference)


def _next(running: dict[Any, Any], ordered: bool) -> tuple[Any, Any]:
    """Wait for a task, and remove it."""
    import ray

    waiting = list(running)
    (ready,), _ = ray.wait(waiting[:1] if ordered else waiting, num_returns=1)
    about = running.pop(ready)
    try:
        return about, ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        return about, error.cause
    except ray.exceptions.RayError as error:  # It lost its worker or machine too often.
        return about, error
