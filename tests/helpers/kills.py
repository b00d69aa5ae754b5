"""Kill training runs at random moments, and compare what they end with.

Usage:
    python -m tests.helpers.kills --kills 20 --around-epochs 20 --seed 1

It prints a line of JSON for each run that was killed and resumed until it ended, and one for a run
that was stopped around the ends of its epochs. A new process that imports TensorFlow takes seconds,
so this one imports it, starts nothing in it, and forks the runs. They translate by copying, because
tracing a search takes longer than the steps.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from keras_transformer.training import run
from keras_transformer.training.checkpoints import run_checkpoints
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.resume import EpochState
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import toy_data, toy_experiment
from tests.helpers.twenty_steps import newest_checkpoint

INTERVAL = 4
STEPS, EPOCHS = 23, 2
CASES = [
    {"replicas": 1, "subword_dropout": 0.1, "average": "ema"},
    {"replicas": 2, "subword_dropout": 0.0, "average": "ema", "teachers": ["whole-0"]},
    {"replicas": 2, "subword_dropout": 0.1, "accumulation": 2},
]


def experiment(text, subword_dropout, **training):
    """Return an experiment of 46 steps on the toy text in a directory."""
    recipe = {
        "epochs": EPOCHS,
        "steps_per_epoch": STEPS,
        "warmup_steps": 20,
        "learning_rate_scale": 0.5,
        "average_checkpoints": 1,
        "checkpoint_steps": INTERVAL,
        **training,
    }
    variation = {"subword_dropout": subword_dropout, "augment_upper": subword_dropout}
    return toy_experiment(toy_data(text) | variation, {"d_model": 16, "d_ff": 24}, **recipe)


def start(config, directory):
    """Start a run in a new process, which adds each step that it makes to a file."""
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open(f"{directory}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        steps = os.open(f"{directory}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (signal.SIGINT, signal.SIGTERM):  # A job in the background ignores the first.
            signal.signal(number, signal.default_int_handler)
        end = EpochState.on_train_batch_end

        def record(self, batch, logs=None):
            end(self, batch, logs)
            os.write(steps, f"{self.epoch * len(self.batches) + self.step}\n".encode())

        EpochState.on_train_batch_end = record
        Translator.__call__ = lambda self, texts: list(texts)
        run.train(config, directory)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(1)


def stop_around_epochs(text, count, choose):
    """Stop a run at random moments around the ends of its epochs, and return what was lost.

    Returns:
        A dictionary: the `signals`; the `unsaved` epochs among those that were reported; the steps
        that were made again after a signal that Python handles, `lost`; and the epochs of its
        table at the end, which is as soon as it has been stopped that often.
    """
    steps, signals, unsaved, lost = 3, [], [], []
    sizes = {"epochs": 9999, "steps_per_epoch": steps, "checkpoint_steps": None}
    config, directory = experiment(text, subword_dropout=0.0, **sizes), Path("stopped")
    for number in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM) * count:
        if len(signals) == count:
            break
        before, pid = steps_of(directory), start(config, directory)
        while len(after := steps_of(directory)) == len(before) or after[-1] % steps:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                sys.exit(Path(f"{directory}.log").read_text())
            time.sleep(0.0005)
        if signals and signals[-1] != "SIGKILL":
            lost.append(before[-1] + 1 - after[len(before)])
        time.sleep(choose.uniform(0, 0.5))
        os.kill(pid, number)
        seen = len(steps_of(directory))
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if len(steps_of(directory)) > seen + 3 * steps:
                os.kill(pid, signal.SIGKILL)
                sys.exit(f"{number.name} was lost\n" + Path(f"{directory}.log").read_text())
            time.sleep(0.01)
        signals.append(number.name)
        done = run_checkpoints(directory, config.training).position().epochs
        unsaved += [epoch for epoch in reported_epochs(directory) if epoch > done]
    # A run with fewer epochs than it has made is trained.
    finish(
        dataclasses.replace(config, training=dataclasses.replace(config.training, epochs=1)),
        directory,
    )
    table = [int(epoch) for epoch in read_history(directory)["epoch"]]
    return {"signals": signals, "unsaved": unsaved, "lost": lost, "table": table}


def reported_epochs(directory):
    """Return the epochs that the log or the table of a run has."""
    log = Path(f"{directory}.log").read_text(errors="replace")
    reported = {int(epoch) for epoch in re.findall(r"^epoch (\d+) of \d+: ", log, re.MULTILINE)}
    has_table = (directory / "epochs.csv").exists()
    return reported | set(map(int, read_history(directory)["epoch"] if has_table else ()))


def steps_of(directory):
    path = Path(f"{directory}.steps")
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def kill(pid, directory, choose):
    """Kill a process at a random moment, and return what it did then, or None if it has ended."""
    moment = choose.choice(["step", "writing"])
    after = choose.randint(1, 12) if moment == "step" else choose.randint(1, 3)
    first, delay, seen = len(steps_of(directory)), choose.uniform(0, 0.03), set()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if moment == "writing":
            seen |= being_written(directory)
            is_time = len(seen) >= after
        else:
            is_time = len(steps_of(directory)) - first >= after
        if is_time:
            time.sleep(delay if moment == "step" else choose.uniform(0, 0.004))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "while writing" if being_written(directory) else "between"
        time.sleep(0.0005)
    return None


def being_written(directory):
    """Return the names of checkpoints, and of the model, that are not complete."""
    names = {path.name for path in directory.glob("checkpoints/writing-*")}
    return names | {path.name for path in directory.glob("writing-*-model.keras")}


def finish(config, directory):
    _, status = os.waitpid(start(config, directory), 0)
    if status:
        sys.exit(Path(f"{directory}.log").read_text())


def kill_run(config, directory, kills, choose):
    """Kill a run a number of times, let it end, and return what happened."""
    moments, lost = [], []
    while len(moments) < kills:
        before = steps_of(directory)
        if (moment := kill(start(config, directory), directory, choose)) is None:
            break
        moments.append(moment)
        lost += lost_steps(directory, before)
    before = steps_of(directory)
    finish(config, directory)
    return moments, lost + lost_steps(directory, before)


def lost_steps(directory, before):
    """Return how many steps a process has made again, if it has come to one."""
    after = steps_of(directory)[len(before) :]
    return [max(before, default=0) + 1 - after[0]] if after else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--around-epochs", type=int, metavar="STOPS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=Path, required=True)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    text = options.text.resolve()
    cases = CASES[: min(len(CASES), (options.kills + 1) // 2)]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, case in enumerate(cases):
            config, whole = experiment(text, **case), Path(f"whole-{number}")
            finish(config, whole)
            left, attempt = len(range(number, options.kills, len(cases))), 0
            while left:
                killed = Path(f"killed-{number}-{attempt}")
                started = time.perf_counter()
                moments, lost = kill_run(config, killed, left, choose)
                expected, received = newest_checkpoint(whole), newest_checkpoint(killed)
                differing = [
                    name
                    for name in expected.keys() | received.keys()
                    if not np.array_equal(expected.get(name), received.get(name))
                ]
                seconds = round(time.perf_counter() - started)
                report = {"kills": moments, "lost": lost, "differing": differing}
                print(json.dumps({**case, **report, "seconds": seconds}), flush=True)
                left, attempt = left - len(moments), attempt + 1
        if options.around_epochs:
            print(json.dumps(stop_around_epochs(text, options.around_epochs, choose)))


if __name__ == "__main__":
    main()
