"""What the machines of a run do together, with strategies that only pretend to be several."""

import contextlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import machines
from keras_transformer.training.machines import (
    Cluster,
    StopTogether,
    check_same,
    chief_first,
    cluster_strategy,
    others_may_be_lost,
    own_rows,
)

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.distribute needs the TensorFlow backend"
)

ADDRESSES = ("a:1", "b:1", "c:1")


class Sum:
    """A strategy whose sum over machines is a given one, and which keeps what it adds up."""

    def __init__(self, total=None):
        self.total = total
        self.own = None

    def reduce(self, operation, value, axis):
        assert (operation, axis) == ("SUM", None)
        self.own = value
        return value if self.total is None else self.total


def check_on_all(contents):
    """Call `check_same` on each of three machines, and return their errors."""
    total = 0
    for index, content in enumerate(contents):
        alone = Sum()
        with contextlib.suppress(ValueError):
            check_same(alone, Cluster(ADDRESSES, index), "text", content, "Give it.")
        total += alone.own
    errors = []
    for index, content in enumerate(contents):
        try:
            check_same(Sum(total), Cluster(ADDRESSES, index), "text", content, "Give it.")
        except ValueError as error:
            errors.append(str(error))
    return errors


def test_machines_with_the_same_content_go_on():
    assert check_on_all(["one", b"one", "one"]) == []


def test_every_machine_names_those_that_differ_from_the_chief():
    message = (
        "All machines of a run must have the same text, received another on b:1, c:1 than on a:1. "
        "Give it."
    )
    assert check_on_all(["one", "two", "three"]) == [message] * 3


def test_a_machine_has_its_rows_of_each_batch():
    machine = SimpleNamespace(num_input_pipelines=3, input_pipeline_id=1)
    strategy = SimpleNamespace(distribute_datasets_from_function=lambda of: of(machine))
    sources, labels = np.arange(12).reshape(6, 2), np.arange(6).reshape(6, 1)
    batches = tf.data.Dataset.from_tensors(({"source": sources}, labels))
    ((inputs, targets),) = own_rows(strategy, batches)
    np.testing.assert_array_equal(inputs["source"], [[4, 5], [6, 7]])
    np.testing.assert_array_equal(targets, [[2], [3]])


@pytest.mark.parametrize(("index", "expected"), [(0, ["block", "wait"]), (1, ["wait", "block"])])
def test_the_chief_writes_what_the_others_read(monkeypatch, index, expected):
    events = []
    monkeypatch.setattr(machines, "wait_for_all", lambda strategy: events.append("wait"))
    for cluster in (Cluster(ADDRESSES, index), None):
        with chief_first(None, cluster):
            events.append("block")
    assert events == [*expected, "block"]


@pytest.mark.parametrize(("total", "stops"), [(0.0, False), (1.0, True)])
def test_all_machines_stop_when_one_does(total, stops):
    callback = StopTogether(Sum(tf.constant(total)))
    callback.set_model(SimpleNamespace(stop_training=False))
    callback.on_epoch_end(0, {})
    assert callback.model.stop_training is stops


def test_a_lost_machine_is_no_bug():
    with pytest.raises(ConnectionError, match="all 3 machines to the end, and one was lost"):
        with others_may_be_lost(Cluster(ADDRESSES, 1)):
            raise tf.errors.UnavailableError(None, None, "The tasks have crashed.")


def test_a_task_has_one_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])
    with pytest.raises(ValueError, match="must see one GPU, received 2. Start a task for each"):
        cluster_strategy(Cluster(ADDRESSES, 0))


def test_a_task_is_one_replica():
    with pytest.raises(ValueError, match="must be the number of tasks of TF_CONFIG, 3, received 2"):
        cluster_strategy(Cluster(ADDRESSES, 0), replicas=2)
