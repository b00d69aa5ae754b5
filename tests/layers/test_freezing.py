"""Frozen layers, and frozen parts of them, in configurations, copies and files."""

import keras
import pytest

from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
)
from keras_transformer.layers.residual import Residual
from tests.helpers.layer_checks import saved_and_loaded

D = 6
SIZES = {"d_model": D, "d_ff": 11, "num_heads": 2}
MAKE = {
    "encoder_layer": lambda **options: EncoderLayer(**SIZES, **options),
    "decoder_layer": lambda **options: DecoderLayer(**SIZES, **options),
    "encoder": lambda **options: Encoder(2, **SIZES, norm="pre", **options),
    "decoder": lambda **options: Decoder(2, **SIZES, **options),
    "attention": lambda **options: MultiHeadAttention(2, 4, **options),
    "feed_forward": lambda **options: FeedForward(D, 11, **options),
}
every_layer = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


def model_of(layer):
    """Return a functional model that gives a layer its input as the memory too, if it has one."""
    x = keras.Input((None, D))
    is_pair = isinstance(layer, Decoder | DecoderLayer | MultiHeadAttention)
    return keras.Model(x, layer(x, x) if is_pair else layer(x))


def paths_of(model):
    """Return the paths of the weights that a model trains, without the name of the layer."""
    return [weight.path.split("/", 1)[1] for weight in model.trainable_weights]


@every_layer
def test_a_layer_that_is_made_frozen_trains_nothing(make):
    layer = make(trainable=False)
    model = model_of(layer)
    assert model.weights and not model.trainable_weights
    layer.trainable = True
    assert paths_of(model) == paths_of(model_of(make()))


@every_layer
def test_a_frozen_layer_stays_frozen_in_a_file_and_in_a_clone(make):
    model = model_of(make())
    model.layers[-1].trainable = False
    for copy in (saved_and_loaded(model), keras.models.clone_model(model)):
        assert not copy.trainable_weights
        assert copy.layers[-1].get_config() == model.layers[-1].get_config()


def freeze_one_layer(decoder):
    decoder.layers[1].trainable = False


def freeze_single_parts(decoder):
    decoder.layers[0].self_attention.trainable = False
    decoder.layers[1].feed_forward_residual.layer_norm.trainable = False
    decoder.final_norm.trainable = False


def freeze_all_but_one(decoder):
    decoder.trainable = False
    decoder.layers[1].cross_attention.trainable = True


@pytest.mark.parametrize(
    ("freeze", "trained", "changed"),
    [
        # A layer has 2 attentions of 4 kernels, 4 weights of the network, and 3 normalizations.
        (freeze_one_layer, 18 + 2, {"layers/1": False}),
        (
            freeze_single_parts,
            2 * 18 + 2 - 4 - 2 - 2,
            {
                "layers/0/self_attention": False,
                "layers/1/feed_forward_residual/layer_norm": False,
                "final_norm": False,
            },
        ),
        (freeze_all_but_one, 4, {"layers/1/cross_attention": True}),
    ],
)
def test_frozen_parts_of_a_stack_stay_frozen(freeze, trained, changed):
    decoder = Decoder(2, **SIZES, norm="pre")
    model = model_of(decoder)
    assert "adaptation" not in decoder.get_config()
    freeze(decoder)
    assert len(model.trainable_weights) == trained
    assert decoder.get_config()["adaptation"] == {"trainable": changed}
    copies = [saved_and_loaded(model), keras.models.clone_model(model)]
    copies.append(model_of(Decoder.from_config(decoder.get_config())))
    for copy in copies:
        assert paths_of(copy) == paths_of(model)


@pytest.mark.parametrize("lora_first", [True, False])
def test_lora_of_a_frozen_part_is_frozen_before_and_after_a_file(lora_first):
    encoder = Encoder(2, **SIZES)
    model = model_of(encoder)
    if lora_first:
        encoder.enable_lora(rank=2)
    encoder.layers[0].trainable = False
    if not lora_first:
        encoder.enable_lora(rank=2)
    # A and B of 6 kernels, 2 biases and 2 normalizations.
    assert len(model.trainable_weights) == 2 * 6 + 2 + 2 * 2
    copy = saved_and_loaded(model)
    assert paths_of(copy) == paths_of(model)
    for each in (encoder, copy.layers[-1]):
        each.merge_lora()
    assert len(paths_of(model)) == 6 + 2 + 2 * 2
    assert paths_of(copy) == paths_of(model)


def test_a_frozen_residual_connection_trains_nothing():
    residual = Residual(trainable=False)
    residual.build((None, None, D))
    assert residual.weights and not any(weight.trainable for weight in residual.weights)
