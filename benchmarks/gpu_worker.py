"""Processes that prepare cells of a benchmark at the same time, and run them one at a time.

A process reads a task and then commands from standard input, one line of JSON each, and answers
each with a line of JSON: `{"prepare": "module:function", "options": {...}}` with the facts that
the function returns, each command with what the function's second result makes of it. An answer
with `error` is that of a failure.
"""

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Prepared = tuple[Record, Callable[..., Record]]
"""What a cell's function returns: facts, and what runs a command, given as keyword arguments."""
_LAST_CHARACTERS = 1500
ALONE = 10**6
_PATIENCE = 120
"""Seconds that later groups wait for the first one to be prepared."""


class Worker:
    """A process that prepares cells, and then runs each of its commands.

    Args:
        prepare: "module:function" of a function that returns a `Prepared`.
        options: Its arguments.
        commands: Arguments of each run, repeated in turns with other workers; a part of its record.
        once: Commands that come once, after the turns.
        labels: What all its records have.
        environment: More environment variables.
        retries: Environment variables to prepare with again, if that fails.
    """

    def __init__(
        self,
        prepare: str,
        options: Record,
        commands: Sequence[Record] = (),
        once: Sequence[Record] = (),
        labels: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        retries: Sequence[Mapping[str, str]] = (),
    ):
        self.task = {"prepare": prepare, "options": options}
        self.commands, self.once = list(commands), list(once)
        self.labels, self.environment = dict(labels or {}), dict(environment or {})
        self.retries = list(retries)
        self.is_ready = self.is_closed = False

    def start(self, log: Path) -> None:
        """Start to prepare; what the process prints goes to the file `log`."""
        self.log, self.started, self.paused = log, time.monotonic(), 0.0
        self.is_closed, self._answers = False, queue.Queue[str]()
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu_worker"],
                **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors},
                env=os.environ | self.environment,
                text=True,
                start_new_session=True,  # So that its own processes pause and end with it.
            )
        arguments = self._process, self._answers
        threading.Thread(target=self._read, args=arguments, daemon=True).start()
        self._send(self.task)

    @property
    def seconds(self) -> float:
        """Seconds since the start, without pauses."""
        return time.monotonic() - self.started - self.paused

    def answer(self, seconds: float) -> Record | None:
        """Return the next answer, or None if there is none yet after the given time."""
        try:
            line = self._answers.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if line:
            return json.loads(line)
        self.close()
        return {"error": "ended: " + self.log.read_text(errors="replace")[-_LAST_CHARACTERS:]}

    def ask(self, command: Record, seconds: float) -> Record:
        """Run a command; a process that takes longer is ended."""
        self._send(command)
        found = self.answer(seconds)
        if found is None:
            self.close()
            found = {"error": f"no answer within {seconds:.0f} s"}
        return found

    def pause(self) -> None:
        self._paused_at = time.monotonic()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused += time.monotonic() - self._paused_at

    def close(self) -> None:
        """End the process and those that it started."""
        self.is_closed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def _send(self, message):
        try:
            print(json.dumps(message), file=self._process.stdin, flush=True)
        except OSError:  # It has ended, which its answer says.
            pass

    @staticmethod
    def _read(process, answers):
        for line in process.stdout:
            answers.put(line)
        process.wait()
        answers.put("")


@dataclass
class Group:
    """Workers that are measured in turns.

    Args:
        part: Name of the part of the benchmark.
        labels: What all records of the group have.
        workers: The workers.
        memory: GB of the device's memory that they need; `ALONE` keeps other groups away.
        repeats: Number of turns.
        run_limit: Seconds that a command may take.
    """

    part: str
    labels: Record
    workers: list[Worker]
    memory: int
    repeats: int
    run_limit: float = 60.0
    started: bool = field(default=False, init=False)

    @property
    def unready(self) -> list[Worker]:
        return [worker for worker in self.workers if not (worker.is_ready or worker.is_closed)]


