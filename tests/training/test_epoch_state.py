import keras
import numpy as np
import pytest

from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.resume import EpochState
from tests.helpers.tiny import tiny_tokenizer, toy_pairs


@pytest.fixture
def encoded():
    return encode_pairs(toy_pairs(9), tiny_tokenizer(), tiny_tokenizer(), max_length=50)


def make_model():
    """A compiled model of one weight, w: its output is w times its input."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_batches_and_dropout_depend_only_on_seed_and_epoch(encoded, tmp_path):
    def start(epoch, seed, steps_before):
        inputs = keras.Input([50])
        x = keras.layers.Dropout(0.5)(keras.layers.Dropout(0.5)(inputs))
        model = keras.Model(inputs, x)
        for _ in range(steps_before):
            model(np.ones([1, 50]), training=True)
        callback = EpochState(TokenBatches(encoded, 50, seed=seed), Checkpoints(tmp_path, keep=1))
        callback.set_model(model)
        callback.on_epoch_begin(epoch)
        assert (callback.batches.epoch, callback.batches.step) == (epoch, 0)
        return [model(np.ones([1, 50]), training=True).numpy().tolist() for _ in range(2)]

    first, second = start(epoch=4, seed=1, steps_before=0)
    assert start(epoch=4, seed=1, steps_before=3) == [first, second]
    others = [first, second, *start(5, 1, 0), *start(4, 2, 0)]
    assert len({str(masks) for masks in others}) == 6
    # Two layers with the same mask would keep a half of the values, not a quarter.
    assert 2 < np.count_nonzero(first) < 22
