import gzip
import subprocess
import sys
import time

import pytest

from keras_transformer.data import read_lines
from pipelines import translate, translate_corpus
from tests.helpers.tiny import toy_sentences

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
    assert out.startswith(f"17 of 17 lines in 4 files in {tmp_path / 'out'}\n17 of them in 0:")
    assert "a-00002-of-00003.txt: warning: line 3 has " in err and "4 of 17 lines" not in err
    texts = [*SENTENCES, "two", "three"]
    translate.main(["--model", model, "--max-source-length", "30", *texts])
    assert answers(tmp_path / "out") == capsys.readouterr().out.split("\n")[:-1]
    (tmp_path / "out" / "b-00000-of-00001.txt.gz").unlink()
    (tmp_path / "out" / "SHA256SUMS").unlink()
    translate_corpus.main(options)
    out, err = capsys.readouterr()
    assert "continuing: 15 of 17 lines are finished" in err and "\n2 of them in " in out
    with pytest.raises(SystemExit):
        translate_corpus.main([*options, "--beam-size", "1"])
    assert "holds answers of a run with options {'max_source_le" in capsys.readouterr().err


def test_a_shard_that_fails_is_named_and_the_others_are_written(
    run, corpus, tmp_path, capsys, monkeypatch
):
    translate_lines = translate_corpus.translate_lines

    def fail(options, lines):
        if "three" in lines:
            raise ValueError("no such number")
        return translate_lines(options, lines)

    options = ["--model", run, "--input", str(corpus / "*"), "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patched, pytest.raises(SystemExit) as error:
        patched.setattr(translate_corpus, "translate_lines", fail)
        translate_corpus.main(options)
    assert error.value.code == 1
    err = capsys.readouterr().err
    assert "b-00000-of-00001.txt.gz: not translated: no such number\n" in err
    assert err.endswith("missing files: 1. Give the same command again.\n")
    assert [path.name for path in (tmp_path / "out").glob("*-of-*")] == ["a-00000-of-00001.txt"]
    translate_corpus.main(options)
    assert "17 of 17 lines in 2 files" in capsys.readouterr().out


def test_n_best_lists(run, corpus, tmp_path, capsys):
    options = ["--model", run, "--num-hypotheses", "2", "--beam-size", "2"]
    translate_corpus.main(
        [*options, "--input", str(corpus / "b.txt.gz"), "--output", str(tmp_path / "out")]
    )
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
