import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import SearchResult
from keras_transformer.translation import compiled_search
from keras_transformer.translation.compiled_search import CompiledSearch, Needs, search_shapes
from keras_transformer.translation.search import TokenSearch
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

TEXTS = [*NO_UTF8, *(text.encode() for text in [*ODD, *toy_sentences(14)])]


def echo(source, needs, stage_lengths):
    """Search that returns the source itself, with the shape it was given as scores."""
    length, limits = stage_lengths[-1], needs.max_lengths
    ids = tf.pad(source, [[0, 0], [0, length - source.shape[1]]])
    columns = tf.shape(source)[1] + tf.zeros_like(limits)
    return SearchResult(
        tf.stack([ids, ids], axis=1),
        tf.cast(tf.stack([tf.shape(source)[0] + 0 * limits, columns], axis=1), tf.float32),
        tf.stack([limits, limits], axis=1),
    )


GPU = {"device": "gpu"}


@pytest.mark.parametrize(
    ("batch", "length", "rows", "columns", "device"),
    [
        (0, 17, [], 20, {}),
        (1, 3, [1], 16, {}),
        (2, 16, [8, 8], 16, {}),
        (8, 17, [8] * 8, 20, {}),
        (70, 20, [64] * 64 + [8] * 6, 20, {}),
        (65, 1, [64] * 64 + [1], 16, {}),
        (0, 17, [], 20, GPU),
        (65, 1, [256] * 65, 20, GPU),
        (257, 20, [256] * 256 + [1], 20, GPU),
    ],
)
def test_any_batch_is_searched_in_one_of_the_compiled_shapes(batch, length, rows, columns, device):
    search = CompiledSearch(echo, max_source_length=20, longest=lambda length: length + 3, **device)
    source = tf.random.uniform([batch, length], 1, 9, tf.int32)
    limits = tf.range(batch) % length + 1
    result = search(source, Needs(limits))
    longest = max(limits.numpy(), default=0)
    assert result.ids.shape == (batch, 2, longest)
    assert np.array_equal(result.ids[:, 1], source[:, :longest])
    assert np.array_equal(result.lengths[:, 1], limits)
    assert result.scores[:, 0].numpy().tolist() == rows
    assert result.scores[:, 1].numpy().tolist() == [columns] * batch
    assert set(zip(rows, [columns] * batch, strict=True)) <= set(search_shapes(20, **device))


def test_batches_of_long_sources_are_searched_in_smaller_parts():
    search = CompiledSearch(echo, max_source_length=200, longest=lambda length: length + 3)
    result = search(tf.ones([19, 129], tf.int32), Needs(tf.ones([19], tf.int32)))
    assert result.scores.numpy().tolist() == [[8, 200]] * 19
    assert [batch for batch, size in search_shapes(200) if size == 200] == [1, 8]
    assert {size for _, size in search_shapes(200)} == {16, 24, 32, 64, 128, 200}
    assert [batch for batch, size in search_shapes(512, "gpu") if size == 512] == [1, 8, 64]


# Each size, for sources of up to 16 and up to 24 tokens, is compiled on its own; so are N
# hypotheses and one.
ONE_SHAPE = {"sizes": (9,), "first_stage": 8, "max_source_length": 16}
SHAPES = {"sizes": (2, 9), "first_stage": 3, "max_source_length": 24}
RULES = {"min_length": 3, "no_repeat_ngram_size": 2, "prefix": "eins"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (ONE_SHAPE, {"beam_size": 1}),
        (SHAPES, {"beam_size": 3, "num_hypotheses": 2, "length_penalty": 1.0}),
        (ONE_SHAPE, {"beam_size": 2, "num_hypotheses": 1, **RULES}),
        (ONE_SHAPE, {"temperature": 1.0, "top_k": 20, "num_hypotheses": 2}),
    ],
    ids=["greedy", "beam", "rules", "sampling"],
)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_compiled_translator_translates_like_a_portable_one(shapes, options, device, monkeypatch):
    # Translations outgrow the cache, and batches need more than one part.
    prefix = "GPU_" if device == "gpu" else ""
    monkeypatch.setattr(compiled_search, f"{prefix}FIRST_STAGE", shapes["first_stage"])
    monkeypatch.setattr(compiled_search, f"{prefix}BATCH_SIZES", shapes["sizes"])
    options = {
        "extra_length": 6,
        "max_source_length": shapes["max_source_length"],
        **options,
    }
    plain = tiny_translator(**options)
    decoding = DecodingConfig(**options)
    parts = tiny_model(), tiny_tokenizer()
    compiled = Translator(*parts, decoding=decoding, compiled=True, device=device)
    expected, received = plain.n_best(TEXTS), compiled.n_best(TEXTS)
    assert received["translations"].numpy().tolist() == expected["translations"].numpy().tolist()
    np.testing.assert_allclose(received["scores"], expected["scores"], atol=1e-4)
    assert compiled.translate(TEXTS).numpy().tolist() == plain.translate(TEXTS).numpy().tolist()
    assert compiled.translate(tf.constant([], tf.string)).shape == (0,)


