import pytest

from tests.helpers.tiny import export_quickly, toy_training


@pytest.fixture(scope="session")
def run():
    """A small run directory, as --model."""
    return str(toy_training()[0])


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """The directory of its exported versions, as --model."""
    directory = tmp_path_factory.mktemp("saved_models") / "toy"
    export_quickly(toy_training()[1], directory)
    return str(directory)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A directory that `Translator.save` wrote, as --model."""
    directory = tmp_path_factory.mktemp("saved") / "toy"
    toy_training()[1].save(directory)
    return str(directory)


@pytest.fixture(params=["run", "saved", "saved_model"])
def model(request):
    """Each kind of --model."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def translator():
    """The translator that the models are to agree with."""
    return toy_training()[1]
