"""The paper's optimizer, learning rate and loss (Sections 5.3 and 5.4) for `compile`."""

import logging
import math
from typing import Any

from keras_transformer.config import TrainingConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenAccuracy
from keras_transformer.model import Transformer
from keras_transformer.optimizers import FusedAdam
from keras_transformer.schedules import NoamSchedule

log = logging.getLogger(__name__)


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
        label_smoothing: The share of each target distribution that is spread over the vocabulary.
        beta_1: Adam's decay rate of the mean gradient.
        beta_2: Adam's decay rate of the mean squared gradient.
        epsilon: Adam's epsilon.

    Returns:
        `optimizer`, `loss`, `metrics` and `jit_compile`. XLA compiles the steps on a single GPU and
        with JAX, not on CPUs with TensorFlow.

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
        "jit_compile": "auto",
    }


def run_recipe(model: Transformer, training: TrainingConfig) -> dict[str, Any]:
    """Return what `paper_recipe` does, for a run, which computes its metrics in the validation."""
    names = (
        "warmup_steps",
        "learning_rate_scale",
        "label_smoothing",
        "beta_1",
        "beta_2",
        "epsilon",
    )
    recipe = paper_recipe(model, **{name: getattr(training, name) for name in names})
    return {**recipe, "metrics": None}


def most_steps(training: TrainingConfig, steps_per_epoch: int) -> int:
    """Return the steps of a run that ends with its epochs or its `training.max_steps`.

    >>> most_steps(TrainingConfig(epochs=3, max_steps=250), steps_per_epoch=100)
    250
    """
    steps = training.epochs * steps_per_epoch
    return min(steps, training.max_steps or steps)


def check_warmup(
    training: TrainingConfig, steps_per_epoch: int, smallest_batch: int, has_begun: bool
) -> None:
    """Check that the warm-up of a run ends within its steps.

    Args:
        training: The recipe.
        steps_per_epoch: Batches per epoch.
        smallest_batch: Tokens that every batch must have room for.
        has_begun: Whether the run has a checkpoint. Such a run keeps the recipe that it started
            with: it may still get more epochs, so it only gets a warning.

    Raises:
        ValueError: If the warm-up of a new run has more steps than the run.
    """
    steps, warmup = most_steps(training, steps_per_epoch), training.warmup_steps
    if warmup <= steps:
        return
    # `paper_recipe` advises a warm-up of at most a quarter of all steps.
    remedies = [f"training.warmup_steps to {max(1, steps // 4):,} or less"]
    batch_tokens = training.batch_tokens * steps // (4 * warmup)
    if steps == training.max_steps:
        remedies.append(f"training.max_steps to {4 * warmup:,} or more")
    else:
        epochs = math.ceil(4 * warmup / steps_per_epoch)
        remedies.append(f"training.epochs to {epochs:,} or more")
        if training.steps_per_epoch is not None:
            of_epoch = math.ceil(4 * warmup / training.epochs)
            remedies.append(f"training.steps_per_epoch to {of_epoch:,} or more")
        elif batch_tokens >= smallest_batch:
            remedies.append(f"training.batch_tokens to {batch_tokens:,} or less")
    problem = (
        f"received {warmup:,} warm-up steps for {steps:,} steps: the learning rate would rise to "
        f"{steps / warmup:.1%} of its highest value only"
    )
    if has_begun:
        log.warning("the warm-up does not end within the run: %s", problem)
        return
    raise ValueError(
        f"The warm-up must end within the run, {problem}. Set {', or '.join(remedies)}."
    )
