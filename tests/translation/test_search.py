import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig
from keras_transformer.layers import DecoderLayer
from keras_transformer.training import TrainingTransformer
from keras_transformer.translation import DecoderStep
from keras_transformer.translation.search import TokenSearch
from tests.helpers.layer_checks import randomize


@pytest.mark.parametrize(
    "how", ["eager", "graph", pytest.param("compiled", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_padding_changes_no_translation(beam_size, how):
    num_layers = 2 if how == "eager" else 1  # Graphs of more layers take longer to trace.
    sizes = {"vocab_size": 31, "num_layers": num_layers, "d_model": 12, "num_heads": 3}
    model = Transformer.from_size("tiny", **sizes)
    randomize(model)
    decoding = DecodingConfig(beam_size=beam_size, extra_length=6, max_source_length=9)
    token_search = TokenSearch(model, decoding, compiled=how == "compiled")

    def search(source, lengths):
        return token_search(source, lengths, num_hypotheses=beam_size)

    if how == "graph":
        shapes = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
        search = tf.function(search, input_signature=shapes, autograph=False)
    source, length = tf.constant([[5, 21, 9, 3]]), tf.constant([4])
    padded = tf.pad(source, [[0, 0], [0, 3]])
    expected = search(source, length)
    among_others = search(tf.tile(padded, [2, 1]), tf.tile(length, [2]))
    for received in (search(padded, length), among_others):
        np.testing.assert_array_equal(received.ids[:1], expected.ids)
        np.testing.assert_allclose(received.scores[:1], expected.scores, atol=1e-5)


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.5, [6, 8, 9]), (1.1, [5, 6, 7]), (0.2, [1, 1, 2])]
)
def test_a_limit_with_a_fraction_is_rounded_up(factor, expected):
    model = Transformer.from_size("tiny", vocab_size=31, num_layers=1)
    search = {"style": "marian", "length_factor": factor, "extra_length": 0, "min_length": 99}
    search = TokenSearch(model, DecodingConfig(beam_size=2, **search))
    found = search(
        tf.constant([[5, 6, 7, 3, 0, 0], [5, 6, 7, 8, 3, 0], [5, 6, 7, 8, 9, 3]]), [4, 5, 6]
    )
    assert found.lengths[:, 0].numpy().tolist() == expected
    assert [search.longest(length) for length in (4, 5, 6)] == expected
    assert DecodingConfig(length_factor=1.1, extra_length=0).longest(10) == 11  # As in float32.


class Biased(Transformer):
    def decode(self, *args, **kwargs):
        logits, weights = super().decode(*args, **kwargs)
        return 2 * logits, weights


class Shifted(Transformer):
    def embed_target(self, target):
        return 2 * super().embed_target(target)


class Encoding(TrainingTransformer):
    def call(self, inputs, training=None):
        return super().call(inputs, training)

    def encode(self, *args, **kwargs):
        return super().encode(*args, **kwargs)


class Doubled(DecoderLayer):
    def call(self, *args, **kwargs):
        outputs, weights = super().call(*args, **kwargs)
        return 2 * outputs, weights


@pytest.mark.parametrize(
    ("model_class", "name"), [(Biased, "decode"), (Shifted, "embed_target"), (Encoding, None)]
)
def test_a_search_refuses_what_it_would_do_without(model_class, name):
    model = model_class.from_size("tiny", vocab_size=31, num_layers=1)
    if name is None:
        TokenSearch(model, DecodingConfig())
    else:
        with pytest.raises(ValueError, match=f"without `{name}`, which {model_class.__name__}"):
            TokenSearch(model, DecodingConfig())
        model.enable_lora(1)
        with pytest.raises(ValueError, match=f"overrides {name}, so no merged copy"):
            model.without_lora()


def test_a_search_refuses_a_decoder_layer_with_a_call_of_its_own():
    model = Transformer.from_size("tiny", vocab_size=31, num_layers=1)
    model.decoder.layers[0] = Doubled(128, 512, 4)
    with pytest.raises(ValueError, match="without `call`, which Doubled overrides"):
        TokenSearch(model, DecodingConfig())
    with pytest.raises(ValueError, match="without `call`, which Doubled overrides"):
        DecoderStep(model.decoder, None, None, 1)
