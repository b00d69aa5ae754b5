"""Engines that take turns, each in a process of its own, and what was measured of them."""

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
    """What an engine did with some sentences."""

    seconds: list[float]
    """Of each run over all sentences."""
    other_cores: list[float]
    """That other processes kept busy during each run."""
    peak_memory: int
    """Bytes that the engine's process held at most."""
    version: str
    tokens: list[list[str]]
    """The subwords of each translation, eos included."""
    texts: list[str]
    """Of the translations; none from an engine whose weights are its own."""

    @property
    def tokens_per_second(self) -> float:
        return sum(map(len, self.tokens)) / statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        return (max(self.seconds) - min(self.seconds)) / statistics.median(self.seconds)

    def share_same(self, other: "Measurement") -> float:
        """Return the share of sentences whose subwords and text are those of another's."""
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

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def ask(self, message: Any) -> Any:
        """Send a message and return the answer.

        Raises:
            RuntimeError: the process has failed; the error has what it wrote.
        """
        print(json.dumps(message), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"An engine's process has failed:\n{self.log()}")
        return json.loads(answer)

    def log(self) -> str:
        """Return what the process wrote to standard error."""
        self._log.seek(0)
        return self._log.read()


def measure(tasks: Mapping[str, Mapping[str, Any]], repeats: int) -> dict[str, Measurement]:
    """Run engines in turn, A B A B, each in its own process.

    Args:
        tasks: by the engine's name, what `benchmarks.engine` reads first, perhaps with the
            "python" that runs it.
        repeats: how often each engine translates all of its sentences.

    Raises:
        RuntimeError: an engine's process has failed.
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
            found[name] = Measurement(seconds, other_cores, **worker.ask("end"))
            # The instructions and the library that CTranslate2 chose for this processor.
            chosen = re.findall(r"(?:ISA|SGEMM backend): (\w+)", worker.log())
            found[name].version += "".join(f" {word}" for word in chosen)
    return found
