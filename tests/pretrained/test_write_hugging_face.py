import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, DecodingConfig
from keras_transformer.pretrained import import_marian, save_hugging_face, write_hugging_face
from keras_transformer.text import SentencePieceTokenizer, WordPieceTokenizer, train_word_piece
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from keras_transformer.translation.translator import Translator
from tests.helpers.layer_checks import randomize
from tests.helpers.tiny import tiny_tokenizer, toy_sentences, toy_training

pytest.importorskip("safetensors", reason="safetensors is not installed")

OPTIONS = {
    "one matrix": {"share_embeddings": "all"},
    "two matrices": {"share_embeddings": "target"},
    "own output": {"share_embeddings": "inputs", "activation": "swish"},
    "two vocabularies": {"target_vocab_size": 375, "share_embeddings": "target"},
    "another decoder": {"num_decoder_layers": 1, "decoder_d_ff": 28, "decoder_num_heads": 2},
    "biases": {"use_bias": True, "use_output_bias": True, "activation": "sigmoid_gelu"},
    "sines first": {"position": "sines_cosines", "scale_embeddings": False, "activation": "gelu"},
    "tensor2tensor": {"position": "tensor2tensor"},
}
TEXTS = [*toy_sentences(10), "漢字 zwölf", "one" * 9]


def random_translator(changes, **decoding):
    config = {"vocab_size": 380, "num_layers": 2, "d_model": 12, "d_ff": 20, "num_heads": 3}
    config |= {"share_embeddings": "none", "layer_norm_epsilon": 1e-5, **changes}
    model = Transformer(TransformerConfig(**config))
    randomize(model)
    target = tiny_tokenizer(config.get("target_vocab_size", 380))
    search = DecodingConfig(
        **{"beam_size": 3, "style": "transformers", "max_length": 12, **decoding}
    )
    return Translator(model, tiny_tokenizer(), target, search)


def found_ids(translator):
    """The ids of the best translations, without padding."""
    source, lengths = translator.encode_text(tf.constant(TEXTS))
    ids = translator.search(source, lengths).ids[:, 0].numpy()
    return [row[row != PAD_ID].tolist() for row in ids]


def assert_same_logits(one, other):
    """Compare the tokens of sources, and logits for random targets."""
    source = one.encode_text(tf.constant(TEXTS))[0]
    np.testing.assert_array_equal(other.encode_text(tf.constant(TEXTS))[0], source)
    target = np.random.randint(4, one.model.config.target_size, size=(len(TEXTS), 7))
    inputs = {"source": source, "target": target}
    ours, theirs = (each.model(inputs, training=False) for each in (one, other))
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def trained(**decoding):
    translator = toy_training()[1]
    search = DecodingConfig(**decoding)
    return Translator(translator.model, translator.tokenizer, decoding=search)


def load(folder):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    return model, transformers.MarianTokenizer.from_pretrained(folder)


def their_ids(folder):
    model, tokenizer = load(folder)
    rows = model.generate(**tokenizer(TEXTS, return_tensors="pt", padding=True))[:, 1:].tolist()
    ends = [row.index(EOS_ID) + 1 if EOS_ID in row else len(row) for row in rows]
    return [row[:end] for row, end in zip(rows, ends, strict=True)]


def logits_of_both(translator, folder):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model, tokenizer = load(save_hugging_face(translator, folder))
    source = translator.encode_text(tf.constant(TEXTS))[0]
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    np.testing.assert_array_equal(batch["input_ids"].numpy(), source)
    target = np.random.randint(4, translator.model.config.target_size, size=(len(TEXTS), 7))
    target[:, 0] = BOS_ID
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=torch.tensor(target)).logits.numpy()
    ours = translator.model({"source": source, "target": target}, training=False)
    return ours.numpy(), theirs


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize(
    "changes", [*OPTIONS.values(), {"position": "learned", "max_length": 40}], ids=str
)
def test_logits_and_translations_equal_theirs(changes, tmp_path):
    translator = random_translator(changes)
    ours, theirs = logits_of_both(translator, tmp_path / "model")
    np.testing.assert_allclose(theirs, ours, atol=2e-5)
    assert their_ids(tmp_path / "model") == found_ids(translator)


@pytest.mark.parity
def test_the_default_epsilon_is_close_enough(tmp_path):
    ours, theirs = logits_of_both(random_translator({"layer_norm_epsilon": 1e-6}), tmp_path / "m")
    difference = np.abs(theirs - ours).max()
    assert 1e-6 < difference < 1e-4


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"style": "transformers"}], ids=str)
def test_translations_of_a_trained_model_equal_theirs(options, tmp_path):
    translator = trained(**options, max_length=20)
    ours = found_ids(translator)
    folder = save_hugging_face(translator, tmp_path / "model")
    assert their_ids(folder) == ours
    assert 4 < sum(row[-1] == EOS_ID for row in ours)
    model, tokenizer = load(folder)
    rows = model.generate(**tokenizer(TEXTS[:10], return_tensors="pt", padding=True))
    assert tokenizer.batch_decode(rows, skip_special_tokens=True) == translator(TEXTS[:10])


