"""A training run: from the text that a configuration names to a directory with the model."""

import dataclasses
import logging
import os
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.data import TokenBatches
from keras_transformer.data.encoded_files import digest
from keras_transformer.training.checkpoint_directory import Checkpoints, run_checkpoints
from keras_transformer.training.choice import choose_weights
from keras_transformer.training.cluster import Cluster, read_cluster
from keras_transformer.training.compiled_model import compiled_model
from keras_transformer.training.devices import prepare_cpu, replica_strategy
from keras_transformer.training.directory import check_claim, claim, load_translator
from keras_transformer.training.fitting import fit_epochs
from keras_transformer.training.guards import check_warmup
from keras_transformer.training.lock import locked_directory
from keras_transformer.training.machines import (
    check_same,
    check_same_text,
    chief_first,
    cluster_strategy,
    others_may_be_lost,
    wait_for_all,
)
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.rehearsal import DryRun, rehearse
from keras_transformer.training.scores import NAMES, SELECTING
from keras_transformer.training.start import find_start, initial_weights
from keras_transformer.training.teachers import find_teachers, read_teachers
from keras_transformer.training.text import (
    Pairs,
    read_validation,
    text_facts,
    training_batches,
)
from keras_transformer.training.validation import greedy_validation
from keras_transformer.training.vocabularies import Tokenizers, run_tokenizers
from keras_transformer.translation.saved import SavedTranslator
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)

_SAME_FILES = (
    "The path, size and time of each file count: give a directory that all of them share, such as "
    "one of a network file system."
)


def train(config: ExperimentConfig, directory: str | os.PathLike) -> Translator:
    """Train a model on the text that a configuration names, and save it in a directory.

    The directory gets config.yaml, the vocabularies, logs, checkpoints of the last epochs and of
    the best one, and model.keras: an average (see `training.average`) or the best single
    checkpoint, whichever has the higher validation BLEU. Started again with the same directory, an
    interrupted run resumes from its newest checkpoint, of an epoch or of a step in it. The
    directory is locked until `train` ends.

    A run that starts from a trained model, by `training.init_from`, needs it until it has a first
    checkpoint; `training.teachers` are needed to the end. Neither is changed. Without a GPU,
    `train` also configures the process for CPU training; see `prepare_cpu`.

    With a `TF_CONFIG` of several machines, the same call on each of them makes one run. They share
    the directory, in which only the chief writes.

    Args:
        config: The experiment.
        directory: The run directory.

    Returns:
        The translator of the trained model.

    Raises:
        BlockingIOError: If another run uses the directory.
        FileNotFoundError: If a text file is missing, a vocabulary of a run that resumes, a model to
            start from, or a teacher.
        FloatingPointError: If the loss or a weight becomes NaN or infinite. Checkpoints stay.
        ImportError: If the text is a TFDS dataset and `tensorflow-datasets` is not installed.
        ConnectionError: If a TFDS dataset cannot be downloaded, or another machine is lost.
        OSError: If the directory cannot be written to.
        RuntimeError: If the Keras backend is not TensorFlow.
        ValueError: If the directory holds a run with another configuration; the text, the model to
            start from or a teacher does not fit the configuration; the warm-up is longer than the
            run; TF_CONFIG is not understood, or its machines differ; or a file is damaged.

    Example:

    ```python
    data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 8000}, "data": data})
    translate = train(config, "runs/en_de")
    translate(["Two dogs run through the snow."])
    ```
    """
    _check_backend("train", "; on JAX, call train_on_jax")
    cluster = read_cluster()
    if cluster is None:
        with locked_directory(Path(directory)):
            return _train(config, Path(directory))
    with others_may_be_lost(cluster):
        if cluster.is_chief:
            with locked_directory(Path(directory)):
                return _train(config, Path(directory), cluster)
        return _train(config, Path(directory), cluster)


def dry_run(config: ExperimentConfig, directory: str | os.PathLike) -> DryRun:
    """Rehearse `train`: read the text, build the model, and make a few steps.

    Only the encoded text and its vocabularies are kept, which the run then uses.

    Args:
        config: The experiment.
        directory: The run directory.

    Returns:
        Steps, memory and time of the run; `print` shows them.

    Raises:
        Exception: What `train` would raise before its first step.
        RuntimeError: If the Keras backend is not TensorFlow.
        ValueError: If TF_CONFIG names several machines.

    Example:

    ```python
    print(dry_run(config, "runs/en_de"))
    ```
    """
    _check_backend("dry_run")
    if read_cluster():
        raise ValueError(
            "A dry run is of one machine, received a TF_CONFIG with several tasks. Unset it."
        )
    with locked_directory(Path(directory)):
        check_claim(Path(directory), config)
        prepared = _prepare(config, Path(directory), run_checkpoints(directory, config.training))
        return rehearse(prepared.model, prepared.batches, config.training)


