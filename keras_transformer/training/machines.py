"""The machines of a run, which TF_CONFIG names, and what they do together."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.data import TokenBatches
from keras_transformer.training.devices import keep_freed_memory, prepare_cpu, replica_strategy
from keras_transformer.utils.checkpoint_files import Position

log = logging.getLogger(__name__)

_JOBS = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The tasks of a run, one process each, and the task of this process.

    >>> Cluster(("first:12345", "second:12345"), index=1).is_chief
    False
    """

    addresses: tuple[str, ...]
    """Host and port of each task, the chief's first."""
    index: int
    """The number of this process's task, from 0."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run directory: it is the chief, or the first worker."""
        return self.index == 0


def read_cluster() -> Cluster | None:
    """Return the machines that TF_CONFIG names, or None if it is not set or names a single one.

    Its form is TensorFlow's, as Kubernetes operators and other cluster managers write it: a cluster
    of a "chief", "worker" or both, each a list of addresses, and the type and index of this task.

    Raises:
        ValueError: If TF_CONFIG is anything else. It is never ignored.

    >>> print(read_cluster())
    None
    """
    text = os.environ.get("TF_CONFIG", "").strip() or "{}"
    try:
        return _cluster(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        task = {"type": "worker", "index": 0}
        example = {"cluster": {"worker": ["a:12345", "b:12345"]}, "task": task}
        raise ValueError(
            f"TF_CONFIG must name the chief and the workers of a run and the task of this process, "
            f"such as {json.dumps(example)}; received {text!r}: {reason}. Correct it, or unset it "
            "to train on this machine alone."
        ) from error


def _cluster(config: dict[str, Any]) -> Cluster | None:
    jobs = {job: list(addresses) for job, addresses in (config.get("cluster") or {}).items()}
    task = config.get("task") or {}
    named = {job for job, addresses in jobs.items() if addresses} | {task.get("type", "worker")}
    if others := sorted(named.difference(_JOBS)):
        raise ValueError(f"a run has no {' and no '.join(others)}")
    if len(jobs.get("chief", ())) > 1:
        raise ValueError("it has more than one chief")
    tasks = [(job, i) for job in _JOBS for i in range(len(jobs.get(job, ())))]
    addresses = tuple(jobs[job][i] for job, i in tasks)
    if not all(isinstance(address, str) and ":" in address for address in addresses):
        raise ValueError("an address is not a host and a port")
    if len(set(addresses)) < len(addresses):
        raise ValueError("an address occurs twice")
    if len(addresses) < 2:
        return None
    own = task["type"], int(task["index"])
    if own not in tasks:
        raise ValueError(f"its task, {own[0]} {own[1]}, is not in its cluster")
    return Cluster(addresses, tasks.index(own))


@contextlib.contextmanager
def others_may_be_lost(cluster: Cluster | None) -> Iterator[None]:
    """Turn TensorFlow's error for a machine that is lost into one that says what to do.

    Raises:
        ConnectionError: If another machine of the cluster is lost in the block.
    """
    try:
        yield
    except (
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.FailedPreconditionError,
        tf.errors.UnavailableError,
    ) as error:
        if cluster is None:
            raise
        raise ConnectionError(
            f"A run needs all {len(cluster.addresses)} machines to the end, and one was lost "
            f"({type(error).__name__}). If it shows no other error, give the same command again "
            "on all of them: the run resumes from its last checkpoint."
        ) from error


class ClusterStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """A strategy for the machines of TF_CONFIG under which `fit` of Keras 3.15 runs.

    Keras asks `reduce` for the mean of a nested batch, of which it needs the shapes, and for the
    mean of a loss over an axis that it does not have (keras-team/keras#20585).
    """

    def reduce(self, reduce_op: Any, value: Any, axis: int | None) -> Any:
        if isinstance(value, dict | list | tuple):
            return tf.nest.map_structure(lambda v: self.experimental_local_results(v)[0], value)
        if self.experimental_local_results(value)[0].shape.rank == 0:
            axis = None
        return super().reduce(reduce_op, value, axis)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machines:
    """The devices of a run, and what its machines do together: nothing if there is only one.

    All machines call the same methods in the same order.
    """

    strategy: tf.distribute.Strategy = dataclasses.field(default_factory=tf.distribute.get_strategy)
    """The strategy of all devices of all machines."""
    replicas: int = 1
    """Number of devices that share each batch."""
    parts: int = 1
    """Number of parts of a step that a single device computes at the same time."""
    cluster: Cluster | None = None
    """The machines, if there are several."""
    is_chief: bool = True
    """Whether this machine validates, saves and chooses, alone or for the others."""

    def check_same(self, what: str, content: str | bytes, hint: str) -> None:
        """Check that all machines have the same of something.

        Args:
            what: What must be the same, for the error.
            content: What this machine has.
            hint: What to do if a machine has another.

        Raises:
            ValueError: On every machine, if one has another content than the chief.
        """
        if self.cluster is None:
            return
        digest = hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()
        own, addresses = int.from_bytes(digest[:7], "big"), self.cluster.addresses
        known = [own if i == self.cluster.index else 0 for i in range(len(addresses))]
        sums = self.strategy.reduce("SUM", tf.constant(known, tf.int64), axis=None).numpy().tolist()
        others = [a for a, n in zip(addresses, sums, strict=True) if n != sums[0]]
        if others:
            raise ValueError(
                f"All machines of a run must have the same {what}, received another on "
                f"{', '.join(others)} than on {addresses[0]}. {hint}"
            )

    def check_same_text(self, batches: TokenBatches, position: Position) -> None:
        """Check that all machines begin with the same batch of the same text, after the same step.

        Raises:
            ValueError: On every machine, if one differs from the chief.
        """
        if self.cluster is None:
            return
        first = next(iter(batches.dataset()))
        ids = b"".join(values.numpy().tobytes() for values in tf.nest.flatten(first))
        content = f"{position} {len(batches)} {batches.tokens} ".encode() + ids
        hint = "Give all of them the same files, and start the same command again."
        self.check_same("text", content, hint)

    def wait_for_all(self) -> None:
        """Wait until all machines have called this."""
        self.is_true_on_any(True)

    def is_true_on_any(self, value: bool) -> bool:
        """Return whether a value is true on this machine or on another."""
        if self.cluster is None:
            return value
        return float(self.strategy.reduce("SUM", tf.constant(float(value)), axis=None)) > 0

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Run a block on the chief, and then on the others, which find what it has written."""
        if not self.is_chief:
            self.wait_for_all()
        yield
        if self.is_chief:
            self.wait_for_all()

    def own_rows(self, dataset: tf.data.Dataset) -> Any:
        """Return a dataset for `fit` with the rows of this machine in each batch of all machines.

        Args:
            dataset: The batches of all machines, the same on each of them. Their rows are a
                multiple of the number of machines.
        """
        if self.cluster is None:
            return dataset

        def of_machine(context):
            count, index = context.num_input_pipelines, context.input_pipeline_id

            def rows(values):
                size = tf.shape(values)[0] // count
                return values[index * size : (index + 1) * size]

            return dataset.map(lambda *batch: tf.nest.map_structure(rows, batch))

        return self.strategy.distribute_datasets_from_function(of_machine)


def connect_machines(
    config: ExperimentConfig, directory: Path, cluster: Cluster | None = None
) -> Machines:
    """Prepare the devices of this machine, and wait until all machines have called this.

    Call it before any other use of TensorFlow, when the chief has locked the directory. Each of
    several machines has one GPU or its CPU.

    Raises:
        ValueError: If a machine of several sees several GPUs, or differs from the others in its
            configuration or directory; or the number of replicas is not available.
    """
    replicas = config.training.replicas
    if cluster is None:
        parts, strategy = prepare_cpu(), replica_strategy(replicas)
        return Machines(strategy=strategy, replicas=strategy.num_replicas_in_sync, parts=parts)
    count, gpus = len(cluster.addresses), tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        raise ValueError(
            f"Each of several tasks in TF_CONFIG must see one GPU, received {len(gpus)}. Start a "
            "task for each GPU, with CUDA_VISIBLE_DEVICES."
        )
    if replicas not in (None, count):
        raise ValueError(
            f"training.replicas must be the number of tasks of TF_CONFIG, {count}, received "
            f"{replicas}. Leave it out."
        )
    if config.training.max_minutes is not None:
        raise ValueError(
            "training.max_minutes needs a single machine, whose clock counts, received a TF_CONFIG "
            "with several tasks. Set training.max_steps instead."
        )
    if not gpus:
        keep_freed_memory()
    log.info("task %d of %d: waiting for the others", cluster.index + 1, count)
    strategy, is_chief = ClusterStrategy(), cluster.is_chief
    machines = Machines(strategy=strategy, replicas=count, cluster=cluster, is_chief=is_chief)
    machines.check_same("configuration", repr(config), "Start the same command on all of them.")
    lock = directory / "run.lock"  # The chief has made it.
    content = lock.read_text(encoding="utf-8") if lock.exists() else ""
    hint = "Give a directory that all of them share, such as one of a network file system."
    machines.check_same(f"directory {directory}", content, hint)
    return machines


class StopTogether(keras.callbacks.Callback):
    """End each epoch on all machines at once, and stop on all when one of them stops.

    Put it last: the others wait here until the chief has validated and saved.
    """

    def __init__(self, machines: Machines):
        super().__init__()
        self.machines = machines

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.model.stop_training = self.machines.is_true_on_any(self.model.stop_training)
