"""A command that trains nothing, and its configuration."""

import pytest
import yaml

from pipelines import train


@pytest.fixture
def trained(monkeypatch):
    """The calls of `train`, which does nothing."""
    calls = []
    monkeypatch.setattr(
        "keras_transformer.training.train",
        lambda experiment, output, **_: calls.append((experiment, output)),
    )
    return calls


@pytest.fixture
def config_file(tmp_path):
    def write(content):
        path = tmp_path / "config.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write


@pytest.fixture
def train_with(trained, config_file):
    """Give the command a configuration and options; return its experiment and output."""

    def run(content, *options):
        train.main(["--config", config_file(content), *map(str, options)])
        return trained.pop()

    return run
