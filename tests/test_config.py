import dataclasses

import pytest
from pydantic import ValidationError

from keras_transformer.config import ExperimentConfig, TransformerConfig

DATA = {"train_source": "train.tsv", "validation_source": "valid.tsv"}


def mistakes(build):
    """Return the message for each place of all mistakes that `build` is told of at once."""
    with pytest.raises(ValidationError) as error:
        build()
    return {".".join(map(str, e["loc"])): e["msg"] for e in error.value.errors()}


def test_all_mistakes_of_a_section_are_reported_together():
    assert mistakes(
        lambda: TransformerConfig(
            vocab_size=4, num_layers=0, d_ff="wide", d_model=2.5, dropout=1.0, norm="middle"
        )
    ) == {
        "vocab_size": "Input should be greater than 4",
        "num_layers": "Input should be greater than 0",
        "d_ff": "Input should be a valid integer, unable to parse string as an integer",
        "d_model": "Input should be a valid integer, got a number with a fractional part",
        "dropout": "Input should be less than 1",
        "norm": "Input should be 'post' or 'pre'",
    }


def test_all_sizes_that_do_not_fit_together_are_reported_together():
    (message,) = mistakes(
        lambda: TransformerConfig(100, target_vocab_size=50, d_model=31, num_heads=4)
    ).values()
    assert message == (
        "Value error, d_model must be divisible by num_heads unless key_dim is given, "
        "received d_model=31 and num_heads=4; "
        "sinusoidal positions need an even d_model, received 31; "
        "choose an even one or position='learned'; "
        "share_embeddings='all' needs one vocabulary for both languages, "
        "received target_vocab_size=50; leave it out or choose share_embeddings='target' or 'none'"
    )


def test_mistakes_of_all_sections_are_reported_together():
    values = {
        "model": {"vocab_size": 100, "num_heads": 3},
        "data": {"train_source": "train.tsv", "max_lenght": 3},
        "training": {"epochs": 0},
        "decodin": {},
    }
    received = mistakes(lambda: ExperimentConfig.from_dict(values))
    assert "received d_model=512 and num_heads=3" in received.pop("model")
    assert received == {
        "data.validation_source": "Field required",
        "data.max_lenght": "Unexpected keyword argument",
        "training.epochs": "Input should be greater than 0",
        "decodin": "Unexpected keyword argument",
    }


def test_an_unknown_argument_is_refused():
    with pytest.raises(ValueError, match=r"num_layer\n  Unexpected keyword argument"):
        TransformerConfig(100, num_layer=4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"d_model": 10, "num_heads": 4, "key_dim": 3},
        {"d_model": 9, "num_heads": 3, "position": "learned"},
        {"target_vocab_size": 50, "share_embeddings": "target"},
        {"target_vocab_size": 50, "share_embeddings": "none"},
    ],
)
def test_what_the_messages_advise_is_accepted(arguments):
    TransformerConfig(100, **arguments)


def test_replace_validates_again():
    config = TransformerConfig(100)
    assert dataclasses.replace(config, num_heads=16).num_heads == 16
    with pytest.raises(ValueError, match="received d_model=512 and num_heads=3"):
        dataclasses.replace(config, num_heads=3)


def test_a_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError, match="d_model"):
        TransformerConfig(100).d_model = 64


def test_defaults_are_the_papers():
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 37_000}, "data": DATA})
    model, training, decoding = config.model, config.training, config.decoding
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.dropout, training.label_smoothing) == (0.1, 0.1)
    assert (training.warmup_steps, training.batch_tokens) == (4000, 25_000)
    assert (training.beta_1, training.beta_2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (decoding.beam_size, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)


def test_a_file_keeps_everything(tmp_path):
    config = ExperimentConfig.from_dict(
        {
            "model": {"vocab_size": 100, "target_vocab_size": 90, "share_embeddings": "none"},
            "data": DATA | {"train_target": "übung.de"},
            "training": {"epsilon": 1e-9, "patience": 3},
            "decoding": {"beam_size": 5},
        }
    )
    path = tmp_path / "config.yaml"
    path.write_text("what was here before")
    config.to_file(path)
    assert ExperimentConfig.from_file(path) == config
    assert "übung.de" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_leave_out_what_has_a_default(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "model: {vocab_size: 100}\n"
        "data: {train_source: train.tsv, validation_source: valid.tsv}\n"
        "training: {epsilon: 1e-9}\n"  # YAML 1.1 takes this for a string.
    )
    assert ExperimentConfig.from_file(path) == ExperimentConfig.from_dict(
        {"model": {"vocab_size": 100}, "data": DATA}
    )


@pytest.mark.parametrize(("text", "kind"), [("- model", "list"), ("", "NoneType")])
def test_a_file_without_a_mapping_is_refused_by_its_name(tmp_path, text, kind):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"config\.yaml must hold a YAML mapping .* {kind}\."):
        ExperimentConfig.from_file(path)


def test_learned_positions_must_reach_as_far_as_the_text():
    values = {
        "model": {"vocab_size": 100, "position": "learned", "max_length": 64},
        "data": {"train_source": "a.tsv", "validation_source": "b.tsv", "max_length": 65},
    }
    with pytest.raises(ValueError, match="at least data.max_length, received 64 and 65; raise"):
        ExperimentConfig.from_dict(values)
    values["data"]["max_length"] = 64
    assert ExperimentConfig.from_dict(values).data.max_length == 64
