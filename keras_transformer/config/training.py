"""The training recipe."""

from typing import Literal

from pydantic import Field

from keras_transformer.config.strict import configuration


@configuration()
class TrainingConfig:
    """The training recipe; the defaults are the paper's (Section 5).

    >>> TrainingConfig(epochs=3).warmup_steps
    4000
    """

    epochs: int = Field(default=20, gt=0)
    """Number of epochs; the model is validated and saved after each."""
    steps_per_epoch: int | None = Field(default=None, gt=0)
    """Batches per epoch, and so between two validations; by default one pass over the training
    text. An epoch continues in the text where the last one ended."""
    checkpoint_minutes: float | None = Field(default=15.0, gt=0)
    """Minutes between checkpoints within an epoch, from which an interrupted run resumes. Every
    epoch ends with a checkpoint too."""
    checkpoint_steps: int | None = Field(default=None, gt=0)
    """Steps of an epoch between checkpoints; they count where they come before the minutes do."""
    batch_tokens: int = Field(default=25_000, gt=0)
    """Size of a batch over all replicas: its rows times its longest sentence, in tokens, for the
    source and for the target (Section 5.1)."""
    accumulation: int = Field(default=1, gt=0)
    """Number of parts of each batch that are computed one after another, to save memory. Dropout
    aside, the update is that of the whole batch."""
    warmup_steps: int = Field(default=4000, gt=0)
    """Steps over which the learning rate rises (Section 5.3)."""
    learning_rate_scale: float = Field(default=1.0, gt=0)
    """Factor on the paper's learning rate."""
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    """Adam's decay rate of the first moment."""
    beta_2: float = Field(default=0.98, ge=0, lt=1)
    """Adam's decay rate of the second moment."""
    epsilon: float = Field(default=1e-9, gt=0)
    """Adam's epsilon."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest norm of the gradient of a batch, over all weights and replicas. A larger gradient is
    scaled down to it; by default none is."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass spread evenly over the vocabulary (Section 5.4)."""
    teachers: list[str] = Field(default_factory=list)
    """Distillation: directories of finished runs, saved translators or exported models, with the
    same vocabularies. The model trains on the averaged predictions of these teachers as well as on
    the labels; each step also runs the forward pass of every teacher."""
    distillation: float = Field(default=0.5, gt=0, le=1)
    """Weight of the teachers' predictions in the training target; the labels have the rest."""
    average: Literal["last", "best", "ema"] = "last"
    """Which average competes with the best epoch for the final weights, by validation BLEU: that of
    the last epochs, that of the best epochs, or an exponential moving average over all steps."""
    average_checkpoints: int = Field(default=5, gt=0)
    """Number of last or of best epochs whose weights are averaged (Section 6.1)."""
    ema_decay: float = Field(default=0.999, gt=0, lt=1)
    """Decay rate of the moving average per step; it is lower in the first steps."""
    patience: int | None = Field(default=None, gt=0)
    """Epochs, each with a validation, without a better validation BLEU after which training stops;
    by default it never stops early."""
    validation_pairs: int | None = Field(default=None, gt=0)
    """Number of pairs to validate on after each epoch, evenly spaced over the validation text; by
    default all. The final choice of weights uses all."""
    replicas: int | None = Field(default=None, gt=0)
    """Number of GPUs to train on, or of logical CPU devices without a GPU; by default all GPUs, or
    one CPU device."""
    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = "auto"
    """Keras dtype policy; by default mixed_bfloat16 on GPUs that multiply in bfloat16, and float32
    elsewhere. The loss is scaled with mixed_float16."""
    jit_compile: bool | None = None
    """Whether XLA compiles the steps; by default on GPUs, if data.static_shapes is set."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of the initial weights, of dropout and of the order of the batches."""
    init_from: str | None = None
    """Directory to start from: of a finished run, of a saved translator, or of an exported model
    (its last version, if none is named). The model takes over its weights, sizes and vocabularies,
    and starts a new optimizer and schedule. By default, training starts from random weights and a
    vocabulary trained on the text."""
