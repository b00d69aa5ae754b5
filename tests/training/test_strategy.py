import pytest
import tensorflow as tf
from tests.helpers.tiny import run_python

from keras_transformer.training import replica_strategy

THREE_REPLICAS = """
from keras_transformer.training import replica_strategy
import tensorflow as tf
strategy = replica_strategy(3)
again = replica_strategy(3)
tf.constant(1)
names = [device.name for device in tf.config.list_logical_devices("CPU")]
print(strategy.num_replicas_in_sync, again.num_replicas_in_sync, names)
print(strategy.extended.worker_devices)
"""


@pytest.mark.parametrize("replicas", [None, 1])
def test_one_device_needs_no_strategy(replicas):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("for machines without a GPU")
    assert replica_strategy(replicas) is tf.distribute.get_strategy()


def test_cpu_replicas_are_logical_devices():
    devices = [f"/device:CPU:{i}" for i in range(3)]
    counts, workers = run_python("-c", THREE_REPLICAS).stdout.splitlines()[-2:]
    assert counts == f"3 3 {devices}"
    assert workers == str(tuple(f"/job:localhost/replica:0/task:0{name}" for name in devices))


def test_too_few_replicas_are_refused():
    with pytest.raises(ValueError, match="replicas must be at least 1, received 0"):
        replica_strategy(0)


def test_more_replicas_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])
    with pytest.raises(ValueError, match="at most the number of GPUs, 2; received 3"):
        replica_strategy(3)


def test_cpu_devices_cannot_be_made_once_tensorflow_runs():
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("for machines without a GPU")
    tf.constant(1)
    with pytest.raises(RuntimeError, match="2 replicas need 2 logical CPU .* has started with 1"):
        replica_strategy(2)
