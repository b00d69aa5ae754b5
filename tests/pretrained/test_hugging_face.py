"""Models of Hugging Face's Marian: the same ids, logits, translations and strings after import."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer.config import BOS_ID, EOS_ID
from keras_transformer.pretrained import import_marian
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import toy_pairs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
marian = pytest.importorskip("tests.helpers.marian_models")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

THEIR_EOS = 0
RULES = {"repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "min_new_tokens": 5}
CASES = {
    "all_tied": {},
    "output_of_its_own": {"tie_word_embeddings": False},
    "target_tied": {"share_encoder_decoder_embeddings": False},
    "nothing_tied": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "one_head_relu": {
        "activation_function": "relu",
        "encoder_attention_heads": 1,
        "decoder_attention_heads": 1,
    },
    "eight_and_three_heads_gelu": {
        "activation_function": "gelu",
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 3,
    },
    "three_layers_and_one": {"encoder_layers": 3, "decoder_layers": 1, "decoder_ffn_dim": 56},
    "embeddings_not_scaled": {"scale_embedding": False},
    "two_vocabularies": {"separate": True},
    "two_vocabularies_nothing_tied": {"separate": True, "tie_word_embeddings": False},
    "language_tags": {"tags": (">>de<<", ">>fr<<")},
    "silu_renormalized": {
        "activation_function": "silu",
        "decoder_layers": 3,
        "search": {"renormalize_logits": True},
    },
    "rules": {"search": RULES},
    "rules_renormalized": {"search": {**RULES, "renormalize_logits": True}},
}
TAGGED = [">>de<< one two", ">>fr<<red dog", ">>xx<< cat", "two >>de<<", ">> one", ">>de<<"]


@dataclasses.dataclass
class Pair:
    """A model of Hugging Face and ours."""

    theirs: object
    tokenizer: object
    ours: Translator
    source: object
    target: object
    sentences: list[str]

    @property
    def encoded(self):
        return self.tokenizer(self.sentences, return_tensors="pt", padding=True)


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    theirs = marian.write_model(
        folder, seed=list(CASES).index(request.param), **CASES[request.param]
    )
    sides = read_hugging_face(folder)
    return Pair(
        theirs,
        transformers.MarianTokenizer.from_pretrained(folder),
        import_marian(folder),
        sides.source,
        sides.target,
        marian.sentences(20) + TAGGED * ("tags" in CASES[request.param]),
    )


def in_their_ids(side, ids):
    """Return arrays of our ids in theirs. Bos is not among them."""
    return np.array([-1 if i is None else i for i in side.order])[ids]


def test_the_ids_are_the_same(pair):
    ids, _ = pair.ours.encode_text(tf.constant(pair.sentences))
    theirs = pair.encoded.input_ids.numpy()
    np.testing.assert_array_equal(in_their_ids(pair.source, ids.numpy()), theirs)


HOSTILE = [
    *("red 😀 👩‍👩‍👧 🇩🇪 ❤️ 1️⃣", "שלום red \u202e one\u202c"),
    *("one\u00a0two\u3000", "\u200bone\u200dtwo\ufeff", "\u2028", "\ufffd", "\u00adone"),
    *("\tone\ttwo\t", "one\ntwo\r\n", "\x00one\x01\x7f\x1b[31m two\x0b\x0c\x85", "\U0010ffff"),
    *("", " ", "▁", "▁▁ one", "one ▁two", "e\u0301te\u0301", "ﬁre ½ ① Ｏｎｅ"),
    *("one two " * 400, "o" * 3000, "one >>de<< two", " >>de<< one", ">>de", "<<one", ">> <<two"),
    *(">>de<<one", ">>de<< >>fr<< two", ">>one\ntwo<< red", "&amp; <0x41> <b>one</b>", "…—„“"),
]


@pytest.mark.parametrize("tags", [(), (">>de<<", ">>fr<<")], ids=len)
def test_hostile_text_has_the_same_ids(tags, tmp_path):
    marian.write_model(tmp_path, tags=tags)
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    tokenizer, side = import_marian(tmp_path).tokenizer, read_hugging_face(tmp_path).source
    found = [in_their_ids(side, ids).tolist() for ids in tokenizer.tokenize(HOSTILE).to_list()]
    for text, ids, expected in zip(HOSTILE, found, theirs(HOSTILE).input_ids, strict=True):
        assert [*ids, THEIR_EOS] == expected, text[:40]


def test_special_tokens_in_text_are_text(folder):
    tokenizer = import_marian(folder).tokenizer
    pieces = tokenizer.id_to_piece(tokenizer.tokenize(["one </s> <unk> <pad> two"]).values.numpy())
    assert not {"</s>", "<pad>"} & {*pieces}


def test_ids_in_memory_are_those_of_the_graph(pair):
    ids, counts = pair.ours.tokenizer.encode(pair.sentences)
    in_graph = pair.ours.tokenizer.tokenize(pair.sentences)
    assert ids.tolist() == in_graph.values.numpy().tolist()
    assert counts.tolist() == in_graph.row_lengths().numpy().tolist()


def test_the_logits_are_the_same(pair):
    labels = [target for _, target in toy_pairs(len(pair.sentences))]
    labels = pair.tokenizer(text_target=labels, return_tensors="pt", padding=True).input_ids
    start = torch.full((len(labels), 1), pair.theirs.config.decoder_start_token_id)
    inputs = torch.cat([start, labels[:, :-1]], 1)
    with torch.no_grad():
        theirs = pair.theirs(**pair.encoded, decoder_input_ids=inputs).logits.numpy()

    place = {their_id: i for i, their_id in enumerate(pair.target.order) if i != BOS_ID}
    target = np.vectorize(place.get)(inputs.numpy())
    target[:, 0] = BOS_ID
    source, _ = pair.ours.encode_text(tf.constant(pair.sentences))
    ours = ops.convert_to_numpy(pair.ours.model({"source": source, "target": target}))
    ours = ours[:, :, [place[i] for i in range(theirs.shape[2])]]
    is_text = inputs.numpy() != pair.theirs.config.pad_token_id
    is_text[:, 0] = True
    np.testing.assert_allclose(ours[is_text], theirs[is_text], atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_translations_are_the_same(pair, beam_size):
    result = pair.theirs.generate(
        **pair.encoded, num_beams=beam_size, return_dict_in_generate=True, output_scores=True
    )
    generated = result.sequences.numpy()[:, 1:]
    search = dataclasses.replace(pair.ours.decoding, beam_size=beam_size)
    ours = Translator(pair.ours.model, pair.ours.tokenizer, pair.ours.target_tokenizer, search)
    source, lengths = ours.encode_text(tf.constant(pair.sentences))
    found = ours.search(source, lengths)
    if beam_size > 1:
        np.testing.assert_allclose(found.scores[:, 0], result.sequences_scores, atol=1e-4)
    ids, lengths = found.ids[:, 0].numpy(), found.lengths[:, 0].numpy()
    for theirs, row, length in zip(generated.tolist(), ids, lengths, strict=True):
        theirs = theirs[: theirs.index(THEIR_EOS) + 1]
        assert in_their_ids(pair.target, row[:length]).tolist() == theirs

    strings = pair.tokenizer.batch_decode(generated, skip_special_tokens=True)
    texts = ours(pair.sentences)
    for sentence, string, text in zip(pair.sentences, strings, texts, strict=True):
        if sentence.strip():  # We translate nothing by nothing.
            assert text == string


def test_a_beam_ends_with_eos_at_its_limit(tmp_path):
    marian.write_model(tmp_path, max_length=7)
    translator = import_marian(tmp_path)
    source, lengths = translator.encode_text(tf.constant(["one two", "red"]))
    found = translator.search(source, lengths)
    assert found.lengths.numpy().max() == 6
    last = tf.gather(found.ids[:, 0], found.lengths[:, 0] - 1, batch_dims=1)
    assert last.numpy().tolist() == [EOS_ID, EOS_ID]


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact")
    marian.write_model(folder)
    return folder


@pytest.fixture
def folder(intact, tmp_path):
    for path in intact.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_learned_positions_are_refused_by_name(folder):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    tables = {
        f"model.{stack}.embed_positions.weight": np.ones((512, 24), "float32")
        for stack in ("encoder", "decoder")
    }
    save_file({**weights, **tables}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="positions of encoder and decoder in .* Choose another"):
        import_marian(folder)


def test_a_generation_config_replaces_the_search_of_config(folder):
    change(folder, "config.json", num_beams=2, max_length=9)
    theirs = transformers.GenerationConfig.from_pretrained(folder)
    assert (theirs.num_beams, theirs.max_length) == (4, 14)
    found = import_marian(folder).decoding
    assert (found.beam_size, found.extra_length) == (4, 13)
    (folder / "generation_config.json").unlink()
    found = import_marian(folder).decoding
    assert (found.beam_size, found.extra_length) == (2, 8)


def test_weights_of_pytorch_are_those_of_safetensors(folder):
    expected = import_marian(folder)("one two red")
    weights = transformers.MarianMTModel.from_pretrained(folder).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert import_marian(folder)("one two red") == expected


def test_tied_weights_that_differ_are_reported(folder):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    shared = next(name for name in weights if "shared" in name or "embed_tokens" in name)
    save_file({**weights, "lm_head.weight": weights[shared] + 1}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="must be the same, as config.json ties them, but differ"):
        import_marian(folder)


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"model_type": "t5"}, r"type 't5' .T5., .* CTranslate2"),
        ("config.json", {"model_type": "nllb-moe"}, r"type 'nllb-moe' .NLLB with experts., .* O"),
        ("config.json", {"model_type": "bart"}, "'bart' .BART., whose .* Transformers or CTransl"),
        ("config.json", {"model_type": ["x"]}, r"of type \['x'\], whose layers"),
        ("config.json", {"activation_function": "tanh"}, "activation_function must be 'relu'"),
        ("config.json", {"activation_function": []}, "activation_function must be 'relu'"),
        ("config.json", {"d_model": True}, "d_model must be of type int, received True"),
        ("config.json", {"encoder_ffn_dim": 2 * 10**8}, r"fc1.weight in .* \(24, 200000000\), rec"),
        (
            "config.json",
            {"encoder_layers": 10**6},
            "lacks the weights (model.encoder[^,]+, ){4}model",
        ),
        ("config.json", {"dropout": 7}, "config.json cannot be imported: .* less than 1"),
        ("generation_config.json", {"num_beams": "4"}, "num_beams must be a number, received '4'"),
        ("generation_config.json", {"bad_words_ids": [1]}, "bad_words_ids must be a list of lists"),
        ("config.json", {"encoder_layers": 3}, "lacks the weights model.encoder.layers.2"),
        ("config.json", {"encoder_layers": 1}, "cannot be imported: it has the weights"),
        ("config.json", {"vocab_size": 999}, "pieces, and config.json 999"),
        ("config.json", {"vocab_size": "many"}, "vocab_size must be of type int"),
        ("tokenizer_config.json", {"unk_token": "<what>"}, "must have the unk token '<what>'"),
    ],
)
def test_a_model_that_cannot_be_imported_is_refused_by_name(folder, file, values, message):
    change(folder, file, **values)
    with pytest.raises(ValueError, match=message):
        import_marian(folder)


def test_flags_that_transformers_ignores_have_no_effect(folder):
    expected = import_marian(folder)("one two red")
    ignored = {"static_position_embeddings": False, "normalize_before": True}
    change(folder, "config.json", **ignored, add_final_layer_norm=True)
    assert transformers.MarianMTModel.from_pretrained(folder).config.d_model == 24
    assert import_marian(folder)("one two red") == expected


@pytest.mark.parametrize("file", ["config.json", "vocab.json", "model.safetensors", "source.spm"])
def test_a_truncated_file_is_named(folder, file):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=file):
        import_marian(folder)


@pytest.mark.parametrize("file", ["vocab.json", "model.safetensors", "target.spm"])
def test_a_missing_file_is_named(folder, file):
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=file):
        import_marian(folder)
