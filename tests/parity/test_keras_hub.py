"""Our translators as KerasHub tasks and presets, and back."""

import json
import os
import subprocess
import sys
from types import FunctionType

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig
from keras_transformer.text import WordPieceTokenizer, train_word_piece
from keras_transformer.translation import Translator
from tests.helpers.tiny import (
    ROOT,
    languages_tokenizer,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

keras_hub = pytest.importorskip("keras_hub", reason="KerasHub is not installed")

from keras_transformer.keras_hub import (  # noqa: E402
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
    seq2seq_lm,  # noqa: E402
)

pytestmark = pytest.mark.parity

S, T = 12, 25
GREEDY = {"beam_size": 1, "max_length": T - 1}
SENTENCES = ["", *toy_sentences(3)]


@pytest.fixture(scope="module")
def translator():
    return tiny_translator(num_layers=1, **GREEDY)


@pytest.fixture(scope="module")
def biased(translator):
    model = tiny_model(num_layers=1, use_output_bias=True)
    return Translator(model, translator.tokenizer, decoding=translator.decoding)


@pytest.fixture
def task(translator):
    return TransformerSeq2SeqLM.from_translator(translator, S)


@pytest.fixture(scope="module")
def greedy(translator):
    """A task that traces its search once for all tests with as many sentences."""
    task = TransformerSeq2SeqLM.from_translator(translator, S)
    task.compile(sampler="greedy", jit_compile=False)
    return task


@pytest.fixture(scope="module")
def preset(greedy, tmp_path_factory):
    path = tmp_path_factory.mktemp("preset")
    greedy.save_to_preset(str(path))
    return str(path)


@pytest.fixture(scope="module")
def two_vocabularies():
    lines = toy_sentences(50)
    source = WordPieceTokenizer(train_word_piece(lines, 285))
    model = tiny_model(source.vocab_size, 380, num_layers=1)
    return Translator(model, source, tiny_tokenizer(), decoding=DecodingConfig(**GREEDY))


def same_weights(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.get_weights(), b.get_weights(), strict=True))


@pytest.mark.slow
def test_greedy_search_gives_the_same_text(greedy, translator):
    assert greedy.generate(SENTENCES) == translator(SENTENCES)
    assert greedy.generate(SENTENCES[3]) == translator(SENTENCES[3:4])[0]


@pytest.mark.slow
def test_a_search_is_traced_without_a_warning(task, caplog):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("AutoGraph is part of TensorFlow")
    import tensorflow as tf

    task.compile(sampler="greedy", jit_compile=False)
    task.generate(SENTENCES[1:2], max_length=4)
    tf.get_logger().warning("heard")
    assert [r.message for r in caplog.records if r.name in ("absl", "tensorflow")] == ["heard"]
    # TensorFlow warns of a function only once in a process.
    for holder in (seq2seq_lm, seq2seq_lm._Step):
        for function in (f for f in vars(holder).values() if isinstance(f, FunctionType)):
            tf.autograph.to_code(function)
    tf.autograph.to_code(TransformerSeq2SeqLM.generate_step)


@pytest.mark.parametrize("name", ["translator", "biased"])
def test_the_logits_are_the_same(name, request):
    translator = request.getfixturevalue(name)
    task = TransformerSeq2SeqLM.from_translator(translator, S)
    pairs = {"encoder_text": SENTENCES, "decoder_text": SENTENCES[::-1]}
    inputs, labels, weights = task.preprocessor(pairs)
    received = task(inputs)
    ids = {"source": inputs["encoder_token_ids"], "target": inputs["decoder_token_ids"]}
    expected = translator.model(ids)
    is_token = ops.convert_to_numpy(inputs["decoder_padding_mask"])
    assert received.shape == (*labels.shape, 380)
    np.testing.assert_array_equal(weights, labels != 0)
    np.testing.assert_allclose(received[is_token], expected[is_token], atol=1e-6)