@pytest.mark.parametrize(
    ("beam_size", "compiled"), [(1, False), pytest.param(2, True, marks=pytest.mark.slow)]
)
def test_prepared_weights_change_no_translation(beam_size, compiled, monkeypatch):
    monkeypatch.setattr(compiled_search, "FIRST_STAGE", 8)
    monkeypatch.setattr(compiled_search, "BATCH_SIZES", (9,))
    options = DecodingConfig(beam_size=beam_size, extra_length=4, max_source_length=16)
    model, tokenizer = tiny_model(num_layers=1), tiny_tokenizer()
    plain = Translator(model, tokenizer, decoding=options)
    prepared = Translator(model, tokenizer, decoding=options, compiled=compiled)
    prepared = prepared.with_prepared_weights()
    expected, received = plain.n_best(TEXTS), prepared.n_best(TEXTS)
    assert received["translations"].numpy().tolist() == expected["translations"].numpy().tolist()
    np.testing.assert_allclose(received["scores"], expected["scores"], atol=1e-4)

    def weights(translator):
        graph = translator.n_best.get_concrete_function()
        return {tuple(variable.shape) for variable in graph.variables}

    sizes = plain.model.config
    transposed = (sizes.d_model, sizes.vocab_size)
    joined = (sizes.d_model, 3 * sizes.num_heads * sizes.key_dim)
    assert weights(prepared) - weights(plain) == {transposed, joined}


def test_prepared_weights_keep_what_a_subclass_overrides():
    class Scoring(Translator):
        def search(self, *args):
            return super().search(*args)._replace(scores=tf.constant([[-7.0]]))

    options = DecodingConfig(beam_size=1, extra_length=4, max_source_length=16)
    model = tiny_model(num_layers=1)
    prepared = Scoring(model, tiny_tokenizer(), decoding=options).with_prepared_weights()
    assert prepared.n_best(TEXTS[-1:])["scores"].numpy().tolist() == [[-7.0]]


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_step_on_a_gpu_multiplies_once_per_map_and_copies_no_cache(beam_size):
    model = tiny_model(num_layers=1)
    options = DecodingConfig(beam_size=beam_size, extra_length=6, max_source_length=16)
    search = TokenSearch(model, options, compiled=True, device="gpu").with_prepared_weights()
    search(tf.zeros([2, 16], tf.int32), tf.ones([2], tf.int32))
    (compiled,) = search._compiled.values()
    inputs = tf.zeros([2, 16], tf.int64), Needs(tf.zeros([2], tf.int64))
    program = compiled._functions[-1].experimental_get_compiler_ir(*inputs)("optimized_hlo")
    (name,) = re.findall(r"body=%([\w.\-]+)", program)
    body = re.search(rf"^%{re.escape(name)} .*?^}}", program, re.DOTALL | re.MULTILINE)[0]
    # Joined projections, two maps of the memory, and two products of each attention.
    assert len(re.findall(r" dot\(", body)) == 10 + 1
    assert "dynamic-update-slice" in program
    assert not re.findall(r"= f32\[2,\d+,\d+,\d+\]\S* (?:copy|transpose)\(", body)
