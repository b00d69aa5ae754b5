"""Files, programs that stand for others, and the command that serves a model."""

import os
import subprocess
import sys

from tests.helpers.tiny import ROOT


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def program(directory, name, script="exit 0"):
    write(directory / name, f"#!/bin/sh\n{script}\n").chmod(0o755)


def start_serve(*options, python=(), stderr=subprocess.PIPE, **settings):
    """Start `pipelines.serve` on the CPU, whose standard error is read by default."""
    command = [sys.executable, *python, "-m", "pipelines.serve", *map(str, options)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(command, env=environment, stderr=stderr, text=True, **settings)
