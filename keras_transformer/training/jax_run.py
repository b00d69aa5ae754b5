"""A training run on JAX: the same directory, with steps that XLA compiles."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.data import TokenBatches
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.model import Transformer
from keras_transformer.training.check import check_run
from keras_transformer.training.checkpoints import arrays_of_logs
from keras_transformer.training.csv_tables import EpochTable
from keras_transformer.training.machines import read_cluster
from keras_transformer.training.prepare import PreparedText, prepare_text, static_widths
from keras_transformer.training.recipe import run_recipe
from keras_transformer.training.resume import EpochState
from keras_transformer.training.run_directory import claim, locked_directory, read_state, settle
from keras_transformer.training.stopping import FiniteLoss
from keras_transformer.training.validation import validation_sample

log = logging.getLogger(__name__)


def train_on_jax(config: ExperimentConfig, directory: str | os.PathLike) -> None:
    """Train a model on all devices of JAX, up to its last epoch.

    The directory gets what `train` writes there, except the final model: BLEU and the choice of
    weights need TensorFlow. Call `train`, on TensorFlow, with the same arguments to finish the run.
    Epochs are validated by likelihood, and a run resumes after its last complete epoch.

    Args:
        config: The experiment.
        directory: The run directory.

    Raises:
        RuntimeError: If the Keras backend is not JAX.
        ValueError: If an option is not available on JAX, or `train` raises it.

    Example, in a process with the environment variable KERAS_BACKEND=jax:

    ```python
    data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 8000}, "data": data})
    train_on_jax(config, "runs/en_de")
    ```
    """
    if keras.backend.backend() != "jax":
        raise RuntimeError(
            f"train_on_jax needs the JAX backend, received {keras.backend.backend()}. Set the "
            "environment variable KERAS_BACKEND=jax, or call train."
        )
    config = settle(config, Path(directory))
    _check_options(config)
    if read_cluster():
        raise ValueError(
            "A run on JAX trains on one machine, received a TF_CONFIG with several tasks. Unset it."
        )
    if read_state(Path(directory), config).is_finished:
        log.info("%s is finished and stays as it is", directory)
        return
    tf.config.set_visible_devices([], "GPU")  # It only reads text, and would take their memory.
    with locked_directory(Path(directory)), _all_devices() as devices:
        _train(config, Path(directory), devices)


def _check_options(config: ExperimentConfig) -> None:
    """Raise a ValueError that names all options of a configuration that JAX lacks."""
    training, problems = config.training, []
    if config.data.static_shapes is None or training.jit_compile is False:
        problems.append("data.static_shapes must be set, and training.jit_compile not be false")
    unavailable = {
        "training.accumulation": (training.accumulation, 1),
        "training.average": (training.average, "last"),
        "training.clip_norm": (training.clip_norm, None),
        "training.checkpoint_steps": (training.checkpoint_steps, None),
        "training.init_from": (training.init_from, None),
        "training.max_minutes": (training.max_minutes, None),
        "training.max_steps": (training.max_steps, None),
        "training.patience": (training.patience, None),
        "training.replicas": (training.replicas, None),
        "training.teachers": (training.teachers, []),
    }
    problems += [
        f"{name} must be {default!r}, received {value!r}"
        for name, (value, default) in unavailable.items()
        if value != default
    ]
    if problems:
        raise ValueError(
            f"A run on JAX has fewer options: {'; '.join(problems)}. Change them, or train with "
            "TensorFlow."
        )


@contextlib.contextmanager
def _all_devices() -> Iterator[list[str]]:
    """Divide every batch over the devices in the block, if there are several."""
    devices = keras.distribution.list_devices()
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    try:
        yield devices
    finally:
        keras.distribution.set_distribution(None)


def _train(config: ExperimentConfig, directory: Path, devices: list[str]) -> None:
    training = config.training
    checked = check_run(config, directory, has_devices=False)
    checkpoints = checked.checkpoints
    if checkpoints.position().steps:
        raise ValueError(
            f"A run on JAX resumes after a complete epoch, received {checkpoints.newest()}. "
            "Complete this epoch with TensorFlow."
        )
    text = prepare_text(config, checked, len(devices))
    keras.utils.set_random_seed(training.seed)
    model = Transformer(config.model, dtype=training.precision)
    model.compile(**run_recipe(model, training))
    validation = _Validation(config, model, text, len(devices))
    claim(directory, config, text.tokenizers, text.inputs)
    checkpoints.restore(model)
    batches = text.batches
    facts = f"{model.count_params():,}", len(batches), ", ".join(devices)
    log.info("%s parameters, %d batches per epoch, on %s", *facts)
    state = EpochState(batches, checkpoints)
    save = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: checkpoints.save_epoch(
            model, epoch + 1, arrays=arrays_of_logs(logs)
        )
    )
    finite = FiniteLoss(state, text.tokenizers[0])
    # Steps then need not wait for what these do with the loss of the step before.
    state.async_safe = finite.async_safe = True
    batches.epoch, _ = checkpoints.position()
    model.fit(
        _without_end(batches),
        steps_per_epoch=len(batches),
        initial_epoch=batches.epoch,
        epochs=training.epochs,
        shuffle=False,
        verbose=2,
        callbacks=[
            state,
            finite,
            validation,
            save,
            EpochTable(directory / "epochs.csv", checkpoints),
        ],
    )


def _without_end(batches: TokenBatches) -> Iterator[tuple[dict[str, Any], Any]]:
    while True:
        yield from batches


class _Validation(keras.callbacks.Callback):
    """Add `val_nll`, `val_accuracy`, `learning_rate` and `steps` to the logs of each epoch."""

    def __init__(
        self, config: ExperimentConfig, model: Transformer, text: PreparedText, devices: int
    ):
        super().__init__()
        _, encoded = validation_sample(config, text.tokenizers, text.validation_pairs)
        widths = static_widths(config, encoded)
        self.batches = TokenBatches(
            encoded,
            max(config.training.batch_tokens, widths[-1] if widths else 0),
            num_replicas=devices,
            shuffle=False,
            widths=widths,
        )
        inputs = {
            name: keras.Input([None], dtype="int32", name=name) for name in ("source", "target")
        }
        self.evaluator = keras.Model(inputs, model(inputs))
        self.evaluator.compile(metrics=[NegativeLogLikelihood("nll"), TokenAccuracy("accuracy")])

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        values = self.evaluator.evaluate(
            _without_end(self.batches), steps=len(self.batches), verbose=0, return_dict=True
        )
        if logs is not None:
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)
            logs["steps"] = int(self.model.optimizer.iterations)
            logs |= {f"val_{name}": values[name] for name in ("nll", "accuracy")}
