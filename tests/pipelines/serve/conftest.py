"""The models and the programs that `pipelines.serve` finds."""

import pytest

from tests.helpers.programs import write


@pytest.fixture
def model(tmp_path):
    """A model directory with versions 2 and 10, and entries that a server ignores."""
    model = tmp_path / "saved models" / "en_de"
    for version in ("2", "10"):
        write(model / version / "saved_model.pb")
    for other in ("11.bak", "writing-12", "serving", "١٣"):  # The last is an Arabic 13.
        (model / other).mkdir()
    return model


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An empty directory, the only one on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory
