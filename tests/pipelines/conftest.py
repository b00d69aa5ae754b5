import pytest
from tests.helpers.tiny import toy_training

from keras_transformer.export import export_saved_model


@pytest.fixture(scope="session")
def training():
    """The directory of a small training, as --model."""
    return str(toy_training()[0])


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """The directory over the exported versions of the same, as --model."""
    directory = tmp_path_factory.mktemp("saved_models") / "toy"
    export_saved_model(toy_training()[1], directory)
    return str(directory)


@pytest.fixture(params=["training", "saved_model"])
def model(request):
    """Each kind of --model."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def translator():
    """What the models should do."""
    return toy_training()[1]
