import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig, ExperimentConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.losses import smoothed_cross_entropy
from keras_transformer.training.validation import Validation, greedy_validation
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_pairs, toy_training


@pytest.fixture
def pairs():
    return toy_pairs(9)


@pytest.fixture
def encoded(pairs):
    return encode_pairs(pairs, tiny_tokenizer(), tiny_tokenizer(), max_length=50)


def test_validation_reports_loss_accuracy_and_greedy_bleu(pairs, encoded):
    model = tiny_model()
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


def test_batches_take_the_share_of_a_replica(pairs):
    directory, translator = toy_training()
    config = ExperimentConfig.from_file(directory / "config.yaml")
    tokenizers = translator.tokenizer, translator.target_tokenizer
    validation = greedy_validation(config, translator.model, tokenizers, pairs, 20)
    sizes = [labels.shape for _, labels in validation.dataset]
    assert sum(rows for rows, _ in sizes) == len(pairs)
    assert max(rows * length for rows, length in sizes) <= 20
    alone = greedy_validation(config, translator.model, tokenizers, pairs, 1)
    assert len([*alone.dataset]) >= len(sizes)  # Every sentence has room.
