"""Named models as plain data, each with the number of its parameters."""

from dataclasses import dataclass

from keras_transformer.config import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """A named model: its sizes, and its parameters at that vocabulary size."""

    config: TransformerConfig
    parameters: int


PRESETS = {
    # The size that the literature trains on small corpora such as Multi30k.
    "tiny": Preset(
        TransformerConfig(8_000, num_layers=4, d_model=128, d_ff=256, num_heads=4),
        2_342_912,
    ),
    # Table 3, first row. The paper prints 65 million.
    "base": Preset(
        TransformerConfig(37_000, num_layers=6, d_model=512, d_ff=2048, num_heads=8),
        63_045_632,
    ),
    # Table 3, last row. The paper prints 213 million.
    "big": Preset(
        TransformerConfig(37_000, num_layers=6, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
        214_171_648,
    ),
}
