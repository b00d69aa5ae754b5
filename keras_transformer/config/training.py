"""The recipe of a training."""

from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from keras_transformer.config.strict import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TrainingConfig:
    """The training recipe; the defaults are the paper's (Section 5)."""

    epochs: int = Field(default=20, gt=0)
    """Epochs, after each of which the model is validated and saved."""
    steps_per_epoch: int | None = Field(default=None, gt=0)
    """Batches of an epoch; those of one pass over the training text without it."""
    batch_tokens: int = Field(default=25_000, gt=0)
    """Padded tokens of a batch on its longer side, over all replicas (Section 5.1)."""
    warmup_steps: int = Field(default=4000, gt=0)
    """Steps of rising learning rate (Section 5.3)."""
    learning_rate_scale: float = Field(default=1.0, gt=0)
    """Factor on the paper's learning rate."""
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    """Adam's first decay rate."""
    beta_2: float = Field(default=0.98, ge=0, lt=1)
    """Adam's second decay rate."""
    epsilon: float = Field(default=1e-9, gt=0)
    """Adam's epsilon."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass spread over the vocabulary (Section 5.4)."""
    r_drop: float = Field(default=0.0, ge=0)
    """Weight of R-Drop, by which two passes of different dropout are to agree (Wu et al., 2021: 5);
    with it a step takes more than twice the time."""
    teachers: list[str] = Field(default_factory=list)
    """Directories of finished trainings, or of exported models, with the same vocabularies, whose
    mean prediction of each token this one learns beside its label (distillation); a step predicts
    with each of them, too."""
    distillation: float = Field(default=0.5, gt=0, le=1)
    """With teachers, the share of their prediction in what a token is to be."""
    average_checkpoints: int = Field(default=5, gt=0)
    """Number of last epochs whose weights are averaged (Section 6.1)."""
    patience: int | None = Field(default=None, gt=0)
    """Epochs without a better validation BLEU after which training stops; without it, never."""
    replicas: int | None = Field(default=None, gt=0)
    """GPUs to train on, or logical CPU devices where there is none; all GPUs without it."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy; mixed_float16 on one replica alone."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of initial weights, dropout and the order of the batches."""
    init_from: str | None = None
    """Directory of a finished training, or of an exported model (its last version, if it names
    none), to start from: its weights, sizes and vocabularies, with a new optimizer and schedule.
    A larger `d_ff`, or several times `d_model` and `num_heads`, lets it grow. Without it, from
    random weights and a vocabulary of the text."""
