"""Runs that are killed at random moments end as if they had not been.

KILLS=20 pytest -m slow tests/training/test_kills.py kills 20 runs; fewer by default, to save time.
"""

import json
import os

import pytest

from tests.helpers import kills
from tests.helpers.tiny import run_python, write_toy_text

KILLS = int(os.environ.get("KILLS", "3"))


@pytest.mark.slow
def test_killed_runs_end_with_the_weights_of_uninterrupted_ones(tmp_path):
    write_toy_text(tmp_path, train=120, validation=6)
    options = ["--kills", KILLS, "--seed", 1, "--text", tmp_path]
    output = run_python("-m", "tests.helpers.kills", *options).stdout
    print(output)
    reports = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert sum(len(report["kills"]) for report in reports) == KILLS
    assert {report["replicas"] for report in reports} == {1, 2}
    assert {report["subword_dropout"] > 0 for report in reports} == {True, False}
    for report in reports:
        assert report["differing"] == []
        assert max(report["lost"]) <= kills.INTERVAL


@pytest.mark.slow
def test_runs_stopped_around_the_ends_of_epochs_lose_no_reported_epoch(tmp_path):
    write_toy_text(tmp_path, train=120, validation=6)
    options = ["--around-epochs", KILLS, "--seed", 1, "--text", tmp_path]
    *_, line = run_python("-m", "tests.helpers.kills", *options).stdout.splitlines()
    report = json.loads(line)
    assert len(report["signals"]) == KILLS
    assert report["unsaved"] == []
    assert set(report["lost"]) == {0}
    assert report["table"] == list(range(1, report["table"][-1] + 1))
