"""A command that trains nothing, and its configuration."""

import pytest
import yaml


@pytest.fixture
def trained(monkeypatch):
    """The calls of `train`, which does nothing."""
    calls = []
    monkeypatch.setattr(
        "keras_transformer.training.train",
        lambda experiment, output: calls.append((experiment, output)),
    )
    return calls


@pytest.fixture
def config_file(tmp_path):
    def write(content):
        path = tmp_path / "config.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write
