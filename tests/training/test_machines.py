"""What TF_CONFIG may say, and what machines do together, with strategies that only pretend."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import dry_run, train
from keras_transformer.training.machines import (
    Cluster,
    Machines,
    StopTogether,
    connect_machines,
    others_may_be_lost,
    read_cluster,
)
from tests.helpers.tf_config import tf_config
from tests.helpers.tiny import toy_experiment

ADDRESSES = ("a:1", "b:1", "c:1")
TEXT = {"train_source": "train.tsv", "validation_source": "validation.tsv"}


@pytest.mark.parametrize("value", ["", "{}", '{"task": {}}', tf_config(0, worker=["a:1"])])
def test_a_single_machine_is_no_cluster(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    assert read_cluster() is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (tf_config(1, worker=["a:1", "b:2"]), Cluster(("a:1", "b:2"), 1)),
        (tf_config("0", worker=["a:1", "b:2"], ps=[]), Cluster(("a:1", "b:2"), 0)),
        (tf_config(0, "chief", worker=["b:2"], chief=["a:1"]), Cluster(("a:1", "b:2"), 0)),
        (tf_config(1, worker=["b:2", "c:3"], chief=["a:1"]), Cluster(("a:1", "b:2", "c:3"), 2)),
    ],
)
def test_the_chief_comes_first(monkeypatch, value, expected):
    monkeypatch.setenv("TF_CONFIG", value)
    assert read_cluster() == expected
    assert expected.is_chief == (expected.index == 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "no attribute 'get'"),
        ('{"cluster": {"worker": 1}}', "not iterable"),
        ('{"cluster": {"worker": [1, 2]}}', "an address is not a host and a port"),
        (tf_config(0, worker=["a", "b"]), "an address is not a host and a port"),
        (tf_config(0, worker=["a:1", "a:1"]), "an address occurs twice"),
        (tf_config(0, "chief", chief=["a:1", "b:1"]), "more than one chief"),
        (tf_config(0, worker=["a:1", "b:1"], ps=["c:1"]), "a run has no ps"),
        (tf_config(0, "evaluator", worker=["a:1"]), "a run has no evaluator"),
        (tf_config(2, worker=["a:1", "b:1"]), "its task, worker 2, is not in its cluster"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "it has no 'type'"),
    ],
)
def test_any_other_tf_config_is_refused(monkeypatch, tmp_path, value, reason):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(ValueError, match="TF_CONFIG must name the chief") as error:
        train(toy_experiment(TEXT), tmp_path / "run")
    assert reason in str(error.value)
    assert str(error.value).endswith("Correct it, or unset it to train on this machine alone.")
    assert not (tmp_path / "run").exists()


def test_a_dry_run_is_refused_on_several_machines(monkeypatch, tmp_path):
    monkeypatch.setenv("TF_CONFIG", tf_config(0, worker=["a:1", "b:1"]))
    with pytest.raises(ValueError, match="`dry_run` supports one machine, received a TF_CONFIG"):
        dry_run(toy_experiment(TEXT), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Sum:
    """A strategy whose sum over machines is a given one, and which keeps what it adds up."""

    def __init__(self, total=None):
        self.total = total
        self.own = None

    def reduce(self, operation, value, axis):
        assert (operation, axis) == ("SUM", None)
        self.own = value
        return value if self.total is None else self.total


def machine(index=0, strategy=None):
    """Return one of three machines."""
    cluster = Cluster(ADDRESSES, index)
    return Machines(strategy=strategy, cluster=cluster, is_chief=cluster.is_chief)


def check_on_all(contents):
    """Call `check_same` on each of three machines, and return their errors."""
    total = 0
    for index, content in enumerate(contents):
        alone = Sum()
        with contextlib.suppress(ValueError):
            machine(index, alone).check_same("text", content, "Give it.")
        total += alone.own
    errors = []
    for index, content in enumerate(contents):
        try:
            machine(index, Sum(total)).check_same("text", content, "Give it.")
        except ValueError as error:
            errors.append(str(error))
    return errors


def test_every_machine_names_those_that_differ_from_the_chief():
    assert check_on_all(["one", b"one", "one"]) == []
    message = (
        "All machines of a run must have the same text, received another on b:1, c:1 than on a:1. "
        "Give it."
    )
    assert check_on_all(["one", "two", "three"]) == [message] * 3


def test_a_machine_has_its_rows_of_each_batch():
    context = SimpleNamespace(num_input_pipelines=3, input_pipeline_id=1)
    strategy = SimpleNamespace(distribute_datasets_from_function=lambda of: of(context))
    sources, labels = np.arange(12).reshape(6, 2), np.arange(6).reshape(6, 1)
    batches = tf.data.Dataset.from_tensors(({"source": sources}, labels))
    ((inputs, targets),) = machine(1, strategy).own_rows(batches)
    np.testing.assert_array_equal(inputs["source"], [[4, 5], [6, 7]])
    np.testing.assert_array_equal(targets, [[2], [3]])
    assert Machines().own_rows(batches) is batches


@pytest.mark.parametrize(("index", "expected"), [(0, ["block", "wait"]), (1, ["wait", "block"])])
def test_the_chief_writes_what_the_others_read(monkeypatch, index, expected):
    events = []
    monkeypatch.setattr(Machines, "wait_for_all", lambda self: events.append("wait"))
    with machine(index).chief_first():
        events.append("block")
    assert events == expected


@pytest.mark.parametrize(("total", "stops"), [(0.0, False), (1.0, True)])
def test_all_machines_stop_when_one_does(total, stops):
    callback = StopTogether(machine(strategy=Sum(tf.constant(total))))
    callback.set_model(SimpleNamespace(stop_training=False))
    callback.on_epoch_end(0, {})
    assert callback.model.stop_training is stops


def test_a_machine_alone_waits_for_nothing_and_stops_by_itself():
    alone = Machines(strategy=None)
    alone.check_same("text", "one", "")
    alone.wait_for_all()
    assert [alone.is_true_on_any(value) for value in (True, False)] == [True, False]


def test_a_lost_machine_is_no_bug():
    lost = tf.errors.UnavailableError(None, None, "The tasks have crashed.")
    with pytest.raises(ConnectionError, match="all 3 machines to the end, and one was lost"):
        with others_may_be_lost(Cluster(ADDRESSES, 1)):
            raise lost
    with pytest.raises(tf.errors.UnavailableError), others_may_be_lost(None):
        raise lost


@pytest.mark.parametrize(
    ("gpus", "training", "message"),
    [
        (["GPU:0", "GPU:1"], {}, "must see one GPU, received 2. Start a task for each"),
        ([], {"replicas": 2}, "must be the number of tasks of TF_CONFIG, 3, received 2"),
        ([], {"max_minutes": 1}, "max_minutes needs a single machine.* training.max_steps"),
    ],
)
def test_what_a_task_cannot_have_is_refused(monkeypatch, tmp_path, gpus, training, message):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    with pytest.raises(ValueError, match=message):
        connect_machines(toy_experiment(TEXT, **training), tmp_path, Cluster(ADDRESSES, 0))
