"""Measurements of engines that take turns, each in its own process."""

import dataclasses
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclasses.dataclass
class Measurement:
    """The time and memory that an engine took to translate some sentences."""

    threads: int
    """The engine's number of threads."""
    seconds: list[float]
    """The time of each run over all sentences."""
    other_cores: list[float]
    """The cores that other processes kept busy during each run."""
    peak_memory: int
    """The peak memory of the engine's process, in bytes."""
    version: str
    """The name and version of the library."""
    tokens: list[list[str]]
    """The tokens of each translation, including end-of-sentence."""
    texts: list[str]
    """The translations; empty for an engine with weights of its own."""

    @property
    def tokens_per_second(self) -> float:
        """The generated tokens per second, in the median of all runs."""
        return sum(map(len, self.tokens)) / statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The slowest minus the fastest time, relative to the median."""
        return (max(self.seconds) - min(self.seconds)) / statistics.median(self.seconds)

    def share_same(self, other: "Measurement") -> float:
        """Return the share of sentences with the same tokens and text as another engine's."""
        ours, theirs = (zip(m.tokens, m.texts, strict=True) for m in (self, other))
        return statistics.mean(a == b for a, b in zip(ours, theirs, strict=True))


class Worker:
    """A process with an engine; see `benchmarks.engine`."""

    def __init__(self, threads: int, python: str = sys.executable):
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env=os.environ
            | {"OMP_NUM_THREADS": str(threads), "CT2_VERBOSE": "1", "CUDA_VISIBLE_DEVICES": "-1"},
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: Any) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def ask(self, message: Any) -> Any:
        """Send a message and return the answer.

        Raises:
            RuntimeError: If the process has failed; the message includes its log.
        """
        print(json.dumps(message), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process of an engine failed:\n{self.log()}")
        return json.loads(answer)

    def log(self) -> str:
        """Return the standard error of the process."""
        self._log.seek(0)
        return self._log.read()


def measure(tasks: Mapping[str, Mapping[str, Any]], repeats: int) -> dict[str, Measurement]:
    """Run engines in turns, A B A B, each in its own process.

    Args:
        tasks: For each name, the task that `benchmarks.engine` reads, with the "python" that runs
            it unless it is this one.
        repeats: The number of runs of each engine over all of its sentences.

    Returns:
        The measurement for each name.

    Raises:
        RuntimeError: If the process of an engine fails.
    """
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(task["threads"], task.get("python", sys.executable)))
            for name, task in tasks.items()
        }
        for name, worker in workers.items():
            worker.ask(tasks[name])
        runs = [
            {name: worker.ask("run") for name, worker in workers.items()} for _ in range(repeats)
        ]
        found = {}
        for name, worker in workers.items():
            seconds, other_cores = ([run[name][key] for run in runs] for key in runs[0][name])
            threads, result = tasks[name]["threads"], worker.ask("end")
            found[name] = Measurement(threads, seconds, other_cores, **result)
            # The instruction set and the library that CTranslate2 chose for this processor.
            chosen = re.findall(r"(?:ISA|SGEMM backend): (\w+)", worker.log())
            found[name].version += "".join(f" {word}" for word in chosen)
    return found
