import functools
import os
import platform
from types import SimpleNamespace

import pytest
import tensorflow as tf

from keras_transformer.training import devices, machines, replica_strategy, run
from tests.helpers.tiny import run_python, toy_experiment, write_toy_text

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


@pytest.mark.slow
def test_cpu_replicas_are_logical_devices():
    names = [f"/device:CPU:{i}" for i in range(3)]
    counts, workers = run_python("-c", THREE_REPLICAS).stdout.splitlines()[-2:]
    assert counts == f"3 3 {names}"
    assert workers == str(tuple(f"/job:localhost/replica:0/task:0{name}" for name in names))


def test_fewer_than_one_replica_is_refused():
    with pytest.raises(ValueError, match="replicas must be at least 1, received 0"):
        replica_strategy(0)


def test_more_replicas_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])
    with pytest.raises(ValueError, match="at most the number of GPUs, 2; received 3"):
        replica_strategy(3)


def test_cpu_devices_cannot_be_divided_after_tensorflow_has_started():
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("for machines without a GPU")
    tf.constant(1)
    with pytest.raises(RuntimeError, match="2 replicas need 2 logical CPU .* has started with 1"):
        replica_strategy(2)


def fake_threading(threads, has_started):
    """Return `tf.config.threading` of a process that has started or not, with these threads."""

    def set_threads(kind, number):
        if has_started:
            raise RuntimeError("Threads cannot be modified after initialization.")
        threads[kind] = number

    methods = {}
    for kind in threads:
        methods[f"get_{kind}_op_parallelism_threads"] = functools.partial(threads.get, kind)
        methods[f"set_{kind}_op_parallelism_threads"] = functools.partial(set_threads, kind)
    return SimpleNamespace(**methods)


@pytest.fixture
def prepared(monkeypatch):
    """Return a function that simulates `prepare_cpu` on a number of cores.

    It returns the parts of a step, the threads of an operation, and the operations at a time.
    """
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(devices, "keep_freed_memory", lambda: True)

    def prepare(cores, intra=0, has_started=False):
        threads = {"intra": intra, "inter": 0}
        monkeypatch.setattr(tf.config, "threading", fake_threading(threads, has_started))
        monkeypatch.setattr(devices, "available_cores", lambda: cores)
        parts = devices.prepare_cpu()
        assert devices.prepare_cpu() == parts  # A second call changes nothing.
        return parts, threads["intra"], threads["inter"]

    return prepare


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (1, (1, 0, 0)),
        (2, (2, 1, 2)),
        (3, (3, 1, 3)),
        (4, (4, 1, 4)),
        (6, (1, 0, 0)),
        (16, (1, 0, 0)),
    ],
)
def test_up_to_four_cores_get_a_part_each_and_more_share_operations(prepared, cores, expected):
    assert prepared(cores) == expected


@pytest.mark.parametrize(
    ("environment", "process"),
    [
        ({}, {"intra": 2}),
        ({}, {"has_started": True}),
        ({"TF_NUM_INTRAOP_THREADS": "2"}, {}),
        ({"TF_NUM_INTEROP_THREADS": "2"}, {}),
    ],
)
def test_threads_that_are_set_or_used_stay_as_they_are(prepared, monkeypatch, environment, process):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert prepared(2, **process) == (1, process.get("intra", 0), 0)


PARTS_ON_TWO_CORES = """
import os
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import tensorflow as tf
from keras_transformer.training import prepare_cpu

parts, threading = prepare_cpu(), tf.config.threading
tf.zeros([])  # TensorFlow starts, and accepts the settings.
intra = threading.get_intra_op_parallelism_threads()
print(parts, prepare_cpu(), intra, threading.get_inter_op_parallelism_threads())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.system() != "Linux", reason="needs sched_setaffinity")
def test_tensorflow_starts_with_the_threads_of_two_cores(monkeypatch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert run_python("-c", PARTS_ON_TWO_CORES).stdout.split() == ["2", "2", "1", "2"]


def test_with_a_gpu_nothing_changes(monkeypatch):
    monkeypatch.setattr(devices, "keep_freed_memory", lambda: pytest.fail("it keeps memory"))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    assert devices.prepare_cpu() == 1


def test_train_prepares_the_cpu_before_it_reads_text(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(machines, "prepare_cpu", lambda: calls.append("prepare") or 1)
    data = write_toy_text(tmp_path, train=20) | {"train_source": str(tmp_path / "none")}
    with pytest.raises(FileNotFoundError):
        run.train(toy_experiment(data), tmp_path / "run")
    assert calls == ["prepare"]


PAGES_OF_STEPS = """
import resource
import sys
import tensorflow as tf
from keras_transformer.training.devices import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

@tf.function
def step(x):
    large = tf.fill([25_000_000], x) * 3.0  # 100 MB, larger than a thread's arena can hold.
    return tf.reduce_sum(large[:10_000_000] * 2.0) + tf.reduce_sum(large)

def of_four_steps():
    before = pages()
    for _ in range(4):
        step(tf.constant(2.0)).numpy()
    return (pages() - before) / 4

# The first turns find memory for each thread.
print(min(of_four_steps() for _ in range(5)))
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_with_kept_memory_a_step_requests_no_new_pages():
    usual, kept = (
        float(run_python("-c", PAGES_OF_STEPS, name).stdout) for name in ("usual", "keep")
    )
    if usual < 5000:
        pytest.skip(f"by default, a step requests only {usual:.0f} pages here")
    assert kept < usual / 20