@dataclass
class Schedule:
    """Prepares the groups that fit at the same time, and measures each on a quiet device.

    Args:
        groups: The groups, in order of value.
        folder: A folder for logs.
        record: Called with each record as soon as there is one.
        deadline: `time.monotonic()` at which all must end.
        memory: GB that the device has.
        cores: Number of workers that may prepare at the same time.
        prepare_limit: Seconds that a worker may take to prepare.
    """

    groups: list[Group]
    folder: Path
    record: Callable[[Record], None]
    deadline: float
    memory: int
    cores: int
    prepare_limit: float

    def run(self) -> None:
        waiting = list(self.groups)
        try:
            while waiting and time.monotonic() < self.deadline:
                self._start(waiting)
                for group in waiting:
                    self._collect(group)
                if group := self._next(waiting):
                    self._measure(group)
                    waiting.remove(group)
        finally:
            for group in waiting:
                self.record({"part": group.part, **group.labels, "error": "not reached"})
                for worker in group.workers if group.started else ():
                    worker.close()

    def _next(self, waiting):
        """Return the first group if it is ready, or a later one if the first one is slow."""
        running = [group for group in waiting if group.started]
        taken = max((w.seconds for w in running[0].unready), default=0.0)
        for group in running[: 1 if taken < _PATIENCE else None]:
            if not group.unready:
                return group
        return None

    def _start(self, waiting):
        """Start groups in their order, as far as they fit beside those that have started."""
        running = [group for group in waiting if group.started]
        memory = sum(group.memory for group in running)
        cores = sum(len(group.unready) for group in running)
        for group in waiting:
            if group.started:
                continue
            memory, cores = memory + group.memory, cores + len(group.workers)
            if running and (memory > self.memory or cores > self.cores):
                return
            group.started = True
            running.append(group)
            for i, worker in enumerate(group.workers):
                worker.start(self.folder / f"{self.groups.index(group)}_{i}.log")

    def _collect(self, group):
        """Record what a group's workers have prepared, or that they failed to."""
        for worker in group.unready if group.started else ():
            found = worker.answer(0.05)
            taken = worker.seconds
            if found is None and taken > self.prepare_limit:
                worker.close()
                found = {"error": f"not prepared within {self.prepare_limit:.0f} s"}
            if found is None:
                continue
            worker.is_ready = "error" not in found
            if not worker.is_ready:
                worker.close()
            if not worker.is_ready and worker.retries:
                found["retry"] = worker.retries[0]
            about = {"prepared": round(taken, 1), "paused": round(worker.paused, 1)}
            self._write(group, worker, {**about, **found})
            if "retry" in found:
                worker.environment |= worker.retries.pop(0)
                worker.start(worker.log)

    def _measure(self, group):
        """Run a group's commands in turns while everything else stands still."""
        others = [
            worker
            for other in self.groups
            if other.started and other is not group
            for worker in other.workers
            if not worker.is_closed
        ]
        for worker in others:
            worker.pause()
        commands = [
            (worker, command)
            for i in range(max((len(worker.commands) for worker in group.workers), default=0))
            for worker in group.workers
            for command in worker.commands[i : i + 1]
        ]
        once = [(worker, command) for worker in group.workers for command in worker.once]
        try:
            for worker, command in commands * group.repeats + once:
                seconds = min(group.run_limit, self.deadline - time.monotonic())
                if not worker.is_closed and seconds > 0:
                    self._write(group, worker, {**command, **worker.ask(command, seconds)})
        finally:
            for worker in group.workers:
                worker.close()
            for worker in others:
                worker.resume()

    def _write(self, group, worker, found):
        self.record({"part": group.part, **group.labels, **worker.labels, **found})


def main() -> None:
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)  # What libraries print is no answer.

        def answer(function, **arguments):
            try:
                found = function(**arguments)
                if isinstance(found, tuple):
                    answers.write(json.dumps(found[0]) + "\n")
                    return found[1]
            except Exception:
                traceback.print_exc()
                found = {"error": traceback.format_exc()[-_LAST_CHARACTERS:]}
            answers.write(json.dumps(found) + "\n")

        task = json.loads(sys.stdin.readline())

        def prepare(options):
            module, name = task["prepare"].split(":")
            return getattr(importlib.import_module(module), name)(**options)

        run = answer(prepare, options=task["options"])
        for line in sys.stdin if run else ():
            answer(run, **json.loads(line))


if __name__ == "__main__":
    main()