@pytest.mark.slow
def test_greedy_search_gives_the_same_text_with_two_vocabularies(two_vocabularies, tmp_path):
    task = TransformerSeq2SeqLM.from_translator(two_vocabularies, S)
    task.save_to_preset(str(tmp_path))
    loaded = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path))
    loaded.compile(sampler="greedy", jit_compile=False)
    assert loaded.generate(SENTENCES) == two_vocabularies(SENTENCES)
    assert loaded.to_translator(two_vocabularies.decoding)(SENTENCES) == two_vocabularies(SENTENCES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler",
    [
        keras_hub.samplers.BeamSampler(num_beams=1),
        keras_hub.samplers.TopKSampler(k=1),
        keras_hub.samplers.TopPSampler(p=1e-6),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_samplers_without_a_choice_are_greedy(task, translator, sampler):
    task.compile(sampler=sampler, jit_compile=False)
    assert task.generate(SENTENCES[1:4]) == translator(SENTENCES[1:4])


@pytest.mark.slow
def test_a_beam_finds_the_most_probable_token(task, greedy):
    expected = greedy.generate(SENTENCES[1:], max_length=2)
    task.compile(sampler="beam", jit_compile=False)
    assert task.generate(SENTENCES[1:], max_length=2) == expected


@pytest.mark.slow
def test_a_prompt_is_what_a_translation_starts_with(greedy, translator):
    prompts = ["", "rot blau Hund", "", "rot blau Hund"]
    received = greedy.generate({"encoder_text": SENTENCES, "decoder_text": prompts})
    decoding = DecodingConfig(**GREEDY, prefix=prompts[1])
    prompted = Translator(translator.model, translator.tokenizer, decoding=decoding)
    assert received[::2] == translator(SENTENCES[::2])
    assert received[1::2] == prompted(SENTENCES[1::2])


def test_a_preset_has_the_layout_of_keras_hub(preset):
    assert {*os.listdir(preset)} == {
        "assets",
        "config.json",
        "metadata.json",
        "model.weights.h5",
        "preprocessor.json",
        "task.json",
        "tokenizer.json",
    }
    assert os.listdir(os.path.join(preset, "assets", "tokenizer")) == ["vocabulary.spm"]
    with open(os.path.join(preset, "config.json"), encoding="utf-8") as file:
        assert json.load(file)["config"]["d_model"] == 12


@pytest.mark.slow
def test_a_preset_comes_back_as_the_same_translator(preset, translator):
    loaded = keras_hub.models.Seq2SeqLM.from_preset(preset)
    assert isinstance(loaded, TransformerSeq2SeqLM)
    preprocessor = loaded.preprocessor
    assert preprocessor.encoder_sequence_length == S
    assert preprocessor.decoder_sequence_length == T
    back = loaded.to_translator(translator.decoding)
    assert same_weights(back.model, translator.model)
    assert back.tokenizer.model == translator.tokenizer.model
    assert back(SENTENCES) == translator(SENTENCES)


def test_parts_of_a_preset_load_alone(preset, translator):
    backbone = keras_hub.models.Backbone.from_preset(preset, dropout=0.3)
    assert isinstance(backbone, TransformerBackbone)
    assert backbone.transformer.config.dropout == 0.3
    assert same_weights(backbone.transformer, translator.model)
    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(preset)
    ids = tokenizer(SENTENCES)
    assert ids == translator.tokenizer.tokenize(SENTENCES).to_list()
    assert tokenizer.detokenize(ids) == SENTENCES
    preprocessor = keras_hub.models.Seq2SeqLMPreprocessor.from_preset(preset)
    assert isinstance(preprocessor, TransformerSeq2SeqLMPreprocessor)
    assert preprocessor.tokenizer.vocabulary_size() == 380


@pytest.mark.slow
def test_a_preset_loads_in_another_dtype(preset):
    loaded = keras_hub.models.Seq2SeqLM.from_preset(preset, dtype="mixed_bfloat16")
    assert loaded.backbone.transformer.encoder.compute_dtype == "bfloat16"
    loaded.compile(sampler="greedy", jit_compile=False)
    assert len(loaded.generate(SENTENCES[1:3], max_length=8)) == 2


@pytest.mark.slow
def test_a_keras_file_keeps_everything(task, translator, tmp_path):
    task.save(tmp_path / "task.keras")
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    loaded.compile(sampler="greedy", jit_compile=False)
    assert loaded.generate(SENTENCES[1:4]) == translator(SENTENCES[1:4])


@pytest.mark.slow
def test_fit_takes_text(translator):
    task = TransformerSeq2SeqLM.from_translator(translator, S, 10)
    task.compile(optimizer=keras.optimizers.Adam(1e-2), jit_compile=False)
    pairs = {"encoder_text": SENTENCES, "decoder_text": SENTENCES}
    losses = task.fit(pairs, batch_size=4, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert not same_weights(task.backbone.transformer, translator.model)


@pytest.mark.slow
def test_the_output_bias_is_trained_and_saved_and_used(biased, tmp_path):
    task = TransformerSeq2SeqLM.from_translator(biased, S)
    task.compile(sampler="greedy", optimizer=keras.optimizers.Adam(0.1), jit_compile=False)
    assert task.generate(SENTENCES) == biased(SENTENCES)
    before = ops.convert_to_numpy(biased.model.output_bias)
    task.fit({"encoder_text": SENTENCES, "decoder_text": SENTENCES}, verbose=0)
    assert np.all(ops.convert_to_numpy(task.backbone.transformer.output_bias) != before)
    task.save(tmp_path / "task.keras")
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    assert same_weights(loaded, task)
    assert loaded.to_translator(biased.decoding)(SENTENCES) == task.generate(SENTENCES)


@pytest.mark.slow
def test_learned_positions_are_enough_for_fit_and_generate(translator):
    model = tiny_model(num_layers=1, position="learned", max_length=9)
    task = TransformerSeq2SeqLM.from_translator(Translator(model, translator.tokenizer))
    assert task.preprocessor.decoder_sequence_length == 9
    task.compile(sampler="greedy", jit_compile=False)
    history = task.fit({"encoder_text": SENTENCES, "decoder_text": SENTENCES}, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert len(task.generate(SENTENCES)) == len(SENTENCES)


def test_a_model_of_many_languages_is_refused():
    tokenizer = languages_tokenizer()
    model = tiny_model(tokenizer.vocab_size, num_layers=1)
    with pytest.raises(ValueError, match="has no languages, but the translator's model has 3"):
        TransformerSeq2SeqLM.from_translator(Translator(model, tokenizer))


@pytest.mark.slow
@pytest.mark.parametrize("change", ["lora", "int8"])
def test_lora_and_int8_go_both_ways(translator, tmp_path, change):
    model = Transformer(translator.model.config)  # With Keras's own policy.
    model.set_weights(translator.model.get_weights())
    if change == "int8":
        model.quantize("int8")
    else:
        model.enable_lora(2)
    changed = Translator(model, translator.tokenizer, decoding=translator.decoding)
    changed.origin = {"license": "mit", "attribution": "Jane Doe"}
    TransformerSeq2SeqLM.from_translator(changed, S).save_to_preset(str(tmp_path))
    assert keras.config.dtype_policy().name == "float32"
    loaded = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path))
    loaded.compile(sampler="greedy", jit_compile=False)
    assert loaded.generate(SENTENCES[:3]) == changed(SENTENCES[:3])
    assert same_weights(loaded.to_translator().model, model)
    assert loaded.to_translator().origin == changed.origin


def test_a_frozen_model_stays_frozen_in_a_backbone(tmp_path):
    model = Transformer.from_size("tiny", vocab_size=30, num_layers=1, d_model=6, num_heads=2)
    model.trainable = False
    backbone = TransformerBackbone.from_transformer(model)
    assert backbone.trainable_weights == []
    backbone.save(tmp_path / "backbone.keras")
    loaded = keras.saving.load_model(tmp_path / "backbone.keras")
    assert loaded.weights and loaded.trainable_weights == []
    backbone.trainable = True
    assert len(backbone.trainable_weights) == len(backbone.weights)


def test_a_subclass_that_computes_other_logits_is_refused(translator):
    class Doubled(Transformer):
        def project_to_logits(self, x):
            return 2 * super().project_to_logits(x)

    with pytest.raises(ValueError, match="without project_to_logits, which Doubled overrides"):
        TransformerBackbone.from_transformer(Doubled(translator.model.config))


def test_lora_trains_little(translator):
    backbone = TransformerBackbone.from_transformer(translator.model)
    backbone.enable_lora(rank=2)
    kernels = [weight for weight in backbone.trainable_weights if "lora" in weight.name]
    assert kernels == backbone.trainable_weights
    # Two matrices for each of 4 kernels of the encoder's, the decoder's and the cross-attention.
    assert len(kernels) == 2 * 4 * 3


def test_sources_have_eos_and_no_bos_and_are_cut_off(task):
    long = " ".join(SENTENCES)
    ids = task.preprocessor.generate_preprocess([long, "one"])
    source = ops.convert_to_numpy(ids["encoder_token_ids"])
    assert source.shape == (2, S)
    assert source[0, -1] == 3 and 2 not in source
    assert source[1].tolist() == [*task.preprocessor.tokenizer("one"), 3] + [0] * (S - 2)
    assert ops.convert_to_numpy(ids["decoder_token_ids"])[:, :2].tolist() == [[2, 0]] * 2


def test_the_tokenizer_says_what_it_lacks():
    with pytest.raises(ValueError, match="needs a vocabulary, which is missing"):
        TransformerTokenizer()(["one"])
    with pytest.raises(ValueError, match="kind must be one of 'sentencepiece', 'wordpiece'"):
        TransformerTokenizer(kind="bpe")


@pytest.mark.slow
def test_a_task_without_preprocessor_takes_ids(translator):
    backbone = TransformerBackbone.from_transformer(translator.model)
    task = TransformerSeq2SeqLM(backbone)
    task.compile(sampler="greedy", jit_compile=False)
    source, lengths = translator.encode_text(SENTENCES[1:3])
    prompt = np.zeros((2, 9), "int32")
    prompt[:, 0] = 2
    inputs = {
        "encoder_token_ids": source,
        "encoder_padding_mask": source != 0,
        "decoder_token_ids": prompt,
        "decoder_padding_mask": prompt != 0,
    }
    received = task.generate(inputs, stop_token_ids=None)["decoder_token_ids"][:, 1:]
    expected = translator.search(source, lengths).ids[:, 0, :8].numpy()
    is_token = expected != 0
    np.testing.assert_array_equal(received[is_token], expected[is_token])
    with pytest.raises(ValueError, match="the task has no preprocessor"):
        task.to_translator()


# JAX takes far longer to compile than to run what is so small.
FAST_COMPILATION = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
OTHER_BACKEND = """
import sys
import keras_hub, keras_transformer.keras_hub
task = keras_hub.models.Seq2SeqLM.from_preset(sys.argv[1])
task.compile(sampler="greedy", jit_compile=False)
print("|".join(task.generate(sys.argv[2:])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_generate_the_same_text(preset, translator, backend):
    pytest.importorskip(backend)
    sentences = SENTENCES[1:4]
    result = subprocess.run(
        [sys.executable, "-c", OTHER_BACKEND, preset, *sentences],
        env=os.environ | FAST_COMPILATION | {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().split("|") == translator(sentences)
