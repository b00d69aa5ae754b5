import functools
import shutil
from pathlib import Path

import pytest

from keras_transformer import export
from keras_transformer.translation import Translator
from tests.helpers.shared import shared
from tests.helpers.tiny import export_quickly, toy_training


@pytest.fixture(scope="session")
def run():
    """A small run directory, as --model."""
    return str(toy_training()[0])


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """The directory of its exported versions, as --model."""
    made = shared("saved_models", lambda folder: export_quickly(toy_training()[1], folder / "toy"))
    directory = tmp_path_factory.mktemp("saved_models") / "toy"
    return str(shutil.copytree(made / "toy", directory))


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A directory that `Translator.save` wrote, as --model."""
    directory = tmp_path_factory.mktemp("saved") / "toy"
    toy_training()[1].save(directory)
    return str(directory)


@functools.cache
def loaded(load, path, options):
    return load(path, **dict(options))


@pytest.fixture(autouse=True)
def shared_models_are_loaded_once(monkeypatch, tmp_path):
    """Keep the translators that the commands load, and their graphs, for later tests."""

    def once(load):
        def load_once(path, **options):
            if Path(path).is_relative_to(tmp_path):
                return load(path, **options)
            return loaded(load, str(path), tuple(sorted(options.items())))

        return load_once

    monkeypatch.setattr(Translator, "load", once(Translator.load))
    monkeypatch.setattr(export, "load_saved_model", once(export.load_saved_model))


@pytest.fixture(params=["run", "saved", "saved_model"])
def model(request):
    """Each kind of --model."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def translator():
    """The translator that the models are to agree with."""
    return toy_training()[1]
