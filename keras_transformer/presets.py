"""Named models as plain data: their sizes, the recipe that trains them, and their search."""

from dataclasses import dataclass, replace

from keras_transformer.config import DecodingConfig, TrainingConfig, TransformerConfig


@dataclass(frozen=True)
class Preset:
    """A named model with its recipe; the sections are those of `ExperimentConfig`."""

    model: TransformerConfig
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @property
    def parameters(self) -> int:
        """The number of the model's parameters at the preset's vocabulary size."""
        return count_parameters(self.model)


def count_parameters(config: TransformerConfig) -> int:
    """Return the number of parameters of a `Transformer`, which is not built for it.

    >>> count_parameters(TransformerConfig(vocab_size=37_000))
    63045632
    """
    d_model, d_ff = config.d_model, config.d_ff
    key_dim = config.key_dim or d_model // config.num_heads
    value_dim = config.value_dim or key_dim
    attention = 2 * d_model * config.num_heads * (key_dim + value_dim)  # Q and K, V and output.
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    # A layer of the encoder has one attention and two norms, one of the decoder two and three.
    layers = config.num_layers * (3 * attention + 2 * feed_forward + 5 * norm)
    final_norms = 2 * norm if config.norm == "pre" else 0
    source, target = config.vocab_size, config.target_size
    subwords = {"all": source, "target": source + target, "none": source + 2 * target}
    positions = 2 * config.max_length if config.position == "learned" else 0
    return layers + final_norms + (subwords[config.share_embeddings] + positions) * d_model


# Sections 5 and 6.1. The paper saves every 10 minutes and averages the last 5 checkpoints, or 20 of
# the big model. It makes 100,000 steps in 12 hours, here 80 times 1,250; of the big model 300,000
# of a second each, 500 times 600.
_BASE = Preset(
    TransformerConfig(37_000, num_layers=6, d_model=512, d_ff=2048, num_heads=8),
    TrainingConfig(epochs=80, steps_per_epoch=1_250, average_checkpoints=5),
)
_BIG = Preset(
    TransformerConfig(37_000, num_layers=6, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
    TrainingConfig(epochs=500, steps_per_epoch=600, average_checkpoints=20),
)


def _table_3(preset: Preset = _BASE, label_smoothing: float = 0.1, **sizes) -> Preset:
    """Return a row of Table 3: sizes other than the first row's, and no averaging."""
    return Preset(
        replace(preset.model, **sizes),
        replace(preset.training, average_checkpoints=1, label_smoothing=label_smoothing),
    )


def _parsing(vocab_size: int, **dropout) -> Preset:
    """Return a model of Section 6.3, of which what the paper does not say is as in the base."""
    return Preset(
        replace(_BASE.model, vocab_size=vocab_size, num_layers=4, d_model=1024, **dropout),
        _BASE.training,
        DecodingConfig(beam_size=21, length_penalty=0.3, extra_length=300),
    )


PRESETS = {
    # The size that the literature trains on small corpora such as Multi30k.
    "tiny": Preset(TransformerConfig(8_000, num_layers=4, d_model=128, d_ff=256, num_heads=4)),
    # Table 2.
    "base": _BASE,
    "big": _BIG,
    # Table 3: the row, what differs from the first one, and its value.
    "table3_base": _table_3(),
    "table3_a_num_heads_1": _table_3(num_heads=1),
    "table3_a_num_heads_4": _table_3(num_heads=4),
    "table3_a_num_heads_16": _table_3(num_heads=16),
    "table3_a_num_heads_32": _table_3(num_heads=32),
    "table3_b_key_dim_16": _table_3(key_dim=16, value_dim=64),
    "table3_b_key_dim_32": _table_3(key_dim=32, value_dim=64),
    "table3_c_num_layers_2": _table_3(num_layers=2),
    "table3_c_num_layers_4": _table_3(num_layers=4),
    "table3_c_num_layers_8": _table_3(num_layers=8),
    "table3_c_d_model_256": _table_3(d_model=256),
    "table3_c_d_model_1024": _table_3(d_model=1024),
    "table3_c_d_ff_1024": _table_3(d_ff=1024),
    "table3_c_d_ff_4096": _table_3(d_ff=4096),
    "table3_d_dropout_0.0": _table_3(dropout=0.0),
    "table3_d_dropout_0.2": _table_3(dropout=0.2),
    "table3_d_label_smoothing_0.0": _table_3(label_smoothing=0.0),
    "table3_d_label_smoothing_0.2": _table_3(label_smoothing=0.2),
    "table3_e_position_learned": _table_3(position="learned"),
    "table3_big": _table_3(_BIG),
    # Table 4. The paper chose the rates of dropout on its development set and does not print them;
    # 0.2 on both is what its authors' tensor2tensor has for the smaller training set.
    "parsing_wsj": _parsing(16_000, dropout=0.2, attention_dropout=0.2),
    "parsing_semi_supervised": _parsing(32_000),
}


def get_preset(name: str) -> Preset:
    """Return the preset of this name, a key of `PRESETS`.

    Raises:
        ValueError: there is none.

    >>> get_preset("table3_c_num_layers_2").model.num_layers
    2
    """
    if name not in PRESETS:
        raise ValueError(f"Presets are {', '.join(PRESETS)}; received {name!r}.")
    return PRESETS[name]
