"""The paper's optimizer, learning rate and loss (Sections 5.3 and 5.4) for `compile`."""

from typing import Any

import keras

from keras_transformer.config import TrainingConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenAccuracy
from keras_transformer.model import Transformer
from keras_transformer.optimizers import FusedAdam
from keras_transformer.schedules import NoamSchedule


def paper_recipe(
    model: Transformer,
    warmup_steps: int = 4000,
    learning_rate_scale: float = 1.0,
    label_smoothing: float = 0.1,
    beta_1: float = 0.9,
    beta_2: float = 0.98,
    epsilon: float = 1e-9,
) -> dict[str, Any]:
    """Return the arguments with which `compile` sets up the paper's training.

    Args:
        model: The model, whose width sets the learning rate.
        warmup_steps: The number of steps in which the learning rate rises. The paper's 4,000 suit
            its 100,000 steps; use a quarter of all steps or less.
        learning_rate_scale: A factor of the learning rate.
        label_smoothing: The share of a token's target that all tokens of the vocabulary divide.
        beta_1: Adam's decay rate of the mean gradient.
        beta_2: Adam's decay rate of the mean squared gradient.
        epsilon: Adam's epsilon.

    Returns:
        `optimizer`, `loss`, `metrics` and `jit_compile`. On TensorFlow, XLA compiles nothing: it
        would do so for each of many shapes of batches. JAX always compiles.

    >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
    >>> model.compile(**paper_recipe(model, warmup_steps=400))
    >>> model.optimizer.beta_2
    0.98
    """
    schedule = NoamSchedule(model.config.d_model, warmup_steps, learning_rate_scale)
    return {
        "optimizer": FusedAdam(schedule, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon),
        "loss": LabelSmoothedCrossEntropy(label_smoothing),
        "metrics": [TokenAccuracy()],
        "jit_compile": "auto" if keras.backend.backend() == "jax" else False,
    }


def run_recipe(model: Transformer, training: TrainingConfig) -> dict[str, Any]:
    """Return what `paper_recipe` does for a run, whose validation has metrics of its own."""
    recipe = paper_recipe(
        model,
        training.warmup_steps,
        training.learning_rate_scale,
        training.label_smoothing,
        training.beta_1,
        training.beta_2,
        training.epsilon,
    )
    return {**recipe, "metrics": None}
