"""The paper's recipe for `compile`, and the callback that shows translations."""

import keras
import pytest

from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.training import TranslationCallback, paper_recipe
from keras_transformer.translation import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_pairs


def test_the_recipe_is_that_of_sections_5_3_and_5_4():
    model = tiny_model(num_layers=1)  # d_model is 12.
    model.compile(**paper_recipe(model))
    adam = model.optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    assert model.loss.label_smoothing == 0.1
    first = float(keras.ops.convert_to_numpy(adam.learning_rate))
    assert first == pytest.approx(12**-0.5 * 4000**-1.5)  # Step 1 of a warm-up of 4,000.


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
    with pytest.raises(ValueError, match="at least one sentence pair, received none"):
        TranslationCallback([], tiny_tokenizer())
