import json
import subprocess
import sys

import pytest

from benchmarks import corpus
from tests.helpers.tiny import toy_pairs

RESULT = {
    **dict.fromkeys(("vocabulary", "encoding", "plan", "first"), "1.0 (0.5)"),
    **dict.fromkeys(("base", "peak", "resident", "mapped", "disk"), 2.5),
}


def write(folder, pairs):
    paths = [folder / "source", folder / "target"]
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [f"--{path.name}={path}" for path in paths]


def test_each_start_is_a_process_that_gets_its_text_only(tmp_path, monkeypatch, capsys):
    """The commands are those of the processes; they run here, without training."""
    texts = []

    def start_training(paths, directory, dropout):
        texts.append([len(open(path).readlines()) for path in paths])
        return RESULT

    def run(command, **options):
        assert command[:3] == [sys.executable, "-m", "benchmarks.corpus"]
        corpus.main(command[3:])
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out.splitlines()[-1])

    monkeypatch.setattr(corpus, "start_training", start_training)
    monkeypatch.setattr(subprocess, "run", run)
    output = tmp_path / "report.md"
    corpus.main([*write(tmp_path, toy_pairs(9)), "--pairs", "20", "30", f"--output={output}"])
    assert texts == [[20, 20], [20, 20], [30, 30], [30, 30]]
    rows = output.read_text().splitlines()[2:6]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| 20", "first"],
        ["| 20", "second"],
        ["| 30", "first"],
        ["| 30", "second"],
    ]


def test_a_report_needs_text(capsys):
    with pytest.raises(SystemExit):
        corpus.main([])
    assert "--source is required" in capsys.readouterr().err


def test_encoded_text_is_repeated_on_the_disk(tmp_path):
    import numpy as np

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
    assert json.loads((folder / "record.json").read_text()) == {
        "tokens": [6, 4],
        "corpora": [{"read": 8, "kept": 4}],
    }
