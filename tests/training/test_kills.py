"""Runs that are killed at random moments end as if they had not been.

KILLS=20 pytest -m slow tests/training/test_kills.py kills 20 runs; fewer by default, to save time.
"""

import json
import os

import pytest

from tests.helpers import kills
from tests.helpers.tiny import run_python, write_toy_text

KILLS = int(os.environ.get("KILLS", "3"))


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Kill and stop runs, and return the reports: the last one is of the ends of epochs."""
    text = tmp_path_factory.mktemp("text")
    write_toy_text(text, train=120, validation=6)
    options = ["--kills", KILLS, "--around-epochs", KILLS, "--seed", 1, "--text", text]
    output = run_python("-m", "tests.helpers.kills", *options).stdout
    print(output)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_killed_runs_end_with_the_weights_of_uninterrupted_ones(reports):
    *reports, _ = reports
    assert sum(len(report["kills"]) for report in reports) == KILLS
    assert {report["replicas"] for report in reports} == {1, 2}
    assert {report["subword_dropout"] > 0 for report in reports} == {True, False}
    for report in reports:
        assert report["differing"] == []
        assert max(report["lost"]) <= kills.INTERVAL


@pytest.mark.slow
def test_runs_stopped_around_the_ends_of_epochs_lose_no_reported_epoch(reports):
    *_, report = reports
    assert len(report["signals"]) == KILLS
    assert report["unsaved"] == []
    assert set(report["lost"]) == {0}
    assert report["table"] == list(range(1, report["table"][-1] + 1))
