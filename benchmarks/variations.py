"""The experiments of Table 3 of the paper, scaled down."""

import dataclasses

from benchmarks.directions import BASE
from keras_transformer.config import DataConfig, ExperimentConfig, TrainingConfig, TransformerConfig
from keras_transformer.presets import PRESETS

WIDTHS, LAYERS = 4, 2
"""Divisors of the paper's sizes; the number of heads is unchanged."""
VOCAB_SIZE, MAX_LENGTH = 4_000, 128
RECIPE = TrainingConfig(
    epochs=3, batch_tokens=1024, warmup_steps=1000, learning_rate_scale=0.8, average_checkpoints=1
)
SEEDS = 3
"""Number of seeds of the base row."""


def experiments(
    data: DataConfig, recipe: TrainingConfig = RECIPE, vocab_size: int = VOCAB_SIZE
) -> dict[str, ExperimentConfig]:
    """Return the experiments by name; other seeds of the base row follow it.

    >>> rows = experiments(DataConfig(train_source="train.tsv", validation_source="valid.tsv"))
    >>> base, half = (rows[name].model for name in ("base", "c_d_model_256"))
    >>> (base.num_layers, base.d_model, base.d_ff, base.num_heads), half.d_model
    ((3, 128, 512, 8), 64)
    """
    rows = {}
    for name, preset in PRESETS.items():
        if not name.startswith("table3_"):
            continue
        name = name.removeprefix("table3_")
        training = dataclasses.replace(
            recipe,
            label_smoothing=preset.training.label_smoothing,
            epochs=recipe.epochs * _times_the_steps(name),
        )
        rows[name] = ExperimentConfig(
            model=scaled(preset.model, vocab_size),
            data=data,
            training=training,
            decoding=preset.decoding,
        )
        if name == BASE:
            for seed in range(recipe.seed + 1, recipe.seed + SEEDS):
                other = dataclasses.replace(training, seed=seed)
                rows[f"{name}_seed_{seed}"] = dataclasses.replace(rows[name], training=other)
    return rows


def _times_the_steps(name: str) -> int:
    steps = {
        row: PRESETS[f"table3_{row}"].training.epochs
        * PRESETS[f"table3_{row}"].training.steps_per_epoch
        for row in (name, BASE)
    }
    return steps[name] // steps[BASE]


def scaled(model: TransformerConfig, vocab_size: int) -> TransformerConfig:
    """Return a model of the paper with smaller sizes."""
    widths = {
        name: size // WIDTHS
        for name in ("d_model", "d_ff", "key_dim", "value_dim")
        if (size := getattr(model, name)) is not None
    }
    return dataclasses.replace(
        model,
        vocab_size=vocab_size,
        num_layers=model.num_layers // LAYERS,
        max_length=MAX_LENGTH,
        **widths,
    )
