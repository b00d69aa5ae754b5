"""Run the tests of the Keras-only core on JAX and PyTorch, each in a separate process."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]
MODULES = ["losses.py", "metrics.py", "optimizers.py", "schedules.py", "model.py", "layers"]
PATHS = [f"tests/test_{name}" if name.endswith(".py") else f"tests/{name}" for name in MODULES]
# Each operation on JAX is compiled on its own, which takes far longer than the tiny operation.
FAST_COMPILATION = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
# Halves the time of a compilation. XLA ends a process with a flag that it no longer knows.
FASTER_COMPILATION = {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false"}


def fast_compilation():
    """Return the environment in which JAX compiles fastest, of its version."""
    program = [sys.executable, "-c", "import jax.numpy; jax.numpy.zeros(1)"]
    faster = FAST_COMPILATION | FASTER_COMPILATION
    is_known = not subprocess.run(program, env=os.environ | faster, capture_output=True).returncode
    return faster if is_known else FAST_COMPILATION


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_core_passes_its_tests_on_another_backend(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if keras.backend.backend() == backend:
        pytest.skip(f"this is {backend}")
    compilation = fast_compilation() if backend == "jax" else {}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *PATHS],
        cwd=ROOT,
        env=os.environ | compilation | {"KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
