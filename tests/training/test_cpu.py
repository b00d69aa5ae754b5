import pytest
import tensorflow as tf
from tiny import run_python, toy_experiment, write_toy_text

from keras_transformer.training import run

HOW_A_STEP_IS_MADE = """
import os
import sys
cores, started = map(int, sys.argv[1:])
os.sched_getaffinity = lambda process: set(range(cores))
import numpy as np
import tensorflow as tf
from keras_transformer import Transformer, losses, model
from keras_transformer.training import prepare_cpu

if started:
    tf.zeros([])
prepare_cpu()
in_halves, found = model.train_step_in_halves, []

def step(model, data):
    found.append("in halves")
    return in_halves(model, data)

model.train_step_in_halves = step
transformer = Transformer.from_preset("tiny", vocab_size=20, num_layers=1)
transformer.compile("adam", losses.LabelSmoothedCrossEntropy())
ids = np.ones([4, 3], "int32")
transformer.fit({"source": ids, "target": ids}, ids, verbose=0)
print("in halves" if found else "whole")
"""


@pytest.mark.parametrize(
    ("cores", "started", "environment", "step"),
    [
        (1, 0, {}, "whole"),
        (2, 0, {}, "in halves"),
        (3, 0, {}, "whole"),
        (2, 1, {}, "whole"),
        (2, 0, {"TF_NUM_INTRAOP_THREADS": "1"}, "whole"),
        (2, 0, {"TF_NUM_INTEROP_THREADS": "2"}, "whole"),
    ],
)
def test_with_two_cores_a_step_is_made_in_halves(cores, started, environment, step, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    output = run_python("-c", HOW_A_STEP_IS_MADE, str(cores), str(started)).stdout
    assert output.strip() == step


@pytest.mark.parametrize(("gpus", "times"), [([], 1), (["GPU:0"], 0)])
def test_a_training_prepares_cpus_only(tmp_path, monkeypatch, gpus, times):
    calls = []
    monkeypatch.setattr(run, "prepare_cpu", lambda: calls.append("prepare"))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    data = write_toy_text(tmp_path, train=20) | {"train_source": str(tmp_path / "none")}
    with pytest.raises(FileNotFoundError):  # Before any training.
        run.train(toy_experiment(data), tmp_path / "run")
    assert len(calls) == times
