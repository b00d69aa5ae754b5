"""Runs with vocabularies of each kind."""

import dataclasses
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.config.data import AUGMENTATIONS
from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
)
from keras_transformer.training import train
from keras_transformer.training.corpora import training_text
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.vocabularies import run_tokenizers
from keras_transformer.translation import Translator
from tests.helpers.experiment import encoded_text, epochs_of
from tests.helpers.tiny import (
    tiny_tokenizer,
    toy_experiment,
    toy_pairs,
    toy_sentences,
    toy_training,
    write_toy_text,
)

VALIDATION = toy_pairs(420)[400:]


def test_a_run_does_not_resume_without_its_vocabulary(tmp_path):
    directory = shutil.copytree(toy_training()[0], tmp_path / "run")
    (directory / "vocabulary.model").unlink()
    config = ExperimentConfig.from_file(directory / "config.yaml")
    longer = dataclasses.replace(config.training, epochs=4)
    with pytest.raises(FileNotFoundError, match="there is no .*run/vocabulary.model. Restore what"):
        train(dataclasses.replace(config, training=longer), directory)
    assert not (directory / "vocabulary.model").exists()


@pytest.mark.slow
def test_a_vocabulary_that_is_given_is_kept_and_the_other_trained(tmp_path, without_scores):
    directory = tmp_path / "run"
    directory.mkdir()
    given = tiny_tokenizer()
    given.save(directory / "source.model")
    sizes = {"vocab_size": given.vocab_size, "target_vocab_size": 350, "share_embeddings": "target"}
    config = toy_experiment(write_toy_text(tmp_path, train=60), sizes, epochs=1)
    translator = train(config, directory)
    assert (directory / "source.model").read_bytes() == translator.tokenizer.model == given.model
    assert translator.target_tokenizer.vocab_size == 350


@pytest.mark.slow
def test_subword_dropout_makes_no_sentence_that_fits_no_batch(tmp_path, without_scores):
    data = write_toy_text(tmp_path, train=60) | {"subword_dropout": 0.9}
    with pytest.raises(ValueError, match="batch_tokens must be at least") as error:
        train(toy_experiment(data, batch_tokens=3), tmp_path / "run")
    smallest = int(re.search(r"at least (\d+)", str(error.value))[1])
    train(toy_experiment(data, batch_tokens=smallest, epochs=2), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_tsv_separate_vocabularies_and_low_precision(tmp_path, precision):
    for name, pairs in (("train", toy_pairs(60)), ("validation", VALIDATION)):
        lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / f"{name}.tsv").write_text(lines, encoding="utf-8")
    data = {f"{name}_source": str(tmp_path / f"{name}.tsv") for name in ("train", "validation")}
    sizes = {"vocab_size": 330, "target_vocab_size": 350, "share_embeddings": "target"}
    config = toy_experiment(data, sizes, epochs=1, precision=precision)
    translator = train(config, tmp_path / "run")
    assert np.isfinite(read_history(tmp_path / "run")["loss"]).all()
    assert translator.model.dtype_policy.name == "float32"
    loaded = Translator.load(tmp_path / "run")
    assert (loaded.tokenizer.vocab_size, loaded.target_tokenizer.vocab_size) == (330, 350)
    assert loaded(toy_sentences(5)) == translator(toy_sentences(5))


def messages(directory, **options):
    """Return the data configuration of toy text with placeholders."""
    data = write_toy_text(directory, train=60)
    for name in ("train_source", "train_target"):
        path = Path(data[name])
        path.write_text(path.read_text().replace(" ", " #1 ", 1).replace("\n", " ~\n"))
    return data | {"normalization": "identity", "user_symbols": ["~", "re:#[0-9]"]} | options


def test_the_vocabulary_has_the_normalization_and_the_symbols_that_it_is_trained_with(
    tmp_path, caplog
):
    caplog.set_level("INFO")
    config = toy_experiment(messages(tmp_path))
    plain = toy_experiment(messages(tmp_path, normalization=None, user_symbols=[]))
    (source, target), pairs, _ = encoded_text(config, tmp_path)
    assert (source.normalization, source.user_symbols) == ("identity", ["~", "#1"])
    assert "2 user symbols; the most frequent: ~ (120 times), #1 (2 times)" in caplog.text
    assert "none of these user symbols" not in caplog.text
    assert source is target and source.decode([pairs.source_ids])[0].count("#1") == 1
    (other, _), _, _ = encoded_text(plain, tmp_path)
    assert (other.normalization, other.user_symbols) == ("nfkc", [])
    (cased, _), _, _ = encoded_text(toy_experiment(messages(tmp_path, augment_upper=0.5)), tmp_path)
    text = [sentence.upper() for sentence in toy_sentences(9)]
    assert len(cased.encode(text)[0]) < 0.8 * len(source.encode(text)[0])


