import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import BOS_ID, EOS_ID, DecodingConfig
from keras_transformer.export import export_ctranslate2
from keras_transformer.pretrained import import_marian
from keras_transformer.translation.translator import Translator
from tests.helpers.marian_release import write_release
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_sentences

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

ALL_OTHER = {  # The tiny model has post-norm, sinusoidal positions, no sharing, and keys of 5.
    "pre-norm": {"norm": "pre"},
    "one matrix": {"share_embeddings": "all"},
    "two vocabularies": {"share_embeddings": "target", "target_vocab_size": 375},
    "learned positions": {"position": "learned", "max_length": 40},
    "wide values": {"value_dim": 7},
    "narrow values": {"value_dim": 2},
    "heads of d_model": {"key_dim": None},
    "another decoder": {"num_decoder_layers": 1, "decoder_d_ff": 28, "decoder_num_heads": 2},
    "biases": {"use_bias": True, "use_output_bias": True, "value_dim": 7},
    "plain embeddings": {"scale_embeddings": False, "share_embeddings": "inputs"},
    "embedding norm": {"norm": "pre", "embedding_norm": True, "position_offset": 2},
    "large epsilon": {"layer_norm_epsilon": 0.1},
    "swish": {"activation": "swish", "position": "sines_cosines"},
    "gelu": {"activation": "gelu", "position": "tensor2tensor"},
    "sigmoid_gelu": {"activation": "sigmoid_gelu"},
}


def random_translator(changes):
    """A translator whose weights are all random, including norms and biases."""
    config = {"num_layers": 2, "d_model": 12, "d_ff": 20, "num_heads": 3, "key_dim": 5}
    config |= {"vocab_size": 380, "share_embeddings": "none", **changes}
    model = Transformer(TransformerConfig(**config))
    normal = np.random.default_rng(3).normal
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + normal(scale=0.3, size=weight.shape))
    target_tokenizer = tiny_tokenizer(config.get("target_vocab_size", 380))
    return Translator(model, tiny_tokenizer(), target_tokenizer)


def load(path):
    return ctranslate2.Translator(str(path), compute_type="float32", intra_threads=1)


def subwords(tokenizer, texts):
    return [tokenizer.id_to_piece(row) for row in tokenizer.tokenize(texts)]


def imported(folder):
    """An imported translator, whose special tokens are Marian's."""
    write_release(folder)
    (folder / "LICENSE").write_text("MIT License")
    return import_marian(folder)


@pytest.mark.parametrize("changes", [*ALL_OTHER.values(), None], ids=[*ALL_OTHER, "imported"])
def test_token_probabilities_are_equal(changes, tmp_path):
    translator = imported(tmp_path) if changes is None else random_translator(changes)
    texts = toy_sentences(12)
    sources, lengths = translator.encode_text(tf.constant(texts))
    targets = translator.target_tokenizer.tokenize(texts[::-1])
    inputs = tf.concat([tf.fill([12, 1], BOS_ID), targets.to_tensor()], axis=1)
    logits = translator.model({"source": sources, "target": inputs}, training=False)
    labels = tf.concat([targets, tf.fill([12, 1], EOS_ID)], axis=1)
    expected = tf.gather(tf.nn.log_softmax(logits), labels.to_tensor(), batch_dims=2)

    engine = load(export_ctranslate2(translator, tmp_path / "model"))
    if changes is None:
        readme = (tmp_path / "model" / "README.md").read_text()
        assert readme == "---\nlicense: MIT License\n---\n"
    scored = engine.score_batch(
        subwords(translator.tokenizer, texts), subwords(translator.target_tokenizer, texts[::-1])
    )
    assert len(set(lengths.numpy())) > 2  # So that there is padding.
    for row, length, result in zip(expected, labels.row_lengths(), scored, strict=True):
        np.testing.assert_allclose(result.log_probs, row[:length], atol=1e-4)


def exported_search(beam_size, folder):
    """Our and CTranslate2's subwords and scores, without a length penalty: theirs differs."""
    search = DecodingConfig(beam_size=beam_size, length_penalty=0.0, extra_length=10)
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search)
    texts = toy_sentences(80)
    sources, lengths = translator.encode_text(tf.constant(texts))
    result = translator.search(sources, lengths)
    engine = load(export_ctranslate2(translator, folder / "model"))
    for i, source in enumerate(subwords(translator.tokenizer, texts)):
        ids = result.ids[i, 0][: result.lengths[i, 0]]
        (theirs,) = engine.translate_batch(
            [source],
            beam_size=beam_size,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=int(lengths[i]) + search.extra_length,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<s>"]],
            return_end_token=True,
            return_scores=True,
        )
        ours = translator.tokenizer.id_to_piece(ids), float(result.scores[i, 0])
        yield ours, (theirs.hypotheses[0], theirs.scores[0])


def test_greedy_translations_are_equal(tmp_path):
    found = list(exported_search(1, tmp_path))
    for (tokens, score), (their_tokens, their_score) in found:
        assert tokens == their_tokens
        assert score == pytest.approx(their_score, abs=1e-3)
    assert 10 < sum(tokens[-1] == "</s>" for (tokens, _), _ in found) < 70


def test_beam_search_finds_translations_at_least_as_probable(tmp_path):
    # Theirs considers an end among the best 4 continuations of a sentence, ours among the best 8.
    found = list(exported_search(4, tmp_path))
    ended = [(ours, theirs) for ours, theirs in found if ours[0][-1] == "</s>"]
    same = 0
    for (tokens, score), (their_tokens, their_score) in ended:
        assert score > their_score - 1e-3
        same += tokens == their_tokens
        assert (tokens == their_tokens) == (score == pytest.approx(their_score, abs=1e-3))
    assert 5 < same < len(ended)


def test_shared_embeddings_are_stored_once(tmp_path):
    sizes = {}
    for share in ("all", "target", "none"):
        translator = random_translator({"share_embeddings": share})
        path = export_ctranslate2(translator, tmp_path / share)
        sizes[share] = (path / "model.bin").stat().st_size
    matrix = 380 * 12 * 4
    assert sizes["target"] - sizes["all"] == pytest.approx(matrix, abs=200)
    assert sizes["none"] - sizes["target"] == pytest.approx(matrix, abs=200)


def test_the_directory_has_the_vocabularies(tmp_path):
    one = export_ctranslate2(random_translator({}), tmp_path / "new" / "one")
    names = {"config.json", "model.bin", "shared_vocabulary.json", "vocabulary.model"}
    assert {path.name for path in one.iterdir()} == names
    assert (one / "vocabulary.model").read_bytes() == tiny_tokenizer().model
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    assert json.loads((one / "shared_vocabulary.json").read_text())[:4] == special
    changes = {"share_embeddings": "none", "target_vocab_size": 375}
    two = export_ctranslate2(random_translator(changes), tmp_path / "two")
    assert (two / "source.model").read_bytes() == tiny_tokenizer().model
    assert (two / "target.model").read_bytes() == tiny_tokenizer(375).model


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(FileExistsError, match="path must not exist yet.* Give another"):
        export_ctranslate2(random_translator({}), tmp_path / "model")


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(spec, path):
        raise OSError("disk full")

    monkeypatch.setattr(ctranslate2.specs.TransformerSpec, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        export_ctranslate2(random_translator({}), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(ImportError, match="pip install ctranslate2"):
        export_ctranslate2(random_translator({}), tmp_path / "model")
