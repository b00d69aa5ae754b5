"""Build the model of a run, with the weights that it goes on from, and what validates it."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.training.check import Checked
from keras_transformer.training.machines import Machines
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.recipe import run_recipe
from keras_transformer.training.run_directory import claim
from keras_transformer.training.validation import Validation, greedy_validation
from keras_transformer.translation.saved import SavedTranslator
from keras_transformer.utils.devices import has_gpu


def build_model(
    config: ExperimentConfig, checked: Checked, text: PreparedText
) -> tuple[TrainingTransformer, Validation | None]:
    """Return a run's compiled model, with the weights to go on from, and what validates it, if any.

    The directory is claimed before these weights are loaded. Of several machines, the chief
    validates.

    Raises:
        ValueError: If the model to start from is int8 or damaged, or a checkpoint is damaged.
    """
    machines = checked.machines
    model = compiled_model(config, machines, checked.teachers)
    freeze_output_bias(model, text.tokenizers[0])
    validation = None
    if machines.is_chief:
        share = config.training.batch_tokens // machines.replicas
        pairs = text.validation_pairs
        validation = greedy_validation(config, model, text.tokenizers, pairs, share)
    first_weights = _first_weights(checked.start) if checked.start else None
    # Only encoded text is written before this, so that a mistake leaves the directory free.
    if machines.cluster is None:
        claim(checked.directory, config, text.tokenizers, text.inputs, checked.start)
    with machines.strategy.scope():
        checked.checkpoints.restore(model)
        if first_weights:
            model.set_weights(first_weights)
    return model, validation


def compiled_model(
    config: ExperimentConfig, machines: Machines, teachers: Sequence[Transformer] = ()
) -> TrainingTransformer:
    """Return a new model with random weights, compiled with the recipe of its run."""
    training, compiles = config.training, config.training.jit_compile
    is_single, is_whole = machines.replicas == 1, training.accumulation == 1
    if compiles is None:  # For batches of many shapes, XLA would compile as many steps.
        compiles = has_gpu() and is_single and config.data.static_shapes is not None
    keras.utils.set_random_seed(training.seed)  # The teachers have drawn random numbers.
    with machines.strategy.scope():
        model = TrainingTransformer(
            config.model,
            parts=machines.parts if is_single and is_whole and not compiles else 1,
            accumulation=training.accumulation,
            clip_norm=training.clip_norm,
            teachers=teachers,
            distillation=training.distillation,
            dtype=training.precision,
        )
        model.compile(**{**run_recipe(model, training), "jit_compile": compiles})
    return model


def freeze_output_bias(model: Transformer, source: Tokenizer) -> None:
    """Freeze the bias on the logits of a model of many languages, as Hugging Face does.

    M2M100 and NLLB have none, and could not be written back with one.
    """
    if source.languages and model.output_bias is not None:
        model.output_bias.trainable = False


def _first_weights(start: SavedTranslator) -> list[np.ndarray]:
    """Read the weights of the model that a run starts from."""
    model = start.read_model()
    if model.quantization_mode is not None:
        raise ValueError(
            f"A run needs a model that can be trained, received {start.path.parent}, which is "
            f"{model.quantization_mode}. Start from the model that was quantized."
        )
    return model.without_lora().get_weights()