def test_the_vocabulary_is_trained_on_the_pairs_that_the_filters_keep(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    source, target = (Path(data[name]) for name in ("train_source", "train_target"))
    script, placeholders = ("жжжж", "Ende"), ("%d ĸ", "Ende")
    in_validation = Path(data["validation_source"]).read_text().split("\n")[0].upper() + "!", "ŧ"
    more = zip(script, placeholders, in_validation, ("a dog ŋ", "Ende"), strict=True)
    for path, lines in zip((source, target), more, strict=True):
        path.write_text(path.read_text() + "\n".join(lines) + "\n")
    for filters, letters in ([], "жĸŋŧ"), (["messages"], "ŋ"):
        (tokenizer, _), _, _ = encoded_text(toy_experiment(data | {"filters": filters}), tmp_path)
        pieces = "".join(tokenizer.id_to_piece(range(tokenizer.vocab_size)))
        assert "".join(sorted({*"жĸŋŧ"}.intersection(pieces), key="жĸŋŧ".index)) == letters


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"user_symbols": []}, "It has data.normalization=nfkc, received identity. Leave"),
        ({"normalization": "nfkc"}, r"It has no user symbols, received ~, re:#\[0-9\]. Leave"),
    ],
)
def test_a_model_to_start_from_must_treat_text_alike(tmp_path, options, mistake):
    tiny_tokenizer().save(tmp_path / "vocabulary.model")
    start = SimpleNamespace(vocabularies=[tmp_path / "vocabulary.model"], path="other")
    config = toy_experiment(messages(tmp_path, **options))
    with pytest.raises(ValueError, match=mistake):
        run_tokenizers(config, tmp_path, training_text(config, tmp_path), start)


def test_a_model_to_start_from_must_have_the_user_symbols(tmp_path):
    lines = [sentence for pair in toy_pairs(20) for sentence in pair]
    model = train_sentencepiece(lines, 300, user_symbols=["~", "#1", "%s"])
    SentencePieceTokenizer(model).save(tmp_path / "vocabulary.model")
    start = SimpleNamespace(vocabularies=[tmp_path / "vocabulary.model"], path="other")
    symbols = {"normalization": None, "user_symbols": ["~", "re:#[0-9]", "printf"]}
    config = toy_experiment(messages(tmp_path, **symbols))
    text = training_text(config, tmp_path)
    assert run_tokenizers(config, tmp_path, text, start)[0].user_symbols == ["~", "#1", "%s"]
    # Of kinds and regular expressions, a text may have none.
    symbols["user_symbols"] += ["urls", "XYZZY", "re:--[a-z]+"]
    config = toy_experiment(messages(tmp_path, **symbols))
    with pytest.raises(ValueError, match="It has not the user symbols XYZZY. Leave"):
        run_tokenizers(config, tmp_path, text, start)
    (tmp_path / "config.yaml").touch()  # A run that began before resumes.
    run_tokenizers(config, tmp_path, text, start)


@pytest.mark.slow
@pytest.mark.parametrize("subword_dropout", [0.0, 0.1])
def test_a_run_with_augmentation_keeps_white_space(tmp_path, without_scores, subword_dropout):
    rates = {f"augment_{name}": 0.2 for name in AUGMENTATIONS}
    data = messages(tmp_path, subword_dropout=subword_dropout, **rates)
    translator = train(toy_experiment(data, epochs=2), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == [1, 2]
    assert np.isfinite(read_history(tmp_path / "run")["loss"]).all()
    loaded = Translator.load(tmp_path / "run").tokenizer
    assert loaded.decode(loaded.tokenize([" one  two "]).to_list()) == [" one  two "]
    assert loaded.model == translator.tokenizer.model


@pytest.mark.slow
def test_word_pieces_are_trained_kept_and_loaded(tmp_path):
    data = write_toy_text(tmp_path, train=60) | {"subwords": "wordpiece"}
    translator = train(toy_experiment(data, {"vocab_size": 300}, epochs=1), tmp_path / "run")
    assert isinstance(translator.tokenizer, WordPieceTokenizer)
    assert (tmp_path / "run" / "vocabulary.model").read_bytes() == translator.tokenizer.model
    loaded = Translator.load(tmp_path / "run")
    assert isinstance(loaded.tokenizer, WordPieceTokenizer)
    assert loaded.tokenizer is loaded.target_tokenizer
    assert loaded(toy_sentences(5)) == translator(toy_sentences(5))
    # A longer run goes on with the same vocabulary.
    train(toy_experiment(data, {"vocab_size": 300}, epochs=2), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == [1, 2]
