import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_transformer.data import read_lines
from keras_transformer.data.formats import compressed
from keras_transformer.translation import Translator
from keras_transformer.utils.files import as_path
from pipelines import translate, translate_corpus
from tests.helpers.tiny import ROOT, toy_sentences

pytestmark = pytest.mark.slow  # They train a model and export it.

SENTENCES = ["one two three 😀", "", *toy_sentences(9), "red", "red", "", *["red dog " * 40]]


@pytest.fixture
def corpus(tmp_path):
    """The directory of two files."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    (tmp_path / "in" / "b.txt.gz").write_bytes(gzip.compress(b"two\nthree\n"))
    return tmp_path / "in"


def answers(directory):
    paths = sorted(directory.glob("*-of-*"))
    return [line for path in paths for line in read_lines(path)]


def test_files_are_translated_as_translate_does(model, corpus, translator, tmp_path, capsys):
    options = ["--model", model, "--max-source-length", "30", "--input", str(corpus / "*")]
    options += ["--output", str(tmp_path / "out"), "--lines", "6"]
    translate_corpus.main(options)
    out, err = capsys.readouterr()
    words = sum(len(line.split()) for line in [*SENTENCES, "two", "three"])
    assert out.startswith(
        f"17 of 17 lines in 4 files in {tmp_path / 'out'}\n17 of them, with {words:,} words, in 0:"
    )
    assert re.search(r"; workers: 1, waiting \d+% of the time\n", out)
    assert re.search(r"\nseconds: loading \S+, translating \S+, writing 0\.\d\n$", out)
    assert "a-00002-of-00003.txt: warning: line 3 has " in err and "4 of 17 lines" not in err
    texts = [*SENTENCES, "two", "three"]
    translate.main(["--model", model, "--max-source-length", "30", *texts])
    assert answers(tmp_path / "out") == capsys.readouterr().out.split("\n")[:-1]
    (tmp_path / "out" / "b-00000-of-00001.txt.gz").unlink()
    (tmp_path / "out" / "SHA256SUMS").unlink()
    translate_corpus.main(options)
    out, err = capsys.readouterr()
    assert "continuing: 15 of 17 lines are finished" in err and "\n2 of them, with " in out
    with pytest.raises(SystemExit):
        translate_corpus.main([*options, "--beam-size", "1"])
    assert "holds answers of a run with options {'max_source_le" in capsys.readouterr().err


def test_a_shard_that_fails_is_named_and_the_others_are_written(
    run, corpus, tmp_path, capsys, monkeypatch
):
    translate_lines = translate_corpus.translate_lines

    def fail(options, lines, *what):
        if "three" in lines:
            raise ValueError("no such number")
        return translate_lines(options, lines, *what)

    options = ["--model", run, "--input", str(corpus / "*"), "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patched, pytest.raises(SystemExit) as error:
        patched.setattr(translate_corpus, "translate_lines", fail)
        translate_corpus.main(options)
    assert error.value.code == 1
    err = capsys.readouterr().err
    assert "b-00000-of-00001.txt.gz: not translated: no such number\n" in err
    assert err.endswith("missing files: 1. Give the same command again.\n")
    assert [path.name for path in (tmp_path / "out").glob("*-of-*")] == ["a-00000-of-00001.txt"]

    def kill(options, lines, *what):
        if "three" in lines:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as error:
        patched.setattr(translate_corpus, "translate_lines", kill)
        translate_corpus.main(options)
    assert error.value.code == 128 + signal.SIGTERM
    assert "Interrupted. Give the same command again to continue." in capsys.readouterr().err
    translate_corpus.main(options)
    assert "17 of 17 lines in 2 files" in capsys.readouterr().out


def test_columns_are_added_to_those_that_are_there(model, tmp_path, capsys):
    texts = ["two", "", "three"]
    path = tmp_path / "in.jsonl.zst"
    lines = "".join(json.dumps({"id": text, "text": text}) + "\n" for text in texts)
    path.write_bytes(compressed(lines.encode(), path.name))
    options = ["--model", model, "--beam-size", "2"]
    command = [*options, "--input", str(path), "--column", "text", "--model-column", "--output"]
    translate_corpus.main([*command, f"file://{tmp_path}/best", "--scores"])
    translate_corpus.main([*command, str(tmp_path / "two"), "--num-hypotheses", "2"])
    capsys.readouterr()
    translate.main([*options, "--num-hypotheses", "2", *texts])
    expected = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    best, two = (
        [json.loads(line) for line in answers(tmp_path / each)] for each in ("best", "two")
    )
    name = Path(model).name
    for i, text in enumerate(texts):
        (_, score, first), (_, second_score, second) = expected[2 * i : 2 * i + 2]
        assert two[i] == {
            "id": text,
            "text": text,
            "translations": [first, second],
            "scores": [float(score), float(second_score)],
            "model": f"{name} 1" if name == "toy" and (Path(model) / "1").exists() else name,
        }
        assert list(best[i]) == ["id", "text", "translation", "score", "model"]
        assert best[i]["translation"] == first
        assert best[i]["score"] == pytest.approx(float(score), abs=2e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "a.txt", "--scores"], "--scores needs a format with columns, JSON lines or"),
        (["--input", "a.txt", "--column", "text"], "received a.txt. Leave --column out"),
        (["--input", "a.jsonl"], "a.jsonl has columns, and one of them is the text. Give its name"),
        (["--input", "a.jsonl", "--column", "text", "--model", "none"], "none"),
        (["--input", "a.txt", "--output", "."], "must be new, empty, or the directory of the sam"),
    ],
)
def test_what_does_not_fit_leaves_no_file(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "a.jsonl"):
        Path(name).write_text("one\n")
    with pytest.raises(SystemExit):
        translate_corpus.main(["--model", "m", "--output", "out", *options])
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.txt"]


def test_lists_of_translations_are_refused_for_a_model_that_protects(run, tmp_path, capsys):
    model, path = str(tmp_path / "model"), tmp_path / "a.jsonl"
    Translator.load(run, protect="html").save(model)
    path.write_text('{"text": "two"}\n')
    command = ["--model", model, "--input", str(path), "--column", "text", "--output"]
    command += [str(tmp_path / "out"), "--scores"]
    for main, options, name in (
        (translate_corpus.main, command, "--scores"),
        (translate_corpus.main, [*command[:-1], "--num-hypotheses", "2"], "--num-hypotheses"),
        (translate.main, ["--model", model, "--num-hypotheses", "2", "two"], "--num-hypotheses"),
    ):
        with pytest.raises(SystemExit):
            main(options)
        message = f"error: {name} protects nothing, and {model} is to protect html. Leave {name}"
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
    translate_corpus.main([*command, "--protect", ""])
    assert list(json.loads(*answers(tmp_path / "out"))) == ["text", "translation", "score"]


def test_an_object_store_gives_what_a_disk_gives(run, corpus, tmp_path, capsys):
    store = as_path(f"memory://{tmp_path.name}")
    for path in corpus.iterdir():
        (store / "in" / path.name).write_bytes(path.read_bytes())
    out = tmp_path / "out"
    translate_corpus.main(["--model", run, "--input", str(corpus / "*"), "--output", str(out)])
    command = ["--model", run, "--input", f"{store}/in/*", "--output", f"{store}/out"]
    for _ in range(2):
        translate_corpus.main(command)
    assert "continuing: 17 of 17 lines are finished" in capsys.readouterr().err
    found = {path.name: path.read_bytes() for path in (store / "out").glob("*")}
    expected = {path.name: path.read_bytes() for path in out.iterdir()}
    assert found == {name: text for name, text in expected.items() if name != "corpus.lock"}


def test_n_best_lists(run, corpus, tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setattr("keras_transformer.utils.progress._SECONDS_BETWEEN_LINES", 0)
    caplog.set_level("INFO", logger="keras_transformer")
    options = ["--model", run, "--num-hypotheses", "2", "--beam-size", "2"]
    translate_corpus.main(
        [*options, "--input", str(corpus / "b.txt.gz"), "--output", str(tmp_path / "out")]
    )
    progress = [message for message in caplog.messages if " distinct lines" in message]
    assert progress == ["b-00000-of-00001.txt.gz, 2 distinct lines: 2 lines"]
    capsys.readouterr()
    translate.main([*options, "two", "three"])
    assert answers(tmp_path / "out") == capsys.readouterr().out.split("\n")[:-1]


def test_a_cluster_that_loses_a_machine_gives_what_one_process_gives(run, tmp_path, capsys):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    (tmp_path / "a.txt").write_text("\n".join(toy_sentences(400)) + "\n")
    options = ["--model", run, "--input", str(tmp_path / "a.txt"), "--lines", "10", "--output"]
    translate_corpus.main([*options, str(tmp_path / "one")])
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        second = cluster.add_node(num_cpus=1)
        command = [sys.executable, "-m", "pipelines.translate_corpus", *options]
        ray = [str(tmp_path / "two"), "--engine", "ray", "--address", cluster.address]
        with subprocess.Popen([*command, *ray], stderr=subprocess.PIPE, text=True) as process:
            finished = 0
            while process.poll() is None and finished < 3:  # Both machines are at work then.
                time.sleep(0.05)
                finished = len([*(tmp_path / "two").glob("*-of-*")])
            assert 3 <= finished < 40
            cluster.remove_node(second, allow_graceful=False)
            _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    finally:
        cluster.shutdown()
    assert answers(tmp_path / "two") == answers(tmp_path / "one")
    assert err.count("a-000") == 40  # No shard was made twice.


def test_the_report_has_the_share_of_time_that_workers_waited(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    def translate_lines(options, lines, what=""):
        time.sleep(0.2)
        return translate_corpus.ShardTranslation(list(lines), [], 1, 0.1, 0.1, (lines[0], 1))

    monkeypatch.setattr(translate_corpus, "translate_lines", translate_lines)
    options = ["--model", "none", "--input", str(tmp_path / "a.txt"), "--lines", "1"]
    translate_corpus.main([*options, "--output", str(tmp_path / "out")])
    # They have worked for 0.4 s of 0.4 s, each for half of it.
    (share,) = re.findall(r"; workers: 2, waiting (\d+)% of the time\n", capsys.readouterr().out)
    assert 45 < int(share) < 95


# The command with workers that only write capitals, slowly, and start quickly.
STUB = """
import os, sys, time
import ray
from pipelines import translate_corpus
from pipelines.cli import cluster

