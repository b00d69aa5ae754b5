"""Time and memory of steps of training, each kind of step in a process of its own."""

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
    """What a step costs."""

    seconds: Sequence[float]
    """Of a step, in each turn."""
    other_cores: Sequence[float]
    """That other processes kept busy during each turn."""
    peak_memory: int
    """Bytes that the process held at most: of `measure_costs`, beyond those of length 2."""

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
    """Let kinds of steps take turns, A B A B, each in a process of its own.

    Args:
        make_step: a function of a module that, given a name and a length, returns a step.
        names: of the kinds.
        lengths: measured from the shortest to the longest, as the peak of a process only grows.
        repeats: turns of each kind at each length: half a second, or one step if that is longer.

    Yields:
        A length, and by name what a step costs there.
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
    """Start a process for each name, and give a function that runs another one in it."""
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
    """Warm the steps of a case up, let them take turns, and return what each costs.

    Args:
        ask: what `processes` gave for the names.
        make_step: a function of a module that, given a name and a case, returns a step.
        names: of the kinds of steps.
        case: the second argument of `make_step`, hashable.
        repeats: turns of each kind.
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
    """Run a step, to be asked of its process, and return what it does."""
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