def _check_backend(name: str, otherwise: str = "") -> None:
    if (backend := keras.backend.backend()) != "tensorflow":
        raise RuntimeError(
            f"{name} needs the TensorFlow backend, received {backend}. Set the environment "
            f"variable KERAS_BACKEND=tensorflow{otherwise}."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Prepared:
    """What a run has before its first step, on each of its machines."""

    strategy: tf.distribute.Strategy
    start: SavedTranslator | None
    tokenizers: Tokenizers
    batches: TokenBatches
    validation_pairs: Pairs
    model: TrainingTransformer


def _train(config: ExperimentConfig, directory: Path, cluster: Cluster | None = None) -> Translator:
    is_chief = cluster is None or cluster.is_chief
    check_claim(directory, config)
    checkpoints = run_checkpoints(directory, config.training)
    if is_chief:
        checkpoints.set_aside_damaged()
    run = _prepare(config, directory, checkpoints, cluster)
    strategy, batches, model, tokenizers = run.strategy, run.batches, run.model, run.tokenizers
    share = config.training.batch_tokens // strategy.num_replicas_in_sync
    validation = (
        greedy_validation(config, model, tokenizers, run.validation_pairs, share)
        if is_chief
        else None
    )
    first_weights = initial_weights(run.start) if run.start else None
    # Only encoded text is written before this, so that a mistake leaves the directory free.
    if cluster is None:
        claim(directory, config, tokenizers)
    with strategy.scope():
        checkpoints.restore(model)
        if first_weights:
            model.set_weights(first_weights)
    _log_start(config, run, checkpoints)
    if run.start and validation:
        before = validation.measure()
        score = before[SELECTING[config.data.task]]
        log.info(
            "before training: val_nll %.4f, validation %s (greedy) %.2f",
            before["val_nll"],
            NAMES[SELECTING[config.data.task]],
            score,
        )
    if cluster:
        check_same_text(strategy, cluster, batches, checkpoints.position())
    fit_epochs(config, directory, model, batches, tokenizers[0], validation, checkpoints, strategy)
    if is_chief:
        translator = choose_weights(
            config, directory, checkpoints, tokenizers, run.validation_pairs
        )
    if cluster:
        wait_for_all(strategy)  # The others must not leave while the chief needs them.
    return translator if is_chief else load_translator(directory)


def _prepare(
    config: ExperimentConfig,
    directory: Path,
    checkpoints: Checkpoints,
    cluster: Cluster | None = None,
) -> _Prepared:
    """Read the text and build the model of a run."""
    data, training = config.data, config.training
    parts = prepare_cpu() if cluster is None else 1
    strategy = _strategy(config, directory, cluster)
    has_begun = checkpoints.newest() is not None
    start = find_start(directory, config, has_begun)
    teachers = find_teachers(directory, config, start)
    with strategy.scope():
        teacher_models = read_teachers(teachers, training.precision)
    # After this, nothing but the student draws random numbers.
    keras.utils.set_random_seed(training.seed)
    validation_pairs = read_validation(data)
    replicas = strategy.num_replicas_in_sync
    if cluster:
        check_same(strategy, cluster, "text files", digest(text_facts(data)), _SAME_FILES)
    with chief_first(strategy, cluster):
        tokenizers = run_tokenizers(directory, config, start, teachers)
        batches = training_batches(config, tokenizers, directory, replicas)
        check_warmup(training, len(batches), data.max_length, has_begun)
        if cluster and cluster.is_chief:
            claim(directory, config, tokenizers)
    if replicas > 1 or training.accumulation > 1:
        parts = 1
    return _Prepared(
        strategy=strategy,
        start=start,
        tokenizers=tokenizers,
        batches=batches,
        validation_pairs=validation_pairs,
        model=compiled_model(config, strategy, parts, teacher_models),
    )


def _strategy(
    config: ExperimentConfig, directory: Path, cluster: Cluster | None
) -> tf.distribute.Strategy:
    replicas = config.training.replicas
    if cluster is None:
        return replica_strategy(replicas)
    strategy = cluster_strategy(cluster, replicas)
    hint = "Start the same command on all of them."
    check_same(strategy, cluster, "configuration", repr(config), hint)
    lock = directory / "run.lock"  # The chief has made it.
    content = lock.read_text(encoding="utf-8") if lock.exists() else ""
    hint = "Give a directory that all of them share, such as one of a network file system."
    check_same(strategy, cluster, f"directory {directory}", content, hint)
    return strategy


def _log_start(config: ExperimentConfig, run: _Prepared, checkpoints: Checkpoints) -> None:
    training, steps = config.training, len(run.batches)
    log.info(
        "%s parameters, %d batches per epoch, %d %s",
        f"{run.model.count_params():,}",
        steps,
        run.strategy.num_replicas_in_sync,
        "GPU" if tf.config.list_physical_devices("GPU") else "CPU device",
    )
    log.info(
        "steps in all: %s, warm-up: %s, tokens per batch: up to %s",
        f"{training.epochs * steps:,}",
        f"{training.warmup_steps:,}",
        f"{training.batch_tokens:,}",
    )
    score = SELECTING[config.data.task]
    log.info("%s of an epoch is the validation %s (greedy)", score, NAMES[score])
    if any(position := checkpoints.position()):
        log.info("resuming after %s of %d", position, training.epochs)
