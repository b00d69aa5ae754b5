"""Training, validation and test text without leaks, by the command."""

import gzip
import itertools
import os

import pytest

from keras_transformer.data import read_lines, read_pairs
from keras_transformer.data.filters import normalized
from pipelines import split

WORDS = [a + b for a, b in itertools.product("abcdefghij", repeat=2)]
PAIRS = [
    (f"{word} {number}", f"{word.upper()} {number}") for word in WORDS for number in (1, 22, 3)
]


@pytest.fixture
def text(tmp_path):
    """The options of 300 pairs of 100 normalized sources, which the parts must not share."""
    (tmp_path / "all.en.gz").write_bytes(
        gzip.compress("".join(f"{s}\n" for s, _ in PAIRS).encode())
    )
    (tmp_path / "all.de").write_text("".join(f"{t}\n" for _, t in PAIRS))
    return ["--source", str(tmp_path / "all.en.gz"), "--target", str(tmp_path / "all.de")]


def read(directory):
    return {
        part: read_pairs(directory / f"{part}.en", directory / f"{part}.de")
        for part in ("train", "valid", "test")
    }


def test_parts_share_no_source_and_lose_no_pair(text, tmp_path, capsys):
    output = tmp_path / "split"
    split.main([*text, "--output", str(output), "--valid", "31", "--test", "45"])
    parts = read(output)
    assert capsys.readouterr().out.splitlines() == [
        f"{part}: {number} pairs in {output}/{part}.en and {output}/{part}.de"
        for part, number in (("train", 225), ("valid", 30), ("test", 45))
    ]
    assert sorted(itertools.chain(*parts.values())) == sorted(PAIRS)
    sources = [{normalized(source) for source, _ in part} for part in parts.values()]
    assert [len(each) for each in sources] == [75, 10, 15]
    assert len(set().union(*sources)) == 100
    places = [PAIRS.index(pair) for pair in parts["test"]]
    assert places == sorted(places) and places[-1] - places[0] > 100


def test_a_seed_decides_and_validation_leaves_the_test_as_it_is(text, tmp_path):
    def test_of(name, *options):
        split.main([*text, "--output", str(tmp_path / name), "--test", "30", *options])
        return read(tmp_path / name)["test"]

    first = test_of("a", "--valid", "30")
    assert test_of("b", "--valid", "0") == first
    assert test_of("c", "--valid", "30", "--seed", "2") != first
    assert read_lines(tmp_path / "b" / "valid.en") == []


def test_groups_stay_whole_and_sources_that_others_have_are_left_out(text, tmp_path, capsys):
    groups = [f"package {i // 30}" for i in range(300)]
    pairs = [("Open", "Öffnen") if i % 30 == 0 else pair for i, pair in enumerate(PAIRS)]
    pairs[1] = ("", "leer")
    (tmp_path / "all.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    (tmp_path / "groups").write_text("".join(f"{group}\n" for group in groups))
    output = tmp_path / "split"
    options = ["--group", str(tmp_path / "groups"), "--output", str(output)]
    source = ["--source", str(tmp_path / "all.tsv")]
    split.main([*source, *options, "--valid", "29", "--test", "70"])
    parts = {part: read_pairs(output / f"{part}.tsv") for part in ("train", "valid", "test")}
    places = {
        part: {groups[pairs.index(p)] for p in found if p[0] != "Open"}
        for part, found in parts.items()
    }
    assert {part: len(found) for part, found in places.items()} == {
        "train": 7,
        "valid": 1,
        "test": 2,
    }
    assert len(set().union(*places.values())) == 10
    assert len(parts["test"]) in (57, 58) and ("Open", "Öffnen") in parts["train"]
    left_out = 300 - sum(map(len, parts.values()))
    assert ("Open", "Öffnen") not in parts["test"] and left_out >= 3
    assert (
        f"left out: {left_out} pairs of groups in valid and test, with" in capsys.readouterr().out
    )


def test_an_empty_directory_stays_and_is_filled(text, tmp_path, monkeypatch):
    output = tmp_path / "split"
    output.mkdir()
    monkeypatch.chdir(output)
    before = output.stat().st_ino
    with pytest.raises(SystemExit, match="training needs pairs too"):
        split.main([*text, "--output", ".", "--valid", "0", "--test", "300"])
    split.main([*text, "--output", ".", "--valid", "30", "--test", "30"])
    assert len(os.listdir(".")) == 6 and output.stat().st_ino == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--valid", "-1"], "valid and test must be at least 0, received -1 and 2000"),
        (["--test", "2"], "test must have room for a group that is left, received 2 pairs of 300"),
        (["--test", "300", "--valid", "0"], "training needs pairs too, received valid=0 and test"),
        (["--group", "{tmp_path}/short"], "must have a line for each pair, .* end at number 3"),
        (["--group", "{tmp_path}/long"], "must have a line for each pair, .* end at number 300"),
        (["--output", "{tmp_path}"], "must be a new or empty directory, because nothing is over"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_refused(text, options, message, tmp_path):
    (tmp_path / "short").write_text("a\nb\n")
    (tmp_path / "long").write_text("a\n" * 301)
    options = [option.format(tmp_path=tmp_path) for option in options]
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        split.main([*text, "--output", str(tmp_path / "split"), *options])
    assert sorted(tmp_path.iterdir()) == before
