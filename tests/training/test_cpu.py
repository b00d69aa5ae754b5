import pytest
import tensorflow as tf
from tests.helpers.tiny import run_python, toy_experiment, write_toy_text

from keras_transformer.training import cpu, run

HOW_A_STEP_IS_MADE = """
import os
import sys
cores, started, intra = map(int, sys.argv[1:])
os.sched_getaffinity = lambda process: set(range(cores))
import numpy as np
import tensorflow as tf
from keras_transformer import Transformer, losses, model
from keras_transformer.training import prepare_cpu

if started:
    tf.zeros([])
if intra:
    tf.config.threading.set_intra_op_parallelism_threads(intra)
prepared = prepare_cpu()
in_halves, found = model.train_step_in_halves, []

def step(model, data):
    found.append("in halves")
    return in_halves(model, data)

model.train_step_in_halves = step
transformer = Transformer.from_preset("tiny", vocab_size=20, num_layers=1)
transformer.compile("adam", losses.LabelSmoothedCrossEntropy())
ids = np.ones([4, 3], "int32")
transformer.fit({"source": ids, "target": ids}, ids, verbose=0)
assert prepared == prepare_cpu() == bool(found)  # A second time nothing changes.
print("in halves" if found else "whole")
"""


@pytest.mark.parametrize(
    ("cores", "started", "intra", "environment", "step"),
    [
        (1, 0, 0, {}, "whole"),
        (2, 0, 0, {}, "in halves"),
        (3, 0, 0, {}, "whole"),
        (2, 1, 0, {}, "whole"),
        (2, 0, 2, {}, "whole"),
        (2, 0, 0, {"TF_NUM_INTRAOP_THREADS": "1"}, "whole"),
        (2, 0, 0, {"TF_NUM_INTEROP_THREADS": "2"}, "whole"),
    ],
)
def test_with_two_cores_a_step_is_made_in_halves(
    cores, started, intra, environment, step, monkeypatch
):
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    output = run_python("-c", HOW_A_STEP_IS_MADE, cores, started, intra).stdout
    assert output.strip() == step


def test_with_a_gpu_nothing_changes(monkeypatch):
    monkeypatch.setattr(cpu, "keep_freed_memory", lambda: pytest.fail("it keeps memory"))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    assert not cpu.prepare_cpu()


def test_a_training_prepares_the_cpu(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(run, "prepare_cpu", lambda: calls.append("prepare"))
    data = write_toy_text(tmp_path, train=20) | {"train_source": str(tmp_path / "none")}
    with pytest.raises(FileNotFoundError):  # Before any training.
        run.train(toy_experiment(data), tmp_path / "run")
    assert calls == ["prepare"]