@pytest.mark.parametrize("changes", OPTIONS.values(), ids=OPTIONS)
def test_an_import_has_the_same_search_and_logits(changes, tmp_path):
    style = {"all": "paper", "inputs": "marian"}.get(
        changes.get("share_embeddings"), "transformers"
    )
    translator = random_translator(changes, style=style)
    translator.origin = {"license": "cc-by-4.0", "attribution": "Größe: A, B"}
    translator.origin["languages"] = ["en", "no"]
    imported = import_marian(save_hugging_face(translator, tmp_path / "model"))
    assert imported.origin == translator.origin
    assert imported.decoding == translator.decoding
    assert_same_logits(translator, imported)


def test_an_import_has_the_same_translations(tmp_path):
    translator = random_translator(OPTIONS["two vocabularies"])
    imported = import_marian(save_hugging_face(translator, tmp_path / "model"))
    assert found_ids(imported) == found_ids(translator)


def test_without_a_readme_the_languages_are_those_of_the_tokenizer(tmp_path):
    folder = save_hugging_face(random_translator({}), tmp_path / "model")
    assert not (folder / "README.md").exists()
    path = folder / "tokenizer_config.json"
    named = {"source_lang": "en", "target_lang": "de"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **named}))
    assert import_marian(folder).origin["languages"] == ["en", "de"]


def test_a_search_that_was_changed_is_read_as_hugging_face_does(tmp_path):
    folder = save_hugging_face(random_translator({}, style="paper"), tmp_path / "model")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_beams": 2}))
    with pytest.raises(ValueError, match="--ignore early_stopping forced_eos_token_id"):
        import_marian(folder)
    options = ["early_stopping", "forced_eos_token_id"]
    found = import_marian(folder, ignore=options).decoding
    assert (found.beam_size, found.style) == (2, "transformers")


@pytest.mark.slow
@pytest.mark.parity
def test_an_imported_model_comes_back_as_it_was(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from tests.helpers.marian_models import sentences, write_model

    write_model(tmp_path / "theirs", tags=(">>de<<",))
    imported = import_marian(tmp_path / "theirs")
    folder = save_hugging_face(imported, tmp_path / "model")
    again = import_marian(folder)
    assert (again.decoding, again.model.config) == (imported.decoding, imported.model.config)
    texts = [*sentences(20), ">>de<< one two"]
    assert again(texts) == imported(texts)
    assert their_ids(folder) == found_ids(imported)


@pytest.mark.parametrize(("option", "value"), [("prefix", "a"), ("protect", "all")])
def test_everything_that_cannot_be_expressed_is_named(option, value, tmp_path):
    tokenizer = WordPieceTokenizer(train_word_piece(["a b c d"], vocab_size=269))
    sizes = {"num_layers": 1, "d_model": 12, "d_ff": 20, "num_heads": 3, "key_dim": 5}
    sizes |= {"norm": "pre"}
    config = TransformerConfig(tokenizer.vocab_size, **sizes, layer_norm_epsilon=1e-3)
    translator = Translator(
        Transformer(config), tokenizer, decoding=DecodingConfig(**{option: value})
    )
    with pytest.raises(ValueError, match="cannot express this translator") as error:
        save_hugging_face(translator, tmp_path / "model")
    message = str(error.value)
    for part in (
        "norm must be 'post', received 'pre'",
        "layer_norm_epsilon must be at most 2e-5, received 0.001",
        "key_dim and value_dim must be d_model / num_heads = 4, received 5 and 5",
        "tokenizers must be SentencePieceTokenizers",
        f"decoding.{option} must be empty, received {value!r}",
    ):
        assert part in message
    assert list(tmp_path.iterdir()) == []


def test_sampling_is_written(tmp_path):
    options = {"temperature": 0.7, "top_k": 5, "beam_size": 1}
    folder = save_hugging_face(random_translator({}, **options), tmp_path / "model")
    found = json.loads((folder / "generation_config.json").read_text())
    assert found["do_sample"] is True
    assert (found["temperature"], found["top_k"], found["top_p"]) == (0.7, 5, 1.0)


def test_lora_is_merged(tmp_path):
    translator = random_translator({})
    translator.model.enable_lora(rank=2)
    randomize(translator.model)
    imported = import_marian(save_hugging_face(translator, tmp_path / "model"))
    assert_same_logits(translator, imported)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(FileExistsError, match="path must not exist yet.* Give another"):
        save_hugging_face(random_translator({}), tmp_path / "model")


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"keras-transformer-mt\[marian\]"):
        save_hugging_face(random_translator({}), tmp_path / "model")


def test_separate_vocabularies_need_the_same_special_tokens(tmp_path):
    translator = random_translator({})
    names = ["<nothing>", "<unk>", "<s>", "</s>"]
    pieces = translator.tokenizer.id_to_piece(range(380))
    target = SentencePieceTokenizer(
        join_vocabulary(translator.tokenizer.model, [*names, *pieces[4:]])
    )
    with pytest.raises(ValueError, match="same names in both vocabularies, received <pad> <unk>"):
        save_hugging_face(
            Translator(translator.model, translator.tokenizer, target), tmp_path / "model"
        )


def test_only_a_bias_may_be_absent():
    read = write_hugging_face._reader(random_translator({}).model)
    assert read("encoder/layer_0/self_attention/query_bias") is None
    for path in ("encoder/layer_9/self_attention/query_kernel", "encoder/layer_0/gamma"):
        with pytest.raises(ValueError, match=f"has no weight {path}"):
            read(path)
