"""What the machines of a run do together, by TensorFlow's collective operations."""

import contextlib
import hashlib
import logging
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.data import TokenBatches
from keras_transformer.training.checkpoint_directory import Position
from keras_transformer.training.cluster import Cluster
from keras_transformer.training.devices import keep_freed_memory

log = logging.getLogger(__name__)


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


def cluster_strategy(cluster: Cluster, replicas: int | None = None) -> ClusterStrategy:
    """Return the strategy of a run on several machines, each with one GPU or its CPU.

    Call it before any other use of TensorFlow. It waits until all machines have called it.

    Args:
        cluster: The machines.
        replicas: The number of replicas that the configuration asks for, if it does.

    Raises:
        ValueError: If this process sees several GPUs, or the number of replicas is not that of the
            machines.
    """
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
    if not gpus:
        keep_freed_memory()
    log.info("task %d of %d: waiting for the others", cluster.index + 1, count)
    return ClusterStrategy()


def check_same(
    strategy: tf.distribute.Strategy, cluster: Cluster, what: str, content: str | bytes, hint: str
) -> None:
    """Check that all machines have the same of something. Each of them must call this.

    Args:
        strategy: That of `cluster_strategy`.
        cluster: The machines.
        what: What must be the same, for the error.
        content: What this machine has.
        hint: What to do if a machine has another.

    Raises:
        ValueError: On every machine, if one has another content than the chief.
    """
    digest = hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()
    own = int.from_bytes(digest[:7], "big")
    known = [own if i == cluster.index else 0 for i in range(len(cluster.addresses))]
    all_known = strategy.reduce("SUM", tf.constant(known, tf.int64), axis=None).numpy().tolist()
    others = [a for a, n in zip(cluster.addresses, all_known, strict=True) if n != all_known[0]]
    if others:
        raise ValueError(
            f"All machines of a run must have the same {what}, received another on "
            f"{', '.join(others)} than on {cluster.addresses[0]}. {hint}"
        )


def check_same_text(
    strategy: tf.distribute.Strategy, cluster: Cluster, batches: TokenBatches, position: Position
) -> None:
    """Check that all machines begin with the same batch of the same text, after the same step.

    Raises:
        ValueError: On every machine, if one differs from the chief.
    """
    first = next(iter(batches.dataset()))
    ids = b"".join(values.numpy().tobytes() for values in tf.nest.flatten(first))
    content = f"{position} {len(batches)} {batches.tokens} ".encode() + ids
    hint = "Give all of them the same files, and start the same command again."
    check_same(strategy, cluster, "text", content, hint)


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Wait until all machines have called this."""
    _sum(strategy, 1.0)


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy, cluster: Cluster | None) -> Iterator[None]:
    """Run a block on the chief, and then on the other machines, which find what it has written."""
    if cluster and not cluster.is_chief:
        wait_for_all(strategy)
    yield
    if cluster and cluster.is_chief:
        wait_for_all(strategy)


def own_rows(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> Any:
    """Return a dataset for `fit` with the rows of this machine in each batch of all machines.

    Args:
        strategy: That of `cluster_strategy`.
        dataset: The batches of all machines, the same on each of them. Their rows are a multiple of
            the number of machines.
    """

    def of_machine(context):
        count, index = context.num_input_pipelines, context.input_pipeline_id

        def rows(values):
            size = tf.shape(values)[0] // count
            return values[index * size : (index + 1) * size]

        return dataset.map(lambda *batch: tf.nest.map_structure(rows, batch))

    return strategy.distribute_datasets_from_function(of_machine)


class StopTogether(keras.callbacks.Callback):
    """End each epoch on all machines at once, and stop on all when one of them stops.

    Put it last: the others wait here until the chief has validated and saved.

    Args:
        strategy: That of `cluster_strategy`.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        super().__init__()
        self.strategy = strategy

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.model.stop_training = _sum(self.strategy, float(self.model.stop_training)) > 0


def _sum(strategy: tf.distribute.Strategy, value: float) -> float:
    return float(strategy.reduce("SUM", tf.constant(value), axis=None))


@contextlib.contextmanager
def others_may_be_lost(cluster: Cluster) -> Iterator[None]:
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
        raise ConnectionError(
            f"A run needs all {len(cluster.addresses)} machines to the end, and one was lost "
            f"({type(error).__name__}). If it has no error of its own, give the same command again "
            "on all of them: the run resumes from its last checkpoint."
        ) from error
