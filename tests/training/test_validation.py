"""Validation in a run, the scores of its outputs, and the callback that shows translations."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DataConfig, DecodingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.losses import smoothed_cross_entropy
from keras_transformer.training import TranslationCallback, paper_recipe
from keras_transformer.training.validation import (
    Validation,
    direction_scores,
    greedy_validation,
    sample,
    subset_noise,
    validation_sample,
)
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_experiment, toy_pairs

TEXT = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
DATA = DataConfig(**TEXT)


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
    callback = Validation(batches, pairs, translator, DATA)
    callback.set_model(model)

    inputs, labels = encoded.padded_batch(np.arange(len(pairs)))
    logits = model({name: tf.constant(ids) for name, ids in inputs.items()})
    is_token = labels != 0
    nll = smoothed_cross_entropy(labels, logits).numpy()[is_token].mean()
    accuracy = (logits.numpy().argmax(-1) == labels)[is_token].mean()
    scores = score(translator([pair[0] for pair in pairs]), [pair[1] for pair in pairs])
    for epoch in range(2):  # The second begins anew.
        logs = {}
        callback.on_epoch_end(epoch, logs)
        assert logs == {
            "learning_rate": 0.25,
            "val_nll": pytest.approx(nll, rel=1e-5),
            "val_accuracy": pytest.approx(accuracy, rel=1e-5),
            "val_bleu": scores.bleu,
            "val_chrf": scores.chrf,
        }


def test_batches_have_the_share_of_a_replica_or_the_longest_sentence(pairs):
    model, tokenizers = tiny_model(num_layers=1), (tiny_tokenizer(), tiny_tokenizer())
    config = toy_experiment(TEXT)
    longest, counts = 7, []  # Six words and the end.
    for share in (1, 20, 99):
        validation = greedy_validation(config, model, tokenizers, pairs, share)
        sizes = [labels.shape for _, labels in validation.dataset]
        assert sum(rows for rows, _ in sizes) == len(pairs)
        assert max(rows * length for rows, length in sizes) <= max(share, longest)
        counts.append(len(sizes))
    assert counts[0] > counts[1] > counts[2] == 1


def test_epochs_are_validated_on_a_sample_of_the_pairs(pairs):
    config = toy_experiment(TEXT, validation_pairs=4)
    sampled, encoded = validation_sample(config, (tiny_tokenizer(), tiny_tokenizer()), pairs)
    assert len(sampled) == len(encoded) == 4


def test_a_sample_is_evenly_spaced_and_has_no_empty_sentences(pairs):
    assert sample(pairs, None) == sample(pairs, 9) == sample(pairs, 99) == pairs
    assert sample(pairs, 3) == [pairs[0], pairs[3], pairs[6]]
    assert sample(pairs, 8) == pairs[:8]
    holes = [("a", " "), pairs[0], ("", "b"), pairs[1]]
    assert sample(holes, 3) == pairs[:2]


def test_a_mean_is_taken_over_languages_not_over_sentences():
    right = "ein Hund läuft über den Strand"
    pairs = [(f">>de<< {n}", right) for n in range(3)] + [(">>fr<< x", right), ("", right)]
    # The last one has no language; it would lower either.
    scores = direction_scores([right, right, right, "Mond", "Sonne"], pairs, ["fr", "de", "de"])
    assert scores == {
        "val_bleu": pytest.approx(50),
        "val_chrf": pytest.approx(50, abs=5),
        "val_bleu_fr": 0,
        "val_bleu_de": pytest.approx(100),
    }
    alone = direction_scores([right, right, right, "Mond", "Sonne"], pairs, [])
    assert alone.keys() == {"val_bleu", "val_chrf"} and 0 < alone["val_bleu"] < 100


def test_the_noise_of_a_subset_is_how_far_its_bleu_is_from_that_of_all():
    choose = random.Random(1)
    pairs = toy_pairs(400)
    # Some words are wrong, so sentences differ in how good they are.
    outputs = [
        " ".join("x" if choose.random() < 0.2 else word for word in target.split())
        for _, target in pairs
    ]
    whole = direction_scores(outputs, pairs)["val_bleu"]
    noises, is_within = [], []
    for _ in range(40):
        places = choose.sample(range(len(pairs)), 100)
        some, texts = [pairs[i] for i in places], [outputs[i] for i in places]
        noises.append(subset_noise(texts, some, DATA, share=0.25))
        is_within.append(abs(direction_scores(texts, some)["val_bleu"] - whole) < noises[-1])
    assert sum(is_within) >= 34  # 95%, less four standard deviations.
    assert 1 < min(noises) < max(noises) < 10
    assert subset_noise(outputs, pairs, DATA, share=1.0) == 0


def test_a_sample_has_an_equal_share_of_each_language():
    pairs = [(f">>de<< {n}", "x") for n in range(9)] + [(f">>fr<< {n}", "x") for n in range(2)]
    german, french = pairs[:9], pairs[9:]
    assert sample(pairs, None, ["de", "fr"]) == pairs
    assert sample(pairs, 1, ["de", "fr"]) == [german[0], french[0]]
    assert sample(pairs, 6, ["de", "fr"]) == [german[0], german[3], german[6], *french]


@pytest.mark.slow
def test_a_callback_adds_bleu_to_the_logs_and_prints_samples(capsys):
    pairs, tokenizer = toy_pairs(30), tiny_tokenizer()
    batches = TokenBatches(encode_pairs(pairs, tokenizer), batch_tokens=100)
    model = tiny_model(num_layers=1)
    model.compile(**paper_recipe(model, warmup_steps=4))
    watch = TranslationCallback(pairs[:5], tokenizer, samples=2)
    history = model.fit(batches.dataset(), epochs=2, callbacks=[watch], verbose=0)
    printed = capsys.readouterr().out

    greedy = TranslationCallback(pairs[:5], tokenizer)
    greedy.set_model(model)
    greedy.on_train_begin()
    translations = greedy.translator([source for source, _ in pairs[:5]])
    expected = score(translations, [target for _, target in pairs[:5]]).bleu
    assert len(history.history["val_bleu"]) == 2
    assert history.history["val_bleu"][-1] == pytest.approx(expected)
    assert isinstance(greedy.translator, Translator)
    assert printed.count("validation BLEU (greedy)") == 2 and printed.count("  -> ") == 4
    assert f"  {pairs[1][0]}\n  -> {translations[1]}\n" in printed
    assert pairs[2][0] not in printed


def test_a_callback_needs_pairs():
    with pytest.raises(ValueError, match="at least one sentence pair, received an empty list"):
        TranslationCallback([], tiny_tokenizer())
