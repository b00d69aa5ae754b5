"""LoRA, int8 and frozen parts of whole models: training, files, decoding and exports."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig, Translator
from keras_transformer.config import DecodingConfig
from keras_transformer.export import load_saved_model
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.translation import compiled_search
from keras_transformer.translation.restriction import restrict_vocabulary
from keras_transformer.translation.search import TokenSearch
from tests.helpers.layer_checks import saved_and_loaded
from tests.helpers.tiny import (
    WORDS,
    export_quickly,
    languages_tokenizer,
    saved_graph,
    tiny_model,
    tiny_tokenizer,
    toy_sentences,
)

SOURCE = np.array([[30, 31, 32, 3], [33, 3, 0, 0], [34, 35, 3, 0]], "int32")
IDS = {"source": SOURCE, "target": np.array([[2, 40], [2, 41], [2, 42]], "int32")}
EVERY = ("attention", "feed_forward", "embedding")
ANY_SOURCE = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)


def logits(model):
    return model(IDS).numpy()


def add_lora(model, targets=EVERY):
    """Give a model LoRA in which no matrix is zero."""
    model.enable_lora(2, lora_alpha=3, targets=targets)
    random = np.random.default_rng(5)
    for weight in model.trainable_weights:
        weight.assign(random.normal(scale=0.3, size=weight.shape))


def with_lora(targets=EVERY):
    model = tiny_model()
    add_lora(model, targets)
    return model


def int8_model():
    model = tiny_model()
    model.quantize("int8")
    return model


def translator_of(model, **decoding):
    options = {"beam_size": 2, "extra_length": 5, **decoding}
    return Translator(model, tiny_tokenizer(), decoding=DecodingConfig(**options))


@pytest.mark.slow
def test_lora_trains_the_attentions_and_nothing_else():
    model = tiny_model()
    before = {weight.path: weight.numpy() for weight in model.weights}
    expected = logits(model)
    model.enable_lora(2)
    assert np.array_equal(logits(model), expected)
    # Query, key, value and output of 2 + 2 * 2 attentions have A and B each.
    assert len(model.trainable_weights) == 6 * 4 * 2
    model.compile("adam", LabelSmoothedCrossEntropy())
    model.fit(IDS, np.array([[40, 3], [41, 3], [42, 3]]), epochs=2, verbose=0)
    assert not np.allclose(logits(model), expected, atol=1e-4)
    after = {weight.path: weight.numpy() for weight in model.weights}
    assert all(np.array_equal(value, after[path]) for path, value in before.items())


@pytest.mark.parametrize(
    ("target", "count"), [("attention", 6 * 4), ("feed_forward", 4 * 2), ("embedding", 3)]
)
def test_targets_choose_the_kernels(target, count):
    assert len(with_lora([target]).trainable_weights) == 2 * count


@pytest.mark.parametrize("targets", [["attentions"], "attention", []])
def test_unknown_targets_are_refused(targets):
    with pytest.raises(ValueError, match="must be a list of 'embedding', 'attention', 'feed_fo"):
        tiny_model().enable_lora(2, targets=targets)


def test_merging_gives_a_plain_model_with_the_same_logits():
    model, plain = with_lora(), tiny_model()
    expected = logits(model)
    merged = model.without_lora()
    np.testing.assert_allclose(logits(merged), expected, atol=1e-5)
    assert merged.has_lora is False and model.has_lora is True
    model.merge_lora()
    np.testing.assert_allclose(logits(model), expected, atol=1e-5)
    for each in (merged, model):
        assert each.get_config().keys() == plain.get_config().keys()
        paths = [weight.path for weight in each.trainable_weights]
        assert paths == [weight.path for weight in plain.trainable_weights]
    assert model.without_lora() is model


def test_a_file_keeps_lora_and_what_it_froze():
    model = with_lora(["attention"])
    copy = saved_and_loaded(model)
    assert np.array_equal(logits(copy), logits(model))
    paths = [weight.path for weight in model.trainable_weights]
    assert [weight.path for weight in copy.trainable_weights] == paths
    copy.merge_lora()
    assert len(copy.trainable_weights) == len(tiny_model().trainable_weights)


def test_a_store_that_is_a_dict_has_what_keras_puts_there():
    layer = tiny_model().source_embedding
    ours, theirs = {}, {}
    layer.save_own_variables(ours)
    keras.layers.Layer.save_own_variables(layer, theirs)
    assert ours.keys() == theirs.keys() == {"0"}
    assert ours["0"] is theirs["0"]
    assert ours["0"].shape == layer.embeddings.shape
    layer.load_own_variables(ours)


def test_a_file_keeps_int8():
    model = int8_model()
    copy = saved_and_loaded(model)
    assert np.array_equal(logits(copy), logits(model))
    assert [weight.dtype for weight in copy.weights] == [weight.dtype for weight in model.weights]
    assert copy.quantization_mode == "int8"


def test_another_precision_keeps_lora_and_int8():
    for model in (with_lora(), int8_model()):
        copy = model.with_dtype("bfloat16")
        assert copy.get_config()["adaptation"] == model.get_config()["adaptation"]
        np.testing.assert_allclose(logits(copy), logits(model), atol=0.5)


def copies_of(model):
    return saved_and_loaded(model), type(model).from_config(model.get_config())


def trained(model):
    return [weight.path for weight in model.trainable_weights]


def freeze_encoder(model):
    model.encoder.trainable = False


def freeze_decoder_with_lora(model):
    model.enable_lora(2)
    model.decoder.trainable = False


def freeze_single_parts(model):
    model.source_embedding.trainable = model.output_bias.trainable = False
    model.decoder.layers[1].cross_attention_residual.layer_norm.trainable = False


def freeze_encoder_of_int8(model):
    model.quantize("int8")
    model.encoder.trainable = False


@pytest.mark.parametrize(
    ("freeze", "states"),
    [
        (freeze_encoder, {"encoder": False}),
        (freeze_decoder_with_lora, {"decoder": False}),
        (
            freeze_single_parts,
            {
                "source_embedding": False,
                "decoder/layers/1/cross_attention_residual/layer_norm": False,
                "output_bias": False,
            },
        ),
        (freeze_encoder_of_int8, {"encoder": False}),
    ],
)
def test_frozen_parts_stay_frozen_in_every_copy(freeze, states):
    model = tiny_model(use_output_bias=True)
    every = len(model.trainable_weights)
    freeze(model)
    assert 0 < len(model.trainable_weights) < every
    for copy in (*copies_of(model), model.with_dtype("bfloat16")):
        assert trained(copy) == trained(model)
        assert copy.get_config()["adaptation"]["trainable"] == states
    if model.has_lora:
        for copy in (model, *copies_of(model)):
            copy.merge_lora()
            assert copy.trainable_weights and not any("decoder" in path for path in trained(copy))


def test_a_frozen_model_is_frozen_as_a_part_of_another():
    model = tiny_model()
    model.trainable = False
    for copy in (model, *copies_of(model)):
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in IDS}
        assert not keras.Model(inputs, copy(inputs)).trainable_weights


def test_a_file_of_a_model_with_frozen_parts_keeps_the_state_of_its_optimizer():
    model = tiny_model(dropout=0.0)
    model.encoder.trainable = False
    model.compile("adam", LabelSmoothedCrossEntropy(), jit_compile=False)
    labels = np.array([[40, 3], [41, 3], [42, 3]])
    model.fit(IDS, labels, verbose=0)
    copy = saved_and_loaded(model)
    for each in (model, copy):
        each.fit(IDS, labels, verbose=0)
        assert int(each.optimizer.iterations) == 2
    np.testing.assert_allclose(logits(copy), logits(model), atol=1e-6)


def test_int8_logits_are_close():
    difference = np.abs(logits(int8_model()) - logits(tiny_model()))
    assert 0 < difference.max() < 0.2


def test_filters_choose_layers_by_name():
    model = tiny_model()
    model.quantize("int8", filters="feed_forward")
    states = model.get_config()["adaptation"]
    assert list(states) == [
        f"{s}/layer_{i}/feed_forward" for s in ("encoder", "decoder") for i in (0, 1)
    ]


def test_an_int8_model_is_not_trained():
    model = int8_model()
    model.compile("adam", LabelSmoothedCrossEntropy())
    with pytest.raises(ValueError, match="An int8 model cannot be trained"):
        model.fit(IDS, np.array([[40, 3], [41, 3], [42, 3]]), verbose=0)
    with pytest.raises(ValueError, match="already; LoRA needs plain kernels"):
        model.enable_lora(2)


@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_other_modes_are_refused(mode):
    with pytest.raises(ValueError, match=f"can be quantized to 'int8', received '{mode}'"):
        tiny_model().quantize(mode)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "beam_size"), [(with_lora, 2), (int8_model, 1)])
def test_the_search_decodes_with_the_adapted_kernels(make, beam_size):
    model, plain = make(), tiny_model()
    for name, layer in plain.kernel_layers().items():
        for kernel in layer.kernel_names:
            getattr(layer, kernel).assign(model.kernel_layers()[name].kernel(kernel))
    options = DecodingConfig(beam_size=beam_size, extra_length=4)
    adapted, given = (
        tf.function(TokenSearch(each, options), ANY_SOURCE, autograph=False)
        for each in (model, plain)
    )
    for rows in (1, 3):  # One sentence has a loop of its own.
        ids = tf.constant(SOURCE[:rows])
        lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
        received, expected = adapted(ids, lengths), given(ids, lengths)
        assert np.array_equal(received.ids, expected.ids)
        np.testing.assert_allclose(received.scores, expected.scores, atol=1e-4)


def test_a_loop_computes_each_int8_kernel_once():
    def casts(model):
        search = TokenSearch(model, DecodingConfig(beam_size=2, extra_length=4))
        graph = (
            tf.function(search, autograph=False)
            .get_concrete_function(*ANY_SOURCE)
            .graph.as_graph_def()
        )
        bodies = [f for f in graph.library.function if "while_body" in f.signature.name]
        nodes = [node for body in bodies for node in body.node_def if node.op == "Cast"]
        return [node for node in nodes if node.attr["SrcT"].type == tf.int8.as_datatype_enum]

    # The rows of the tokens, in the loops for one sentence and for several.
    assert len(casts(int8_model())) == 2 and not casts(tiny_model())


@pytest.mark.slow
def test_a_compiled_search_decodes_with_int8_kernels(monkeypatch):
    monkeypatch.setattr(compiled_search, "BATCH_SIZES", (2,))  # Fewer shapes to compile.
    model, sentences = int8_model(), toy_sentences(4)
    search = DecodingConfig(beam_size=2, extra_length=5, max_source_length=12)
    compiled, portable = (
        Translator(model, tiny_tokenizer(), decoding=search, compiled=compiled)
        for compiled in (True, False)
    )
    assert compiled(sentences) == portable(sentences)


@pytest.mark.slow
def test_an_export_contains_merged_kernels(tmp_path):
    translator = translator_of(with_lora(["attention"]), beam_size=1)
    sentences = toy_sentences(7)
    version = export_quickly(translator, tmp_path)
    loaded = load_saved_model(version)
    assert loaded(sentences) == translator(sentences)
    names = [weight.name for weight in loaded.loaded.weights]
    assert len(names) == len(tiny_model().weights) and not any("lora" in name for name in names)
    assert translator.model.has_lora


@pytest.mark.slow
def test_an_export_of_an_int8_model_is_int8_and_loads_as_float(tmp_path):
    translator = translator_of(int8_model(), beam_size=1)
    sentences = toy_sentences(7)
    expected = translator(sentences)
    version = export_quickly(translator, tmp_path / "model")
    served = load_saved_model(version)
    assert served(sentences) == expected
    weights = served.loaded.weights
    assert sum(weight.dtype == tf.int8 for weight in weights) == 6 * 4 + 4 * 2 + 3
    assert "int8_from_float32" in (version / "README.md").read_text()
    loaded = Translator.load(version)
    assert loaded.model.quantization_mode is None and loaded(sentences) == expected
    np.testing.assert_allclose(logits(loaded.model), logits(translator.model), atol=1e-5)
    assert "Xla" not in {node.op[:3] for node in saved_graph(version).nodes}


@pytest.mark.slow
@pytest.mark.parametrize("change", [add_lora, lambda model: model.quantize("int8")])
def test_a_translator_that_was_used_before_uses_the_new_kernels(change):
    translator = translator_of(tiny_model())
    texts = tf.constant(["one red dog"]), tf.constant(["Hund rot eins"])
    before = translator.score(*texts)["score"]
    change(translator.model)
    received = translator.score(*texts)["score"]
    assert abs(received - before) > 1e-4
    assert received == translator_of(translator.model).score(*texts)["score"]


@pytest.mark.slow
def test_a_saved_translator_is_plain(tmp_path):
    translator = translator_of(with_lora())
    translator.save(tmp_path / "saved")
    loaded = Translator.load(tmp_path / "saved")
    assert type(loaded.model) is Transformer and not loaded.model.has_lora
    np.testing.assert_allclose(logits(loaded.model), logits(translator.model), atol=1e-5)


SIZES = {"d_model": 12, "d_ff": 20, "num_heads": 3}
RESTRICTED = {
    "none": {"share_embeddings": "none", "use_output_bias": True},
    "inputs": {"share_embeddings": "inputs"},
    "target": {"share_embeddings": "target"},
    "all": {"share_embeddings": "all", "norm": "pre"},
}


@pytest.mark.parametrize("options", RESTRICTED.values(), ids=RESTRICTED)
@pytest.mark.parametrize("many_languages", [False, True])
def test_a_restricted_vocabulary_changes_no_translation_of_tokens_that_stay(
    options, many_languages, tmp_path
):
    tokenizer = languages_tokenizer() if many_languages else tiny_tokenizer()
    languages = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    search = DecodingConfig(beam_size=1, extra_length=2, **(languages if many_languages else {}))
    config = TransformerConfig(tokenizer.vocab_size, num_layers=1, **SIZES, **options)
    translator = Translator(Transformer(config), tokenizer, decoding=search)
    random = np.random.default_rng(4)
    for weight in translator.model.trainable_weights:
        weight.assign(weight + random.normal(scale=0.5, size=weight.shape))
    lines = list(WORDS.values())[:8]
    small = restrict_vocabulary(translator, lines)
    pieces = small.target_tokenizer.id_to_piece(range(small.target_tokenizer.vocab_size))
    assert {f"▁{word}" for word in lines} < set(pieces)
    assert len(pieces) < tokenizer.vocab_size - 20
    assert list(small.target_tokenizer.languages) == list(tokenizer.languages)

    texts = toy_sentences(200)
    source, lengths = translator.encode_text(tf.constant(texts))
    before, after = (each.search(source, lengths).ids[:, 0].numpy() for each in (translator, small))
    same = [set(tokenizer.id_to_piece(row)) <= set(pieces) for row in before]
    assert 10 < sum(same)
    for is_same, ids, restricted in zip(same, before, after, strict=True):
        found = small.target_tokenizer.id_to_piece(restricted)
        assert (found == tokenizer.id_to_piece(ids)[: len(found)]) or not is_same
    if options["share_embeddings"] != "all":
        return
    answers = small(texts[:9])
    assert load_saved_model(export_quickly(small, tmp_path / "model"))(texts[:9]) == answers
    assert Translator.load(tmp_path / "model")(texts[:9]) == answers


def test_a_restricted_vocabulary_has_the_tokens_of_the_prefix():
    search = DecodingConfig(beam_size=1, extra_length=2, prefix="Katze Mond")
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search)
    small = restrict_vocabulary(translator, ["eins"])
    pieces = small.target_tokenizer.id_to_piece(range(small.target_tokenizer.vocab_size))
    assert {"▁Katze", "▁Mond", "▁eins"} <= set(pieces) and "▁Hund" not in pieces
    assert small("one").startswith("Katze Mond")


def test_a_restriction_needs_text_and_float_weights():
    with pytest.raises(ValueError, match="must have tokens, received none"):
        restrict_vocabulary(translator_of(tiny_model()), ["", " "])
    with pytest.raises(ValueError, match="of a model with float weights"):
        restrict_vocabulary(translator_of(int8_model()), ["eins"])
