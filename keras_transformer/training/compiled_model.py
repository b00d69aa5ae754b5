"""The model of a run, with the optimizer and the loss of its recipe."""

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.recipe import run_recipe


def compiled_model(
    config: ExperimentConfig,
    strategy: tf.distribute.Strategy,
    parts: int = 1,
    teachers: Sequence[Transformer] = (),
) -> TrainingTransformer:
    """Return a new model, compiled with the optimizer and the loss of its recipe.

    Args:
        config: The experiment.
        strategy: The strategy in whose scope the model is created.
        parts: Number of parts of a training step; more than one needs a single replica.
        teachers: Models for distillation.

    Returns:
        The model, with random weights.
    """
    training = config.training
    with strategy.scope():
        model = TrainingTransformer(
            config.model,
            parts=parts,
            accumulation=training.accumulation,
            clip_norm=training.clip_norm,
            teachers=teachers,
            distillation=training.distillation,
            dtype=training.precision,
        )
        recipe = run_recipe(model, training)
        model.compile(**{**recipe, "jit_compile": _is_compiled(config, strategy)})
    return model


def _is_compiled(config: ExperimentConfig, strategy: tf.distribute.Strategy) -> bool:
    """Return whether XLA compiles the steps: on one GPU, for batches of few shapes."""
    is_single = strategy.num_replicas_in_sync == 1
    is_whole = config.training.accumulation == 1  # XLA refuses parts of which it counts the rows.
    is_on_gpu = bool(tf.config.list_physical_devices("GPU"))
    return config.data.static_shapes is not None and is_single and is_whole and is_on_gpu
