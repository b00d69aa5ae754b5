"""Processes that prepare cells of a benchmark at the same time, and run them one at a time.

A cell is a function that imports, compiles and warms up, and then returns facts and another
function, which makes one measurement. Nothing that this module imports needs TensorFlow.
"""

import importlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Prepared = tuple[Record, Callable[..., Record]]
"""What a cell returns: facts, and what runs a command, given as keyword arguments."""
ALONE = 10**6
"""Memory of a group beside which no other one starts."""
RUN_LIMIT = 60
"""Seconds that a run may take."""
LAST_CHARACTERS = 1500
"""Length of a recorded error: its end."""


@dataclass
class Worker:
    """A process that prepares a cell, and then runs commands, which are arguments of its runs."""

    cell: str  # "module:function" of a function that returns a `Prepared`.
    options: Record  # Its arguments.
    commands: Sequence[Record] = ()  # In turns with other workers.
    once: Sequence[Record] = ()  # After the turns.
    labels: Record = field(default_factory=dict)  # What all its records have.
    environments: Sequence[dict[str, str]] = ({},)  # If it fails to prepare, it tries the next one.
    is_ready: bool = field(default=False, init=False)
    is_closed: bool = field(default=False, init=False)

    def start(self, log: Path) -> None:
        """Start to prepare; what the process prints goes to the file `log`."""
        environment, *self.environments = self.environments
        self.is_closed, self.log, self.started = False, log, time.monotonic()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = theirs, str(log), environment, self.cell, self.options
        self._process = context.Process(target=_work, args=arguments)
        self._process.start()
        theirs.close()

    def answer(self, seconds: float) -> Record | None:
        """Return the next answer, or None if there is none within the given time."""
        try:
            return self._pipe.recv() if self._pipe.poll(seconds) else None
        except (EOFError, OSError):
            self.close()
            return {"error": "ended: " + self.log.read_text(errors="replace")[-LAST_CHARACTERS:]}

    def ask(self, command: Record, seconds: float) -> Record:
        """Run a command; a process that takes longer is ended."""
        try:
            self._pipe.send(command)
        except OSError:
            pass  # It has ended, which its answer says.
        found = self.answer(seconds)
        if found is None:
            self.close()
            found = {"error": f"no answer within {seconds:.0f} s"}
        return found

    def signal(self, number: int) -> None:
        """Send a signal to the process and those that it started."""
        for send in (os.killpg, os.kill):  # It leads a group soon after its start.
            try:
                return send(self._process.pid, number)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """End the process and those that it started."""
        self.is_closed = True
        self.signal(signal.SIGKILL)


def _work(pipe, log, environment, cell, options):
    os.setsid()  # So that its own processes pause and end with it.
    os.environ.update(environment)
    with open(log, "w") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)

    def attempt(function, **arguments):
        try:
            return function(**arguments)
        except Exception:
            return {"error": traceback.format_exc()[-LAST_CHARACTERS:]}

    def prepare():
        module, name = cell.split(":")
        return getattr(importlib.import_module(module), name)(**options)

    found = attempt(prepare)
    facts, run = found if isinstance(found, tuple) else (found, None)
    pipe.send(facts)
    while run:
        pipe.send(attempt(run, **pipe.recv()))


@dataclass
class Group:
    """Workers that are measured in turns."""

    part: str
    labels: Record  # What all its records have.
    workers: list[Worker]
    memory: int  # GB of the device's memory that they need.
    repeats: int = 1  # Number of turns.
    started: bool = field(default=False, init=False)

    @property
    def unready(self) -> list[Worker]:
        return [worker for worker in self.workers if not (worker.is_ready or worker.is_closed)]


@dataclass
class Schedule:
    """Prepares the groups that fit at the same time, and measures each on a quiet device."""

    groups: list[Group]  # In order of value.
    folder: Path  # For logs.
    record: Callable[[Record], None]  # Called with each record as soon as there is one.
    deadline: float  # `time.monotonic()` at which all must end.
    memory: int  # GB that the device has.
    cores: int  # Number of workers that may prepare at the same time.
    limit: float  # Seconds that a worker may take to prepare, with pauses.

    def run(self) -> None:
        waiting = list(self.groups)
        try:
            while waiting and time.monotonic() < self.deadline:
                self._start(waiting)
                running = [group for group in waiting if group.started]
                for group in running:
                    self._collect(group)
                if group := next((group for group in running if not group.unready), None):
                    self._measure(group, [other for other in running if other is not group])
                    waiting.remove(group)
        finally:
            for group in waiting:
                self.record({"part": group.part, **group.labels, "error": "not reached"})
                for worker in group.workers if group.started else ():
                    worker.close()

    def _start(self, waiting):
        """Start the groups that fit beside those that have started, in their order."""
        running = [group for group in waiting if group.started]
        memory = sum(group.memory for group in running)
        cores = sum(len(group.unready) for group in running)
        for group in (group for group in waiting if not group.started):
            memory_then, cores_then = memory + group.memory, cores + len(group.workers)
            if running and (memory_then > self.memory or cores_then > self.cores):
                continue
            memory, cores = memory_then, cores_then
            group.started = True
            running.append(group)
            for i, worker in enumerate(group.workers):
                worker.start(self.folder / f"{self.groups.index(group)}_{i}.log")

    def _collect(self, group):
        """Record what a group's workers have prepared, or that they failed to."""
        for worker in group.unready:
            found = worker.answer(0.05)
            taken = time.monotonic() - worker.started
            if found is None and taken > self.limit:
                found = {"error": f"not prepared within {self.limit:.0f} s"}
            if found is None:
                continue
            self._write(group, worker, {"prepared": round(taken, 1), **found})
            worker.is_ready = "error" not in found
            if not worker.is_ready:
                worker.close()
                if worker.environments:
                    worker.start(worker.log)

    def _measure(self, group, others):
        """Run a group's commands in turns while all else stands still."""
        paused = [worker for other in others for worker in other.workers if not worker.is_closed]
        turn = [(worker, command) for worker in group.workers for command in worker.commands]
        once = [(worker, command) for worker in group.workers for command in worker.once]
        try:
            for worker in paused:
                worker.signal(signal.SIGSTOP)
            for worker, command in turn * group.repeats + once:
                seconds = min(RUN_LIMIT, self.deadline - time.monotonic())
                if not worker.is_closed and seconds > 0:
                    self._write(group, worker, command | worker.ask(command, seconds))
        finally:
            for worker in group.workers:
                worker.close()
            for worker in paused:
                worker.signal(signal.SIGCONT)

    def _write(self, group, worker, found):
        self.record({"part": group.part, **group.labels, **worker.labels, **found})
