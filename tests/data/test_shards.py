"""Corpora in shards: what is written, and what a run that was stopped continues with."""

import gzip
import random
import subprocess

import pytest

from keras_transformer.data.shards import ShardedCorpus

LINES = [f"line {number}" for number in range(11)]


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "a.x.txt").write_bytes("".join(f"{line}\r\n" for line in LINES).encode())
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"one\n\nthree"))
    (tmp_path / "empty").write_bytes(b"")
    return [tmp_path / name for name in ("a.x.txt", "b.gz", "empty")]


def answer(corpus, stop_after=None):
    """Answer the shards that are missing in capitals, and return their names."""
    names = []
    for shard, lines in corpus.missing():
        if len(names) == stop_after:
            break
        corpus.write(shard, [line.upper() for line in lines])
        names.append(shard.name)
    return names


def texts(directory):
    paths = sorted(path for path in directory.iterdir() if "-of-" in path.name)
    return {
        path.name: (gzip.decompress if path.suffix == ".gz" else bytes)(path.read_bytes())
        for path in paths
    }


def test_shards_in_order_are_the_corpus(paths, tmp_path):
    names = answer(ShardedCorpus(paths, tmp_path / "out", lines=4, facts={}))
    found = texts(tmp_path / "out")
    assert names == sorted(names) == list(found)
    assert b"".join(found[f"a-0000{i}-of-00003.x.txt"] for i in range(3)).decode().split("\n") == [
        *map(str.upper, LINES),
        "",
    ]
    assert found["b-00000-of-00001.gz"] == b"ONE\n\nTHREE\n"
    assert found["empty-00000-of-00001"] == b""
    command = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path / "out", check=False).returncode == 0


def test_a_run_that_is_stopped_ten_times_makes_each_shard_once(paths, tmp_path):
    whole = ShardedCorpus(paths, tmp_path / "whole", lines=1, facts={})
    expected, made, draw = answer(whole), [], random.Random(3)
    for _ in range(10):
        again = ShardedCorpus(paths, tmp_path / "out", lines=1, facts={})
        made += answer(again, stop_after=draw.randrange(3))
        (tmp_path / "out" / "writing-1-a-00010").write_text("cut off")
    made += answer(ShardedCorpus(paths, tmp_path / "out", lines=1, facts={}))
    assert made == expected
    assert texts(tmp_path / "out") == texts(tmp_path / "whole")


def test_a_shard_without_a_checksum_is_kept_and_a_damaged_one_refused(paths, tmp_path):
    out = tmp_path / "out"
    answer(ShardedCorpus(paths, out, lines=4, facts={}))
    (out / "SHA256SUMS").unlink()  # As after a kill before it was written.
    assert answer(ShardedCorpus(paths, out, lines=4, facts={})) == []
    (out / "b-00000-of-00001.gz").write_bytes(b"")
    with pytest.raises(ValueError, match="b-00000-of-00001.gz is damaged: .* Remove it to transla"):
        ShardedCorpus(paths, out, lines=4, facts={})
    for line in ("SHA256SUMS", "b-00000-of-00001.gz"):
        (out / line).unlink()
    assert answer(ShardedCorpus(paths, out, lines=4, facts={})) == ["b-00000-of-00001.gz"]


def test_a_line_that_is_not_utf_8_is_empty_and_listed(tmp_path):
    (tmp_path / "a").write_bytes(b"a\n\xff\n\xf6\n")
    corpus = ShardedCorpus([tmp_path / "a"], tmp_path / "out", lines=2, facts={})
    answer(corpus)
    assert corpus.bad_lines == 2
    assert (tmp_path / "out" / "not_utf8.tsv").read_text() == "a\t2\na\t3\n"
    assert b"".join(texts(tmp_path / "out").values()) == b"A\n\n\n"


def test_another_run_is_refused(paths, tmp_path):
    out = tmp_path / "out"
    answer(ShardedCorpus(paths, out, lines=4, facts={"model": "a", "options": {}}))
    with pytest.raises(ValueError, match="of a run with lines_per_shard 4 and model a, received 5"):
        ShardedCorpus(paths, out, lines=5, facts={"model": "b", "options": {}})
    paths[1].write_bytes(gzip.compress(b"two\n"))
    with pytest.raises(ValueError, match="holds answers to other text: b.gz differs. Give the fil"):
        ShardedCorpus(paths, out, lines=4, facts={"model": "a", "options": {}})
    with pytest.raises(ValueError, match="must be new, empty, or the directory of the same run"):
        ShardedCorpus(paths, tmp_path, lines=4, facts={})
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must have different names, received b.gz more than onc"):
        ShardedCorpus([*paths, tmp_path / "more" / "b.gz"], tmp_path / "new", lines=4, facts={})
