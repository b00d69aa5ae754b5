"""Corpora in shards: what is written, and what a run that was stopped continues with."""

import datetime
import gzip
import json
import random
import subprocess
import uuid
from pathlib import Path

import pytest

from keras_transformer.data.formats import compressed, corpus_file
from keras_transformer.data.shards import ShardedCorpus
from keras_transformer.data.sources import read_lines
from keras_transformer.utils import checksums
from keras_transformer.utils.files import as_path

LINES = [f"line {number}" for number in range(11)]


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "a.x.txt").write_bytes("".join(f"{line}\r\n" for line in LINES).encode())
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"one\n\nthree"))
    (tmp_path / "empty").write_bytes(b"")
    return [tmp_path / name for name in ("a.x.txt", "b.gz", "empty")]


def sharded(paths, directory, *, lines, facts, column=None, new=("translation",)):
    files = [corpus_file(path, column, new) for path in paths]
    return ShardedCorpus(files, directory, lines=lines, facts=facts)


def test_addresses_of_files_keep_question_marks_and_hashes():
    found = as_path("file:///c/part-?#1%20.txt"), as_path("file://localhost/c")
    assert found == (Path("/c/part-?#1 .txt"), Path("/c"))
    with pytest.raises(ValueError, match="received file://c/a.txt. Write file:///c/a.txt for /c/a"):
        as_path("file://c/a.txt")


def answer(corpus, stop_after=None):
    """Answer the shards that are missing in capitals, and return their names."""
    names = []
    for shard, lines in corpus.missing():
        if len(names) == stop_after:
            break
        corpus.write(shard, {"translation": [line.upper() for line in lines]})
        names.append(shard.name)
    return names


def texts(directory):
    paths = sorted(path for path in directory.iterdir() if "-of-" in path.name)
    return {
        path.name: (gzip.decompress if path.suffix == ".gz" else bytes)(path.read_bytes())
        for path in paths
    }


def test_shards_in_order_are_the_corpus(paths, tmp_path):
    names = answer(sharded(paths, tmp_path / "out", lines=4, facts={}))
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
    whole = sharded(paths, tmp_path / "whole", lines=1, facts={})
    expected, made, draw = answer(whole), [], random.Random(3)
    for _ in range(10):
        again = sharded(paths, tmp_path / "out", lines=1, facts={})
        made += answer(again, stop_after=draw.randrange(3))
        (tmp_path / "out" / "writing-1-a-00010").write_text("cut off")
    made += answer(sharded(paths, tmp_path / "out", lines=1, facts={}))
    assert made == expected
    assert texts(tmp_path / "out") == texts(tmp_path / "whole")
    assert not [*(tmp_path / "out").glob("writing-*")]


def test_a_shard_without_a_checksum_is_kept_and_a_damaged_one_refused(paths, tmp_path):
    out = tmp_path / "out"
    answer(sharded(paths, out, lines=4, facts={}))
    (out / "SHA256SUMS").unlink()  # As after a kill before it was written.
    assert answer(sharded(paths, out, lines=4, facts={})) == []
    (out / "b-00000-of-00001.gz").write_bytes(b"")
    with pytest.raises(ValueError, match="b-00000-of-00001.gz is damaged: .* Remove it to transla"):
        sharded(paths, out, lines=4, facts={})
    for line in ("SHA256SUMS", "b-00000-of-00001.gz"):
        (out / line).unlink()
    assert answer(sharded(paths, out, lines=4, facts={})) == ["b-00000-of-00001.gz"]


def test_a_line_that_is_not_utf_8_is_empty_and_listed(tmp_path):
    (tmp_path / "a").write_bytes(b"a\n\xff\n\xf6\n")
    corpus = sharded([tmp_path / "a"], tmp_path / "out", lines=2, facts={})
    answer(corpus)
    assert corpus.bad_lines == 2
    assert (tmp_path / "out" / "bad_lines.tsv").read_text() == "a\t2\na\t3\n"
    assert b"".join(texts(tmp_path / "out").values()) == b"A\n\n\n"
    again = sharded([tmp_path / "a"], tmp_path / "again", lines=2, facts={})
    assert [shard.rows for shard, _ in again.missing()] == [None, None]  # They would take memory.


