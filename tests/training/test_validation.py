import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.losses import smoothed_cross_entropy
from keras_transformer.training.validation import Validation, evenly_spaced, greedy_validation
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_experiment, toy_pairs


@pytest.fixture
def pairs():
    return toy_pairs(9)


@pytest.fixture
def encoded(pairs):
    return encode_pairs(pairs, tiny_tokenizer(), tiny_tokenizer(), max_length=50)


@pytest.mark.slow
def test_validation_reports_loss_accuracy_and_greedy_bleu(pairs, encoded):
    model = tiny_model(num_layers=1)
    model.compile(keras.optimizers.Adam(0.25), "mse")
    translator = Translator(model, tiny_tokenizer(), decoding=DecodingConfig(beam_size=1))
    batches = TokenBatches(encoded, 40, shuffle=False)
    callback = Validation(batches, pairs, translator)
    callback.set_model(model)

    inputs, labels = encoded.padded_batch(np.arange(len(pairs)))
    logits = model({name: tf.constant(ids) for name, ids in inputs.items()})
    is_token = labels != 0
    nll = smoothed_cross_entropy(labels, logits).numpy()[is_token].mean()
    accuracy = (logits.numpy().argmax(-1) == labels)[is_token].mean()
    bleu = score(translator([pair[0] for pair in pairs]), [pair[1] for pair in pairs]).bleu
    for epoch in range(2):  # The second begins anew.
        logs = {}
        callback.on_epoch_end(epoch, logs)
        assert logs == {
            "learning_rate": 0.25,
            "val_nll": pytest.approx(nll, rel=1e-5),
            "val_accuracy": pytest.approx(accuracy, rel=1e-5),
            "val_bleu": bleu,
        }


def test_batches_take_the_share_of_a_replica_and_a_sample_of_the_pairs(pairs):
    config = toy_experiment({"train_source": "train.tsv", "validation_source": "valid.tsv"})
    model, tokenizers = tiny_model(num_layers=1), (tiny_tokenizer(), tiny_tokenizer())
    validation = greedy_validation(config, model, tokenizers, pairs, 20)
    sizes = [labels.shape for _, labels in validation.dataset]
    assert sum(rows for rows, _ in sizes) == len(pairs)
    assert max(rows * length for rows, length in sizes) <= 20
    alone = greedy_validation(config, model, tokenizers, pairs, 1)
    assert len([*alone.dataset]) >= len(sizes)  # Every sentence has room.
    training = dataclasses.replace(config.training, validation_pairs=4)
    config = dataclasses.replace(config, training=training)
    sample = greedy_validation(config, model, tokenizers, pairs, 99)
    assert len(sample.pairs) == sum(labels.shape[0] for _, labels in sample.dataset) == 4


def test_a_sample_is_evenly_spaced_and_has_no_empty_sentences(pairs):
    assert (
        evenly_spaced(pairs, None) == evenly_spaced(pairs, 9) == evenly_spaced(pairs, 99) == pairs
    )
    assert evenly_spaced(pairs, 3) == [pairs[0], pairs[3], pairs[6]]
    assert evenly_spaced(pairs, 8) == pairs[:8]
    holes = [("a", " "), pairs[0], ("", "b"), pairs[1]]
    assert evenly_spaced(holes, 3) == pairs[:2]
