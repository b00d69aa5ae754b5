"""Several machines: the examples of the documentation, and a run of two processes.

TensorFlow connects to a cluster when it starts, so that the machines are processes of their own:
this file, run as a program.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt

from benchmarks.machine import free_ports
from keras_transformer.training import train
from keras_transformer.training.machines import Cluster, read_cluster
from tests.helpers.tf_config import tf_config
from tests.helpers.tiny import ROOT
from tests.helpers.twenty_steps import (
    assert_same_arrays,
    newest_checkpoint,
    twenty_steps,
    write_text,
)


def examples(language):
    """Return the code of docs/cluster.md about training in a language."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    tokens = MarkdownIt().parse(page.partition("## Translate a corpus")[0])
    return [t.content for t in tokens if t.type == "fence" and t.info == language]


def test_the_example_of_two_hosts_is_a_cluster(monkeypatch):
    (value,) = re.findall("TF_CONFIG='(.*)'", examples("bash")[0])
    monkeypatch.setenv("TF_CONFIG", value)
    assert read_cluster() == Cluster(("first:12345", "second:12345"), 0)


def test_the_example_for_slurm_makes_a_task_of_each_gpu(monkeypatch, tmp_path):
    programs = {
        "scontrol": "echo one; echo two",
        "srun": 'for i in 0 1 2 3; do SLURM_PROCID=$i "${@:2}"; done',
        "keras-transformer": "echo $TF_CONFIG",
    }
    for name, code in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{code}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_NODELIST": "one,two"}
    _, job, task = examples("bash")
    (tmp_path / "task.sh").write_text(task)
    output = subprocess.run(
        ["bash", "-c", job],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    addresses = ("one:12345", "one:12346", "two:12345", "two:12346")
    clusters = []
    for value in output.splitlines():
        monkeypatch.setenv("TF_CONFIG", value)
        clusters.append(read_cluster())
    assert clusters == [Cluster(addresses, index) for index in range(4)]


def test_the_example_for_kubernetes_restarts_what_ends_with_an_error():
    (job,) = map(yaml.safe_load, examples("yaml"))
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (2, "OnFailure")
    (container,) = worker["template"]["spec"]["containers"]
    assert container["name"] == "tensorflow"  # The operator sets TF_CONFIG in this one only.


def start(folder, index, ports, end):
    """Start a machine of two, which ends with the run or is killed in the second epoch."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "TF_CONFIG": tf_config(index, worker=[f"127.0.0.1:{port}" for port in ports]),
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    with open(folder / f"{end}-{index}.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, __file__, str(folder), str(index), end],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory):
    """Run on two machines, one of which is killed, and then again; return folder and exit codes."""
    folder = tmp_path_factory.mktemp("cluster")
    write_text(folder)
    codes = {}
    for end in ("killed", "finished"):
        ports = free_ports(2)
        machines = [start(folder, index, ports, end) for index in range(2)]
        try:
            codes[end] = [machine.wait(timeout=600) for machine in machines]
        finally:
            for machine in machines:
                machine.kill()
    return folder, codes


@pytest.mark.slow
def test_a_lost_machine_ends_the_run_of_the_others(killed_and_resumed):
    folder, codes = killed_and_resumed
    assert codes["killed"] == [75, -signal.SIGKILL]
    *_, last = (folder / "killed-0.log").read_text().splitlines()
    assert last.startswith("error: A run needs all 2 machines to the end, and one was lost")
    assert last.endswith("on all of them: the run resumes from its last checkpoint.")
    assert "Traceback" not in (folder / "killed-0.log").read_text()


@pytest.mark.slow
def test_two_machines_of_which_one_was_killed_end_with_the_weights_of_one(killed_and_resumed):
    folder, codes = killed_and_resumed
    logs = [(folder / f"finished-{index}.log").read_text() for index in range(2)]
    assert codes["finished"] == [0, 0], logs
    train(twenty_steps(folder), folder / "alone")
    assert_same_arrays(*(newest_checkpoint(folder / name) for name in ("run", "alone")))
    # The second machine has loaded what the first one has written.
    names = {path.name for path in (folder / "run").iterdir()}
    assert names == {path.name for path in (folder / "alone").iterdir()}
    assert "resuming after epoch 1 of 2" in logs[0]


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="keras-team/keras#20585")
def test_fit_of_keras_needs_no_strategy_of_ours(killed_and_resumed):
    """If this passes, Keras is mended: remove `ClusterStrategy`."""
    folder, _ = killed_and_resumed
    assert (folder / "plain-fit-0").read_text() == "done"


def fit_without_our_strategy(machines):
    """Return "done" if Keras trains a model on nested inputs under TensorFlow's own `reduce`."""
    import tensorflow as tf

    from keras_transformer.training.machines import ClusterStrategy

    del ClusterStrategy.reduce
    with machines.strategy.scope():
        inputs = {name: keras.Input([1], name=name) for name in ("a", "b")}
        model = keras.Model(inputs, keras.layers.Dense(1)(inputs["a"] + inputs["b"]))
        model.compile("sgd", "mse")
    ones = np.ones([2, 1], "float32")
    data = tf.data.Dataset.from_tensors(({"a": ones, "b": ones}, ones))
    try:
        model.fit(machines.own_rows(data), shuffle=False, verbose=0)
    except Exception as error:
        return repr(error)
    return "done"


def main(folder, index, end):
    from keras_transformer.training import check
    from keras_transformer.training.resume import EpochState
    from pipelines.cli.errors import plain_errors
    from pipelines.cli.process import start_log

    kept = []
    connect, begin = check.connect_machines, EpochState.on_epoch_begin

    def connect_and_keep(*given):
        kept.append(connect(*given))
        return kept[0]

    def begin_or_die(self, epoch, logs=None):
        if (epoch, index, end) == (1, "1", "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        begin(self, epoch, logs)

    check.connect_machines, EpochState.on_epoch_begin = connect_and_keep, begin_or_die
    start_log()
    with plain_errors():
        train(twenty_steps(Path(folder)), Path(folder, "run"))
    Path(folder, f"plain-fit-{index}").write_text(fit_without_our_strategy(kept[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
