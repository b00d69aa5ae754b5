import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import corpus
from tests.helpers.tiny import toy_pairs

OPTIONS = "--pairs 20 30 --repeat 2 6 --dropout 0.1"
RESULT = {
    **dict.fromkeys(("vocabulary", "encoding", "plan", "first"), "1.0 (0.5)"),
    **dict.fromkeys(("base", "peak", "resident", "mapped", "disk"), 2.5),
}


def test_both_starts_of_a_corpus_get_its_text_and_directory(
    parallel, tmp_path, monkeypatch, capsys
):
    """The commands are those of the processes; they run here, without training."""
    starts = []

    def start_training(paths, directory, dropout):
        sizes = [len(Path(path).read_text().splitlines()) for path in paths]
        starts.append((sizes, directory, dropout))
        return RESULT

    def run(command, **options):
        assert command[:3] == [sys.executable, "-m", "benchmarks.corpus"]
        corpus.main(command[3:])
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out.splitlines()[-1])

    monkeypatch.setattr(corpus, "start_training", start_training)
    monkeypatch.setattr(corpus, "_watch", lambda: None)
    monkeypatch.setattr(corpus, "repeat_encoded", lambda folder, times: starts.append(times))
    monkeypatch.setattr(subprocess, "run", run)
    output = tmp_path / "report.md"
    corpus.main([*parallel(toy_pairs(9)), *OPTIONS.split(), f"--output={output}"])
    first, small, large = starts[0], starts[:2], starts[2:4]
    assert small == [first] * 2 and first[0] == [20, 20] and first[2] == 0.1
    assert large[0] == large[1] and large[0][0] == [30, 30] and large[0][1] != first[1]
    assert starts[4:] == [2, large[0], 3, large[0]]
    rows = [row.split(" | ")[:2] for row in output.read_text().splitlines()[2:8]]
    twice = [[f"| {number}", start] for number in (20, 30) for start in ("first", "second")]
    assert rows == [*twice, ["| 60", "second, repeated"], ["| 180", "second, repeated"]]


def test_a_report_needs_text(capsys):
    with pytest.raises(SystemExit):
        corpus.main([])
    assert "--source is required" in capsys.readouterr().err


def test_encoded_text_is_repeated_on_the_disk(tmp_path):
    folder = tmp_path / "text" / "a"
    folder.mkdir(parents=True)
    for side, ids, ends in (("source", [5, 6, 7], [0, 1, 3]), ("target", [8, 9], [0, 1, 2])):
        np.array(ids, np.uint16).tofile(folder / f"{side}.ids")
        np.array(ends, np.int64).tofile(folder / f"{side}.offsets")
    record = {"tokens": [3, 2], "corpora": [{"read": 4, "kept": 2}]}
    (folder / "record.json").write_text(json.dumps(record))
    corpus.repeat_encoded(tmp_path, 2)
    assert np.fromfile(folder / "source.ids", np.uint16).tolist() == [5, 6, 7, 5, 6, 7]
    assert np.fromfile(folder / "source.offsets", np.int64).tolist() == [0, 1, 3, 4, 6]
    assert np.fromfile(folder / "target.offsets", np.int64).tolist() == [0, 1, 2, 3, 4]
    record = json.loads((folder / "record.json").read_text())
    assert record == {"tokens": [6, 4], "corpora": [{"read": 8, "kept": 4}]}
