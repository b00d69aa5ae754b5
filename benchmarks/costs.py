"""Time and memory of steps of training, each kind of step in a process of its own."""

import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
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
    """Bytes, beyond those of a step of length 2."""

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
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn)) for name in names
        }

        def ask(name, function, *arguments):
            return processes[name].submit(function, *arguments).result()

        start = {name: ask(name, _warm_up, make_step, name, 2) for name in names}
        for length in sorted(lengths):
            for name in names:
                ask(name, _warm_up, make_step, name, length)
            turns = [
                {name: ask(name, _turn, make_step, name, length) for name in names}
                for _ in range(repeats)
            ]
            found = {}
            for name in names:
                seconds, other_cores = zip(*(turn[name] for turn in turns), strict=True)
                found[name] = Cost(seconds, other_cores, ask(name, peak_memory) - start[name])
            yield length, found


def _warm_up(make_step, name: str, length: int) -> int:
    _step(make_step, name, length)()
    return peak_memory()


def _turn(make_step, name: str, length: int) -> tuple[float, float]:
    step, steps = _step(make_step, name, length), 0
    end = time.perf_counter() + TURN_SECONDS
    with Stopwatch() as watch:
        while steps == 0 or time.perf_counter() < end:
            step()
            steps += 1
    return watch.seconds / steps, watch.other_cores


@functools.cache
def _step(make_step, name: str, length: int):
    return make_step(name, length)
