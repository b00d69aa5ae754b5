"""A larger model begins where a smaller one ended."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.growth import grow

SMALL = TransformerConfig(
    vocab_size=50, num_layers=2, d_model=12, d_ff=20, num_heads=2, max_length=9
)
INPUTS = {
    "source": np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]]),
    "target": np.array([[2, 10, 11], [2, 12, 0]]),
}


def trained_like(config):
    """Return a model none of whose weights is as it was initialised."""
    keras.utils.set_random_seed(3)
    model = Transformer(config)
    rng = np.random.default_rng(4)
    model.set_weights([w + 0.2 * rng.standard_normal(w.shape) for w in model.get_weights()])
    return model


def logits(model):
    return ops.convert_to_numpy(model(INPUTS))


def by_place(model):
    return {weight.path.partition("/")[2]: weight.numpy() for weight in model.weights}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    ("position", "sizes"),
    [
        ("sinusoidal", {"d_ff": 31, "num_heads": 5, "key_dim": 6}),
        ("learned", {"d_model": 36, "num_heads": 7, "key_dim": 6, "dropout": 0.3}),
        ("learned", {"d_model": 24, "num_heads": 4, "d_ff": 27}),
    ],
)
def test_the_logits_are_the_smaller_models(norm, position, sizes):
    small = trained_like(dataclasses.replace(SMALL, norm=norm, position=position))
    large = grow(small, dataclasses.replace(small.config, **sizes))
    assert large.count_params() > small.count_params()
    np.testing.assert_allclose(logits(large), logits(small), atol=2e-5)


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_however_embeddings_are_shared(share):
    sizes = {"share_embeddings": share, "position": "learned"}
    sizes |= {} if share == "all" else {"target_vocab_size": 40}
    small = trained_like(dataclasses.replace(SMALL, **sizes))
    large = grow(small, dataclasses.replace(small.config, d_model=24, num_heads=4))
    np.testing.assert_allclose(logits(large), logits(small), atol=2e-5)


def test_sinusoids_keep_their_frequencies_in_the_first_copy():
    small = trained_like(SMALL)
    large = grow(small, dataclasses.replace(SMALL, d_model=24, num_heads=4))
    old, new = (
        ops.convert_to_numpy(model.source_position.encoding(9)).reshape(9, -1, 2)
        for model in (small, large)
    )
    np.testing.assert_allclose(new[:, ::2], old, atol=1e-6)
    # At the first position the copies are equal.
    first = {"source": [[3]], "target": [[2]]}
    received, expected = (
        ops.convert_to_numpy(model({k: np.array(v) for k, v in first.items()}))
        for model in (large, small)
    )
    np.testing.assert_allclose(received, expected, atol=2e-5)
    assert np.abs(logits(large) - logits(small)).max() > 1e-3


def test_what_is_new_learns():
    small = trained_like(SMALL)
    large = grow(small, dataclasses.replace(SMALL, d_ff=31, d_model=24, num_heads=4))
    before = by_place(large)
    large.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    large.train_on_batch(INPUTS, np.array([[10, 11, 3], [12, 3, 0]]))
    after = by_place(large)
    outer, embeddings = "decoder/layer_1/feed_forward/outer_kernel", "source_embedding/embeddings"
    assert not before[outer][20:].any() and after[outer][20:].any()
    equal, unequal = (weights[embeddings].reshape(50, 6, 2, 2) for weights in (before, after))
    np.testing.assert_array_equal(equal[:, :, 0], equal[:, :, 1])
    assert np.abs(unequal[:, :, 0] - unequal[:, :, 1]).max() > 1e-6


def test_sizes_that_it_cannot_grow_to_are_named_together():
    config = dataclasses.replace(SMALL, d_model=18, num_layers=3, d_ff=19, num_heads=3)
    with pytest.raises(
        ValueError,
        match="num_layers is 3 in place of 2; d_model is 18 in place of a multiple of 12; "
        "d_ff is 19 in place of 20 or more[.]",
    ):
        grow(Transformer(SMALL), config)
    with pytest.raises(ValueError, match="key_dim is 12 in place of 6; value_dim is 12 in"):
        grow(Transformer(SMALL), dataclasses.replace(SMALL, d_model=24))
