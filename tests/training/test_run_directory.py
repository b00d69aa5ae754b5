import dataclasses

import pytest
import yaml

from keras_transformer.config import DecodingConfig
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.run_directory import check_claim, claim, run_facts
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_experiment,
    toy_sentences,
)

TEXT = {"train_source": "train.tsv", "validation_source": "validation.tsv"}


def reversed_middle(data):
    """Return the bytes of a file with the middle third the other way round."""
    third = len(data) // 3
    return data[:third] + data[2 * third : third : -1] + data[2 * third :]


@pytest.fixture
def trained(tmp_path):
    """A run directory as `train` leaves it, with the tiny model and a beam of 2."""
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer(), tiny_tokenizer()])
    tiny_model(num_layers=1).save(tmp_path / "model.keras")
    return tmp_path


OPTIONS = {"beam_size": 3, "length_penalty": 0.6, "extra_length": 6}


def test_decoding_options_override_those_of_the_run(trained):
    translator = Translator.load(trained)
    assert translator.decoding == DecodingConfig(beam_size=2, length_penalty=1.0)
    assert Translator.load(trained, **OPTIONS).decoding == DecodingConfig(**OPTIONS)


@pytest.mark.slow
def test_a_loaded_translator_searches_with_its_options(trained):
    sentences = toy_sentences(14)
    expected = tiny_translator(num_layers=1, **OPTIONS)(sentences)
    assert Translator.load(trained, **OPTIONS)(sentences) == expected


@pytest.mark.slow
def test_separate_vocabularies_are_loaded(tmp_path):
    tokenizers = tiny_tokenizer(330, sides=(0,)), tiny_tokenizer(350, sides=(1,))
    experiment = toy_experiment(TEXT)
    model = tiny_model(330, target_vocab_size=350, num_layers=1)
    claim(tmp_path, dataclasses.replace(experiment, model=model.config), tokenizers)
    model.save(tmp_path / "model.keras")
    sentences = toy_sentences(5)
    expected = Translator(model, *tokenizers, experiment.decoding)(sentences)
    assert Translator.load(tmp_path)(sentences) == expected


@pytest.mark.parametrize("missing", ["config.yaml", "model.keras"])
def test_an_unfinished_run_has_no_translator(trained, missing):
    (trained / missing).unlink()
    with pytest.raises(FileNotFoundError, match=f"{missing} does not exist. Give the directory of"):
        Translator.load(trained)


@pytest.mark.parametrize("damage", [lambda data: data[:5000], lambda data: b"", reversed_middle])
def test_a_damaged_model_is_named(trained, damage):
    path = trained / "model.keras"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="model.keras is damaged: .* Restore it. In a run"):
        Translator.load(trained)


def test_a_damaged_configuration_is_named(trained):
    path = trained / "config.yaml"
    path.write_bytes(path.read_bytes()[:200] + b"{")
    with pytest.raises(ValueError, match="config.yaml is damaged: its checksum is not the one in"):
        Translator.load(trained)
    (trained / "SHA256SUMS").unlink()  # As in version 0.1.
    with pytest.raises(ValueError, match="config.yaml is not YAML"):
        Translator.load(trained)


@pytest.mark.parametrize("length", [0, 9, 30, 200, 400])
def test_a_truncated_configuration_is_named_with_a_remedy(trained, length):
    path = trained / "config.yaml"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match="config.yaml is damaged: .* Restore it; if"):
        check_claim(trained, toy_experiment(TEXT))
    (trained / "SHA256SUMS").unlink()  # As in version 0.1.
    with pytest.raises(ValueError, match="config.yaml .* Correct or restore it.$"):
        check_claim(trained, toy_experiment(TEXT))


def test_a_run_resumes_with_its_configuration_or_more_epochs(tmp_path):
    experiment = toy_experiment(TEXT)
    check_claim(tmp_path, experiment)
    claim(tmp_path, experiment, [tiny_tokenizer()])
    check_claim(tmp_path, experiment)
    check_claim(tmp_path, toy_experiment(TEXT, epochs=99))
    check_claim(tmp_path, dataclasses.replace(experiment, decoding=DecodingConfig(beam_size=9)))
    with pytest.raises(ValueError, match="received training.epochs=2 instead of 3. "):
        check_claim(tmp_path, toy_experiment(TEXT, epochs=2))


def test_every_option_that_differs_from_the_run_is_named(tmp_path):
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer()])
    other = toy_experiment(TEXT | {"train_source": "other.tsv"}, seed=2)
    model = dataclasses.replace(other.model, norm="pre")
    message = (
        "model.norm='pre' instead of 'post', data.train_source='other.tsv' instead of 'train.tsv', "
        "training.seed=2 instead of 1. A run resumes with"
    )
    with pytest.raises(ValueError, match=message):
        check_claim(tmp_path, dataclasses.replace(other, model=model))


def test_a_run_of_version_0_1_resumes(tmp_path):
    claim(tmp_path, toy_experiment(TEXT), [tiny_tokenizer()])
    path = tmp_path / "config.yaml"
    values = yaml.safe_load(path.read_text())
    values["training"]["r_drop"] = 0.0
    path.write_text(yaml.safe_dump(values))
    (tmp_path / "SHA256SUMS").unlink()
    check_claim(tmp_path, toy_experiment(TEXT, epochs=99))


def test_the_facts_of_a_run_are_its_data_its_recipe_and_what_was_chosen(trained):
    experiment = toy_experiment(TEXT)
    facts = {
        "data": dataclasses.asdict(experiment.data),
        "training": dataclasses.asdict(experiment.training),
    }
    assert run_facts(trained) == facts
    (trained / "chosen.json").write_text('{"chosen": "best"}')
    assert run_facts(trained) == facts | {"validation": {"chosen": "best"}}
    for content in ('{"chosen', "", "3"):
        (trained / "chosen.json").write_text(content)
        with pytest.raises(ValueError, match="chosen.json is damaged: .*Restore it, or remove it"):
            run_facts(trained)


def test_history_has_each_epoch_once_as_it_was_trained_last(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,val_bleu\n1,1.5\n2,2.5\n2,3.5\n3,3.0\n")
    assert read_history(tmp_path) == {"epoch": [1, 2, 3], "val_bleu": [1.5, 3.5, 3.0]}


def test_a_line_that_was_joined_to_one_that_was_cut_off_is_left_out(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,loss\n1,4.0\n2,3.1,3.5\n3,3.0\n")
    assert read_history(tmp_path) == {"epoch": [1, 3], "loss": [4.0, 3.0]}


def test_a_history_with_something_else_is_named(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,loss\n1,4.0\nepoch,loss\n2,3.0\n")
    with pytest.raises(ValueError, match="epochs.csv is damaged: .*'epoch'. Remove the line, or"):
        read_history(tmp_path)


def test_history_of_no_epoch_is_empty(tmp_path):
    path = tmp_path / "epochs.csv"
    path.write_text("")
    assert read_history(tmp_path) == {}
