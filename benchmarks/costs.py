"""Measure time and memory of steps, each kind of step in a separate process."""

import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks.machine import Stopwatch, peak_memory

TURN_SECONDS = 0.5


class Cost(NamedTuple):
    """The cost of a step."""

    seconds: Sequence[float]
    """Time of a step, in each turn."""
    other_cores: Sequence[float]
    """Cores kept busy by other processes during each turn."""
    peak_memory: int
    """Peak bytes of the process; in `measure_costs`, beyond those of a step of length 2."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        return (max(self.seconds) - min(self.seconds)) / self.median


def measure_costs(
    make_step: Callable[[str, int], Callable[[], object]],
    names: Sequence[str],
    lengths: Sequence[int],
    repeats: int,
) -> Iterator[tuple[int, dict[str, Cost]]]:
    """Measure kinds of steps in turns, A B A B, each in a separate process.

    Args:
        make_step: Function at module level that returns a step for a name and a length.
        names: Names of the kinds.
        lengths: Lengths, measured from shortest to longest because a peak can only grow.
        repeats: Number of turns per kind and length: half a second, or one step if that is longer.

    Yields:
        A length, and the costs of a step of that length by name.
    """
    with processes(names) as ask:
        start = {name: ask(name, _warm_up, make_step, name, 2) for name in names}
        for length in sorted(lengths):
            costs = take_turns(ask, make_step, names, length, repeats)
            yield (
                length,
                {
                    name: cost._replace(peak_memory=cost.peak_memory - start[name])
                    for name, cost in costs.items()
                },
            )


@contextmanager
def processes(names: Sequence[str]) -> Iterator[Callable]:
    """Start a process for each name; the context is a function that runs another in one of them."""
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        executors = {
            name: stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn)) for name in names
        }

        def ask(name, function, *arguments):
            return executors[name].submit(function, *arguments).result()

        yield ask


def take_turns(
    ask: Callable,
    make_step: Callable[[str, object], Callable[[], object]],
    names: Sequence[str],
    case: object,
    repeats: int,
) -> dict[str, Cost]:
    """Warm up the steps of a case, run them in turns, and return their costs by name.

    Args:
        ask: The context of `processes` for the names.
        make_step: Function at module level that returns a step for a name and a case.
        names: Names of the kinds of steps.
        case: Second argument of `make_step`, hashable.
        repeats: Number of turns per kind.
    """
    for name in names:
        ask(name, run_step, make_step, name, case)
    turns = [
        {name: ask(name, _turn, make_step, name, case) for name in names} for _ in range(repeats)
    ]
    costs = {}
    for name in names:
        seconds, other_cores = zip(*(turn[name] for turn in turns), strict=True)
        costs[name] = Cost(seconds, other_cores, ask(name, peak_memory))
    return costs


def run_step(make_step, name: str, case: object) -> object:
    """Run a step in the current process, and return its result."""
    return _step(make_step, name, case)()


def _warm_up(make_step, name: str, case: object) -> int:
    run_step(make_step, name, case)
    return peak_memory()


def _turn(make_step, name: str, case: object) -> tuple[float, float]:
    step, steps = _step(make_step, name, case), 0
    end = time.perf_counter() + TURN_SECONDS
    with Stopwatch() as watch:
        while steps == 0 or time.perf_counter() < end:
            step()
            steps += 1
    return watch.seconds / steps, watch.other_cores


@functools.cache
def _step(make_step, name: str, case: object):
    return make_step(name, case)
