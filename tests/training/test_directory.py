import dataclasses

import pytest
from tests.helpers.tiny import (
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_experiment,
    toy_sentences,
)

from keras_transformer.config import DecodingConfig
from keras_transformer.training import load_translator, read_history
from keras_transformer.training.directory import check_claim, claim, end_last_line
from keras_transformer.translation.translator import Translator

TEXT = {"train_source": "train.tsv", "validation_source": "validation.tsv"}


@pytest.fixture
def trained(tmp_path):
    """A directory as `train` leaves it, with the tiny model and a beam of 2."""
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer(), tiny_tokenizer()])
    tiny_model().save(tmp_path / "model.keras")
    return tmp_path


def test_the_configured_search_is_loaded_with_what_replaces_it(trained):
    translator = load_translator(trained)
    assert translator.decoding == DecodingConfig(beam_size=2, length_penalty=1.0)
    options = {"beam_size": 3, "length_penalty": 0.6, "extra_length": 6}
    sentences = toy_sentences(14)
    assert load_translator(trained, **options)(sentences) == tiny_translator(**options)(sentences)


def test_separate_vocabularies_are_loaded(tmp_path):
    tokenizers = tiny_tokenizer(330, sides=(0,)), tiny_tokenizer(350, sides=(1,))
    experiment = toy_experiment(TEXT)
    model = tiny_model(330, target_vocab_size=350)
    claim(tmp_path, dataclasses.replace(experiment, model=model.config), tokenizers)
    model.save(tmp_path / "model.keras")
    sentences = toy_sentences(5)
    expected = Translator(model, *tokenizers, experiment.decoding)(sentences)
    assert load_translator(tmp_path)(sentences) == expected


@pytest.mark.parametrize("missing", ["config.yaml", "model.keras"])
def test_a_training_that_has_not_ended_is_refused(trained, missing):
    (trained / missing).unlink()
    with pytest.raises(FileNotFoundError, match=f"{missing} does not exist. Give the directory of"):
        load_translator(trained)


def test_a_directory_keeps_to_its_configuration(tmp_path):
    experiment = toy_experiment(TEXT)
    check_claim(tmp_path, experiment)
    claim(tmp_path, experiment, [tiny_tokenizer()])
    check_claim(tmp_path, experiment)
    check_claim(tmp_path, toy_experiment(TEXT, epochs=99))
    with pytest.raises(ValueError, match="with another configuration.*Compare with .*config.yaml"):
        check_claim(tmp_path, toy_experiment(TEXT, seed=2))


def test_history_has_each_epoch_once_the_last_time_it_was_trained(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,val_bleu\n0,1.5\n1,2.5\n1,3.5\n2,3.0\n")
    assert read_history(tmp_path) == {"epoch": [0, 1, 2], "val_bleu": [1.5, 3.5, 3.0]}


@pytest.mark.parametrize("torn", ["2", "2,3", "2,3.25,"])
def test_a_line_that_was_torn_costs_no_other(tmp_path, torn):
    path = tmp_path / "epochs.csv"
    path.write_text(f"epoch,loss,val_bleu\n0,4.0,1.5\n1,3.5,2.5\n{torn}")
    expected = {"epoch": [0, 1], "loss": [4.0, 3.5], "val_bleu": [1.5, 2.5]}
    assert read_history(tmp_path) == expected
    end_last_line(path)
    end_last_line(path)
    with open(path, "a") as file:
        file.write("2,3.0,3.5\n")
    assert read_history(tmp_path)["val_bleu"] == [1.5, 2.5, 3.5]


def test_a_line_that_was_written_behind_a_torn_one_is_left_out(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,loss\n0,4.0\n1,3.1,3.5\n2,3.0\n")
    assert read_history(tmp_path) == {"epoch": [0, 2], "loss": [4.0, 3.0]}


def test_history_of_no_epoch_is_empty(tmp_path):
    (tmp_path / "epochs.csv").write_text("")
    assert read_history(tmp_path) == {}
