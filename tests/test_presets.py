import dataclasses

import pytest

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.presets import PRESETS


def parameters(config):
    """Count by hand, without allocating anything."""
    d_model, d_ff = config.d_model, config.d_ff
    key_dim = config.key_dim or d_model // config.num_heads
    value_dim = config.value_dim or key_dim
    attention = 2 * d_model * config.num_heads * (key_dim + value_dim)  # Q and K, V and output.
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    layers = config.num_layers * (3 * attention + 2 * feed_forward + 5 * norm)
    final_norms = 2 * norm if config.norm == "pre" else 0
    source, target = config.vocab_size, config.target_vocab_size or config.vocab_size
    rows = {"all": source, "target": source + target, "none": source + 2 * target}
    positions = 2 * config.max_length if config.position == "learned" else 0
    return layers + final_norms + (rows[config.share_embeddings] + positions) * d_model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key_dim": 3, "value_dim": 5},
        {"norm": "pre"},
        {"position": "learned", "max_length": 17},
        {"share_embeddings": "target", "target_vocab_size": 19},
        {"share_embeddings": "none", "target_vocab_size": 19},
    ],
)
def test_the_count_by_hand_is_that_of_a_model(changes):
    sizes = {"vocab_size": 13, "num_layers": 2, "d_model": 8, "d_ff": 11, "num_heads": 2}
    config = TransformerConfig(**sizes, **changes)
    assert Transformer(config).count_params() == parameters(config)


@pytest.mark.parametrize("name", PRESETS)
def test_the_count_of_a_preset_is_right(name):
    assert PRESETS[name].parameters == parameters(PRESETS[name].config)


# Table 3 prints 65 and 213 million.
@pytest.mark.parametrize(("name", "printed"), [("base", 65e6), ("big", 213e6)])
def test_the_count_is_within_five_percent_of_the_papers(name, printed):
    assert PRESETS[name].parameters == pytest.approx(printed, rel=0.05)


def test_from_preset_has_the_presets_sizes():
    config = PRESETS["tiny"].config
    model = Transformer.from_preset("tiny", config.vocab_size)
    assert model.config == config
    assert model.count_params() == PRESETS["tiny"].parameters


def test_from_preset_takes_other_sizes():
    model = Transformer.from_preset(
        "tiny", vocab_size=100, dtype="mixed_bfloat16", num_layers=1, dropout=0.3
    )
    assert model.compute_dtype == "bfloat16"
    expected = dataclasses.replace(
        PRESETS["tiny"].config, vocab_size=100, num_layers=1, dropout=0.3
    )
    assert model.config == expected


def test_an_unknown_preset_is_refused_with_the_known_names():
    with pytest.raises(
        ValueError, match=f"Presets are {', '.join(sorted(PRESETS))}; received 'small'"
    ):
        Transformer.from_preset("small", vocab_size=100)


def test_an_unknown_size_is_refused():
    with pytest.raises(ValueError, match=r"layers\n  Unexpected keyword argument"):
        Transformer.from_preset("tiny", vocab_size=100, layers=3)
