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


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_core_passes_its_tests_on_another_backend(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if keras.backend.backend() == backend:
        pytest.skip(f"this is {backend}")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *PATHS],
        cwd=ROOT,
        env={**os.environ, **FAST_COMPILATION, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
