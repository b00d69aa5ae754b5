"""Checks that end a run before it trains for nothing: its warm-up, its loss."""

import logging
import math
from typing import Any

import keras

from keras_transformer.config import TrainingConfig
from keras_transformer.data import TokenBatches
from keras_transformer.text import Tokenizer
from keras_transformer.training.checkpoints import not_finite

log = logging.getLogger(__name__)

_SHOWN = 3
"""Number of sentences of a batch that an error quotes."""


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
    steps, warmup = training.epochs * steps_per_epoch, training.warmup_steps
    if warmup <= steps:
        return
    # `paper_recipe` advises a warm-up of at most a quarter of all steps.
    remedies = [
        f"training.warmup_steps to {max(1, steps // 4):,} or less",
        f"training.epochs to {math.ceil(4 * warmup / steps_per_epoch):,} or more",
    ]
    batch_tokens = training.batch_tokens * steps // (4 * warmup)
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


class FiniteLoss(keras.callbacks.Callback):
    """Stop training when the loss or the weights are NaN or infinite.

    Put it before callbacks that validate or save: they never see such weights.

    Args:
        batches: The training text.
        tokenizer: The tokenizer of the source, to quote sentences.

    Raises:
        FloatingPointError: From `fit`, with the epoch, the step and sentences of the batch.
    """

    def __init__(self, batches: TokenBatches, tokenizer: Tokenizer):
        super().__init__()
        self.batches = batches
        self.tokenizer = tokenizer
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Keras has made the logs Python numbers for its own callbacks, so this waits for nothing.
        # The value is the mean of the epoch, which the first bad batch makes NaN or infinite.
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise self._error(f"The loss must be finite, received {loss}", batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if name := not_finite(self.model):
            problem = f"Weights must be finite, received NaN or infinity in {name}"
            raise self._error(problem, len(self.batches) - 1)

    def _error(self, problem: str, step: int) -> FloatingPointError:
        return FloatingPointError(
            f"{problem}, in epoch {self.epoch + 1} after step {step + 1} of {len(self.batches)}, "
            f"whose batch has {self._sentences(step)}. No checkpoint has this step. Check these "
            "sentences, or train in another directory with a lower training.learning_rate_scale or "
            "more training.warmup_steps."
        )

    def _sentences(self, step: int) -> str:
        """Return the first source sentences of a batch of this epoch, and how many there are."""
        self.batches.epoch, self.batches.step = self.epoch, 0  # The pipeline has moved on.
        inputs, _ = next(iter(self.batches.dataset().skip(step)))
        texts = [text.decode() for text in self.tokenizer.detokenize(inputs["source"]).numpy()]
        shown = [repr(text if len(text) <= 60 else f"{text[:60]}...") for text in texts[:_SHOWN]]
        rest = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return f"the sentences {', '.join(shown)}{rest}"