def translate_lines(options, lines, what=""):
    time.sleep(0.2)
    upper = [line.upper() for line in lines]
    return translate_corpus.ShardTranslation(upper, [], 2, 0.0, 0.2, ("machine", os.getpid()))

def call(copied, cpus, arguments):
    return ray.get(copied[0])(*arguments)

translate_corpus.translate_lines = translate_lines
cluster._call = call
translate_corpus.main(sys.argv[1:])
"""


def test_a_command_that_is_killed_ten_times_makes_no_finished_shard_again(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray counts what it leaves.
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    lines = [f"line {number}" for number in range(240)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (tmp_path / "stub.py").write_text(STUB)
    out, draw = tmp_path / "out", random.Random(5)
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "num_gpus": 2, "include_dashboard": False},
    )
    command = [sys.executable, tmp_path / "stub.py", "--model", "none", "--lines", "2"]
    command += ["--gpus-per-worker", "1"]  # Ray's are only numbers.
    command += ["--input", tmp_path / "a.txt", "--output", out, "--engine", "ray"]
    command += ["--address", cluster.address]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def finished():
        return {path.name: path.stat().st_mtime_ns for path in out.glob("a-*-of-*")}

    try:
        kept = {}
        for _ in range(10):
            most = len(kept) + draw.randrange(6)
            with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
                while process.poll() is None and len(finished()) < most:
                    time.sleep(0.01)
                time.sleep(0.3 * draw.random())
                assert process.poll() is None, process.stderr.read()
                process.kill()
            found = finished()
            assert kept.items() <= found.items()
            kept = found
        assert 10 < len(kept) < 120
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    finally:
        cluster.shutdown()
    assert ended.returncode == 0, ended.stderr
    assert kept.items() <= finished().items()
    assert ended.stderr.count("lines/s") == 120 - len(kept)
    # A worker stays for many shards.
    assert re.search(r"; workers: 2, waiting \d+% of the time\n", ended.stdout)
    assert answers(out) == [line.upper() for line in lines]
    assert not [*out.glob("writing-*")]