def test_another_run_is_refused(paths, tmp_path):
    out = tmp_path / "out"
    answer(sharded(paths, out, lines=4, facts={"model": "a", "options": {}}))
    with pytest.raises(ValueError, match="of a run with lines_per_shard 4 and model a, received 5"):
        sharded(paths, out, lines=5, facts={"model": "b", "options": {}})
    paths[1].write_bytes(gzip.compress(b"two\n"))
    with pytest.raises(ValueError, match="holds answers to other text: b.gz differs. Give the fil"):
        sharded(paths, out, lines=4, facts={"model": "a", "options": {}})
    with pytest.raises(ValueError, match="must be new, empty, or the directory of the same run"):
        sharded(paths, tmp_path, lines=4, facts={})
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must have different names, received b.gz more than onc"):
        sharded([*paths, tmp_path / "more" / "b.gz"], tmp_path / "new", lines=4, facts={})


def test_finished_shards_are_read_once(paths, tmp_path, monkeypatch):
    out, hashed = tmp_path / "out", []
    answer(sharded(paths, out, lines=4, facts={}))
    digest = checksums._digest
    monkeypatch.setattr(checksums, "_digest", lambda path: hashed.append(path.name) or digest(path))
    sharded(paths, out, lines=4, facts={})
    assert sorted(hashed) == list(texts(out))


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_files_are_written_in_the_format_read(name, suffix, tmp_path):
    objects = [{"id": 1 << 70, "text": "ö ü"}, {"text": "b", "more": [1.5, None]}, {"text": ""}]
    lines = [json.dumps(each) for each in objects] if "json" in name else ["ö ü", "b", ""]
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(compressed("".join(f"{line}\n" for line in lines).encode(), path.name))
    column = "text" if "json" in name else None
    for directory in ("one", "two"):
        answer(sharded([path], tmp_path / directory, lines=2, facts={}, column=column))
    names = [f"{name[0]}-0000{i}-of-00002{name[1:]}{suffix}" for i in range(2)]
    found = [line for each in names for line in read_lines(tmp_path / "one" / each)]
    if column:
        expected = [each | {"translation": each["text"].upper()} for each in objects]
        assert [json.loads(line) for line in found] == expected
        assert "Ö Ü" in found[0]
    else:
        assert found == ["Ö Ü", "B", ""]
    for each in names:
        one, two = (tmp_path / directory / each for directory in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        assert one.read_bytes()[:2] == path.read_bytes()[:2] or not suffix


def test_objects_stay_as_they_are_written(tmp_path):
    rows = [
        '{"text":"\\u00f6", "n": 1E400, "m": 0.12345678901234567890}\t',
        '{"id": 1, "text": "b", "id": 2 }',
        "{ }",
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    answer(sharded([tmp_path / "a.jsonl"], tmp_path / "out", lines=9, facts={}, column="text"))
    assert read_lines(tmp_path / "out" / "a-00000-of-00001.jsonl") == [
        f'{rows[0][:-2]}, "translation": "Ö"}}',
        f'{rows[1][:-1]}, "translation": "B"}}',
        '{"translation": ""}',
    ]


def test_objects_without_a_text_are_empty_and_listed(tmp_path):
    rows = ['{"text": "a"}', "no object", "[1]", '{"id": 4}', '{"text": "\\ud800"}', '{"text": 6}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    answer(sharded([tmp_path / "a.jsonl"], tmp_path / "out", lines=9, facts={}, column="text"))
    found = map(json.loads, read_lines(tmp_path / "out" / "a-00000-of-00001.jsonl"))
    assert list(found) == [
        {"text": "a", "translation": "A"},
        {"translation": ""},
        {"translation": ""},
        {"id": 4, "translation": ""},
        {"text": "\ud800", "translation": ""},
        {"text": 6, "translation": ""},
    ]
    listed = "".join(f"a.jsonl\t{number}\n" for number in range(2, 7))
    assert (tmp_path / "out" / "bad_lines.tsv").read_text() == listed


@pytest.mark.parametrize(("codec", "kind"), [("SNAPPY", "string"), ("ZSTD", "large_string")])
def test_parquet_keeps_other_columns_and_their_types(codec, kind, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    day = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    table = arrow.table(
        {
            "text": arrow.array([*LINES[:-1], None], getattr(arrow, kind)()),
            "day": arrow.array([day] * 11, arrow.timestamp("ms", "UTC")),
            "tags": arrow.array([["x"], []] * 5 + [None], arrow.list_(arrow.string())),
            "kind": arrow.array(["x", "y"] * 5 + [None]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", compression=codec, row_group_size=3)
    new = ["translations", "scores", "model"]
    out = tmp_path / "out"
    corpus = sharded([tmp_path / "a.parquet"], out, lines=4, facts={}, column="text", new=new)
    for shard, lines in corpus.missing():
        best = [[line, line.upper()] for line in lines]
        values = best, [[-1, -2.5]] * len(lines), ["m 1"] * len(lines)
        corpus.write(shard, dict(zip(new, values, strict=True)))
    parts = [parquet.read_table(path) for path in sorted(out.glob("*.parquet"))]
    assert [len(part) for part in parts] == [4, 4, 3]
    found = arrow.concat_tables(parts)
    assert found.select(table.column_names).equals(table)
    assert found["translations"].to_pylist()[1] == ["line 1", "LINE 1"]
    assert found["scores"].to_pylist()[10] == [-1.0, -2.5] and found["model"][0].as_py() == "m 1"
    metadata = parquet.read_metadata(out / "a-00002-of-00003.parquet")
    assert metadata.row_group(0).column(0).compression == codec
    assert (out / "bad_lines.tsv").read_text() == "a.parquet\t11\n"


def test_an_empty_table_has_a_shard(tmp_path):
    parquet, arrow = map(pytest.importorskip, ("pyarrow.parquet", "pyarrow"))
    parquet.write_table(arrow.table({"text": arrow.array([], "string")}), tmp_path / "a.parquet")
    answer(sharded([tmp_path / "a.parquet"], tmp_path / "out", lines=4, facts={}, column="text"))
    table = parquet.read_table(tmp_path / "out" / "a-00000-of-00001.parquet")
    assert table.schema.names == ["text", "translation"] and len(table) == 0


def test_files_that_do_not_fit_their_format_are_refused(tmp_path):
    parquet, arrow = map(pytest.importorskip, ("pyarrow.parquet", "pyarrow"))
    table = arrow.table({"n": [1], "translation": ["x"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    (tmp_path / "c.jsonl").write_text('{"text": "a"}\n{"text": "a", "translation": "b"}\n')
    (tmp_path / "e.jsonl").write_text("[1]\n")
    (tmp_path / "d.txt.zst").write_bytes(compressed(b"a\n" * 99, "d.zst")[:-2])
    for name, column, new, message in (
        (
            "a.parquet",
            None,
            ["x"],
            "a.parquet has columns, and one of them is the text. Give its na",
        ),
        ("d.txt.zst", "text", ["x"], "--column is for JSON lines .*, received .*d.txt.zst. Leave"),
        ("a.parquet", "n", ["x"], r"--column n for the columns n \(int64\), translation \(string"),
        ("a.parquet", "text", ["x"], "--column text for the columns n"),
        ("a.parquet", "n", ["translation"], "must not have a column of the answers, received one"),
        ("b.parquet", "n", ["x"], "b.parquet must be a complete Parquet file that pyarrow reads"),
        ("c.jsonl", "text", ["translation"], "received one named translation. Rename it"),
        ("c.jsonl", "txt", ["x"], "a.* --column txt for the columns text. Give the name of one"),
        ("e.jsonl", "text", ["x"], "received --column text for the columns of no object. Give"),
        ("d.txt.zst", None, ["x"], "must be a complete zstd file, received damaged data after"),
    ):
        with pytest.raises(ValueError, match=message):
            sharded([tmp_path / name], tmp_path / "o", lines=4, facts={}, column=column, new=new)
    assert not (tmp_path / "o").exists()  # Another attempt may have other options.


def test_an_object_store_has_what_a_disk_has(paths, tmp_path):
    pytest.importorskip("upath")
    answer(sharded(paths, tmp_path / "out", lines=4, facts={}))
    store = as_path(f"memory://{uuid.uuid4().hex}")
    for path in paths:
        (store / "in" / path.name).write_bytes(path.read_bytes())
    sources = [as_path(str(store / "in" / path.name)) for path in paths]
    made = answer(sharded(sources, store / "out", lines=4, facts={}), stop_after=2)
    # Cut off before its checksum was there: another store may have written a part of it.
    (store / "out" / "b-00000-of-00001.gz").write_bytes(b"")
    made += answer(sharded(sources, store / "out", lines=4, facts={}))
    assert made == list(texts(tmp_path / "out"))
    found = {path.name: path.read_bytes() for path in (store / "out").glob("*")}
    assert found == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*")}
    with pytest.raises(ValueError, match="must be new, empty, or the directory of the same run"):
        sharded(sources, store / "in", lines=4, facts={})
