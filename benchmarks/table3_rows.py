"""The rows of Table 3 of the paper: their experiments, scaled down, and the paper's conclusions."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping

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
MEASURES = ("perplexity", "bleu")
BASE = "base"


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


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a row of the table on the development set."""

    perplexity: float
    """Per subword of the reference translations, without label smoothing."""
    bleu: float
    """Of the model's translations."""


@dataclasses.dataclass(frozen=True)
class Direction:
    """A claim of Section 6.2 about two rows."""

    claim: str
    better: str
    """The row that should have the lower perplexity and the higher BLEU."""
    worse: str
    measures: tuple[str, ...] = MEASURES
    equal: bool = False
    """Whether the claim is that the two are equally good."""

    def gain(self, rows: Mapping[str, Scores], measure: str) -> float:
        """Return by how much the supposedly better row has lower perplexity or higher BLEU."""
        better, worse = (getattr(rows[name], measure) for name in (self.better, self.worse))
        return worse - better if measure == "perplexity" else better - worse


@dataclasses.dataclass(frozen=True)
class Judgment:
    """The verdict on a direction by one measure."""

    direction: Direction
    measure: str
    gain: float
    spread: float
    """Largest minus smallest value of the base row with several seeds."""
    verdict: str


DIRECTIONS = (
    Direction("A: one head is worse", BASE, "a_num_heads_1"),
    Direction("A: too many heads are worse", BASE, "a_num_heads_32"),
    Direction("B: keys of half the size are worse", BASE, "b_key_dim_32"),
    Direction("B: keys of a quarter of the size are worse", BASE, "b_key_dim_16"),
    Direction("C: two thirds of the layers are worse", BASE, "c_num_layers_4"),
    Direction("C: a third of the layers is worse", BASE, "c_num_layers_2"),
    # In the paper its BLEU is lower.
    Direction("C: more layers are better", "c_num_layers_8", BASE, ("perplexity",)),
    Direction("C: half of d_model is worse", BASE, "c_d_model_256"),
    Direction("C: twice d_model is better", "c_d_model_1024", BASE),
    Direction("C: half of d_ff is worse", BASE, "c_d_ff_1024"),
    Direction("C: twice d_ff is better", "c_d_ff_4096", BASE),
    Direction("D: no dropout is worse", BASE, "d_dropout_0.0"),
    Direction(
        "D: smoothing hurts perplexity", "d_label_smoothing_0.0", BASE, measures=("perplexity",)
    ),
    Direction("D: smoothing helps BLEU", BASE, "d_label_smoothing_0.0", measures=("bleu",)),
    Direction("E: learned positions are as good", "e_position_learned", BASE, equal=True),
    Direction("big is better", "big", BASE),
)

# Table 3: perplexity and BLEU on newstest2013, English to German.
PAPER = {
    BASE: Scores(4.92, 25.8),
    "a_num_heads_1": Scores(5.29, 24.9),
    "a_num_heads_4": Scores(5.00, 25.5),
    "a_num_heads_16": Scores(4.91, 25.8),
    "a_num_heads_32": Scores(5.01, 25.4),
    "b_key_dim_16": Scores(5.16, 25.1),
    "b_key_dim_32": Scores(5.01, 25.4),
    "c_num_layers_2": Scores(6.11, 23.7),
    "c_num_layers_4": Scores(5.19, 25.3),
    "c_num_layers_8": Scores(4.88, 25.5),
    "c_d_model_256": Scores(5.75, 24.5),
    "c_d_model_1024": Scores(4.66, 26.0),
    "c_d_ff_1024": Scores(5.12, 25.4),
    "c_d_ff_4096": Scores(4.75, 26.2),
    "d_dropout_0.0": Scores(5.77, 24.6),
    "d_dropout_0.2": Scores(4.95, 25.5),
    "d_label_smoothing_0.0": Scores(4.67, 25.3),
    "d_label_smoothing_0.2": Scores(5.47, 25.7),
    "e_position_learned": Scores(4.92, 25.7),
    "big": Scores(4.33, 26.4),
}


def judge(gain: float, spread: float, equal: bool = False) -> str:
    """Return whether a claim holds.

    Args:
        gain: By how much the row that should be better is better.
        spread: Spread of one row with several seeds, the effect of chance alone.
        equal: Whether the claim is that neither is better.

    >>> [judge(gain, spread=0.5) for gain in (0.6, 0.5, -0.5, -0.6)]
    ['holds', 'within the spread of seeds', 'within the spread of seeds', 'does not hold']
    >>> [judge(gain, spread=0.5, equal=True) for gain in (0.6, 0.5, -0.5, -0.6)]
    ['does not hold', 'holds', 'holds', 'does not hold']
    """
    if abs(gain) <= spread:
        return "holds" if equal else "within the spread of seeds"
    return "holds" if gain > 0 and not equal else "does not hold"


def judgments(rows: Mapping[str, Scores]) -> Iterator[Judgment]:
    """Judge each direction whose two rows are given, by each of its measures.

    Args:
        rows: Scores by names of `PAPER`. The rows base_seed_2 and so on are the base row with other
            seeds; their mean replaces the base row.
    """
    seeds = [scores for name, scores in rows.items() if name.startswith(BASE)]
    if not seeds:
        return
    values = {measure: [getattr(one, measure) for one in seeds] for measure in MEASURES}
    means = Scores(**{measure: statistics.mean(of) for measure, of in values.items()})
    rows = {**rows, BASE: means}
    for direction in DIRECTIONS:
        if {direction.better, direction.worse} <= rows.keys():
            for measure in direction.measures:
                gain = direction.gain(rows, measure)
                spread = max(values[measure]) - min(values[measure])
                verdict = judge(gain, spread, direction.equal)
                yield Judgment(direction, measure, gain, spread, verdict)
