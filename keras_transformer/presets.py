"""The paper's models as plain data: sizes, training recipe and decoding options."""

from dataclasses import dataclass, replace
from typing import Any

from keras_transformer.config import DecodingConfig, TrainingConfig, TransformerConfig

__all__ = ["PRESETS", "get_preset"]


@dataclass(frozen=True)
class Preset:
    """A model with its training recipe and decoding options, as in `ExperimentConfig`.

    >>> PRESETS["base"].model.d_model, PRESETS["base"].parameters
    (512, 63045632)
    """

    model: TransformerConfig
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @property
    def parameters(self) -> int:
        """Number of parameters of the model, with the preset's vocabulary size."""
        return count_parameters(self.model)


def count_parameters(config: TransformerConfig) -> int:
    """Return the number of parameters of a `Transformer` without building it.

    Args:
        config: Configuration of the model.

    >>> count_parameters(TransformerConfig(vocab_size=37_000))
    63045632
    """
    d_model, norm = config.d_model, 2 * config.d_model
    # An encoder layer has one attention and two norms, a decoder layer two and three.
    encoder_layer = (
        _attention_parameters(config, config.num_heads)
        + _feed_forward_parameters(d_model, config.d_ff)
        + 2 * norm
    )
    decoder_layer = (
        2 * _attention_parameters(config, config.decoder_heads)
        + _feed_forward_parameters(d_model, config.decoder_inner_size)
        + 3 * norm
    )
    layers = config.num_layers * encoder_layer + config.decoder_layers * decoder_layer
    final_norms = 2 * norm if config.norm == "pre" else 0
    source, target = config.vocab_size, config.target_size
    subwords = {
        "all": source,
        "target": source + target,
        "inputs": source + target,
        "none": source + 2 * target,
    }
    positions = 2 * config.max_length if config.position == "learned" else 0
    output_bias = target if config.use_output_bias else 0
    rows = subwords[config.share_embeddings] + positions
    embedding_norms = 2 * norm if config.embedding_norm else 0
    return layers + final_norms + embedding_norms + rows * d_model + output_bias


def _attention_parameters(config, num_heads):
    key_dim = config.key_dim or config.d_model // num_heads
    value_dim = config.value_dim or key_dim
    widths = num_heads * (key_dim + value_dim)
    biases = num_heads * (2 * key_dim + value_dim) + config.d_model if config.use_bias else 0
    return 2 * config.d_model * widths + biases  # Q and K; V and output


def _feed_forward_parameters(d_model, d_ff):
    return 2 * d_model * d_ff + d_ff + d_model


# Sections 5 and 6.1. The paper saves a checkpoint every 10 minutes and averages the last 5, or 20
# for big. base makes 100,000 steps in 12 hours, here 80 epochs of 1,250; big 300,000 steps of one
# second, here 500 epochs of 600.
_BASE = Preset(
    TransformerConfig(37_000, num_layers=6, d_model=512, d_ff=2048, num_heads=8),
    TrainingConfig(epochs=80, steps_per_epoch=1_250, average_checkpoints=5),
)
_BIG = Preset(
    TransformerConfig(37_000, num_layers=6, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
    TrainingConfig(epochs=500, steps_per_epoch=600, average_checkpoints=20),
)


def _table_3(preset: Preset = _BASE, label_smoothing: float = 0.1, **sizes: Any) -> Preset:
    """Return a row of Table 3: what differs from the first row, and no averaging."""
    return Preset(
        replace(preset.model, **sizes),
        replace(preset.training, average_checkpoints=1, label_smoothing=label_smoothing),
    )


def _parsing(vocab_size: int, **dropout: Any) -> Preset:
    """Return a model of Section 6.3; settings that the paper does not state follow base.

    The target vocabulary has two tokens for each label and 128 for words, with room for more.
    """
    model = replace(
        _BASE.model,
        vocab_size=vocab_size,
        target_vocab_size=256,
        share_embeddings="target",
        num_layers=4,
        d_model=1024,
        **dropout,
    )
    return Preset(
        model,
        _BASE.training,
        DecodingConfig(beam_size=21, length_penalty=0.3, extra_length=300),
    )


PRESETS = {
    # A size that the literature uses for small corpora such as Multi30k.
    "tiny": Preset(TransformerConfig(8_000, num_layers=4, d_model=128, d_ff=256, num_heads=4)),
    # Table 2.
    "base": _BASE,
    "big": _BIG,
    # Table 3: the row, what differs from the first row, and its value.
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
    # Table 4. The paper chose dropout rates on its development set and does not print them; the
    # authors' tensor2tensor uses 0.2 for both with the smaller training set.
    "parsing_wsj": _parsing(16_000, dropout=0.2, attention_dropout=0.2),
    "parsing_semi_supervised": _parsing(32_000),
}
"""The presets by name."""


def get_preset(name: str) -> Preset:
    """Return the preset with this name.

    Args:
        name: A key of `PRESETS`, such as "base" or "table3_a_num_heads_1".

    Raises:
        ValueError: If there is no such preset.

    >>> get_preset("table3_c_num_layers_2").model.num_layers
    2
    """
    if name not in PRESETS:
        raise ValueError(f"Presets are {', '.join(PRESETS)}; received {name!r}.")
    return PRESETS[name]
