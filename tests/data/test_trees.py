import gzip
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.trees import read_trees, stream_trees, trees_or_problems
from keras_transformer.trees import Tree

TEA, CUP = "(S (NP (NN tea)))", "(S (NP (NN cup)) (VP (VB go)))"


def read(path):
    """Return the trees as text, and the problems as (line, reason)."""
    trees, problems = [], []
    for found in trees_or_problems(path):
        if isinstance(found, Tree):
            trees.append(str(found))
        else:
            file, line, reason = re.fullmatch(r"(.+), line (\d+): (.+)", found).groups()
            assert Path(file).is_file()
            problems.append((int(line), reason))
    return trees, problems


def written(folder, text, name="trees.mrg"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        f"{TEA}\n{CUP}\n",
        f"{TEA}\r\n\r\n({CUP})",
        "( (S\n    (NP-SBJ (NN tea) )))\n( (S \n  (NP\n\n  (NN cup))\n  (VP (VB go)) ))\n",
        f"\ufeff{TEA}\n\n\n (ROOT\n  {CUP}\n )\n",
    ],
)
def test_trees_on_one_or_several_lines_are_read(tmp_path, text):
    assert read(written(tmp_path, text)) == ([TEA, CUP], [])


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(f"{TEA}\n{CUP}\n".encode()))
    assert read(path) == ([TEA, CUP], [])


def test_a_directory_is_read_in_the_order_of_its_files(tmp_path):
    written(tmp_path, CUP, "b.mrg")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z.mrg.gz").write_bytes(gzip.compress(TEA.encode()))
    written(tmp_path, "This is no tree.", "README")
    assert read(tmp_path) == ([TEA, CUP], [])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("(S (NP (NN a))", "every bracket must be closed, received 1 open at the end"),
        ("( (S\n  (NP (NN a))", "every bracket must be closed, received 2 open at the end"),
        ("(S (NP (NN a))))", "nothing may follow the end of a tree, received a closing bracket"),
        (f"{TEA} {TEA}", "nothing may follow the end of a tree, received another tree"),
        (f"({TEA}\n {TEA})", "a tree must have one root, received 2: S S"),
        ("( (S (NP (-NONE- *))))", "a tree must have a word, received only empty elements"),
        ("*** header ***", "a tree must start with an opening bracket, received '***'"),
    ],
)
def test_a_bad_tree_is_reported_and_all_others_are_kept(tmp_path, bad, reason):
    path = written(tmp_path, f"{TEA}\n\n{bad}\n{CUP}\n{bad}")
    assert read(path) == ([TEA, CUP], [(3, reason), (5 + bad.count("\n"), reason)])


@given(st.text(st.sampled_from("() \nSNa-"), max_size=40))
def test_any_text_is_read_as_trees_and_problems(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.mrg"
    path.write_text(f"{text}\n{TEA}\n", encoding="utf-8")
    trees, problems = read(path)
    assert trees[-1] == TEA
    assert bool(text.strip()) == (len(trees) + len(problems) > 1)


def test_bad_trees_are_logged_with_file_and_line_and_counted(tmp_path, caplog):
    path = written(tmp_path, f"{TEA}\n" + "(S\n" * 7 + CUP)
    with caplog.at_level(logging.WARNING):
        assert [str(tree) for tree in read_trees(path)] == [TEA, CUP]
    reason = "every bracket must be closed, received 1 open at the end"
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        *(f"dropped a tree: {path}, line {line}: {reason}" for line in range(2, 7)),
        f"dropped 7 trees of {path}",
    ]


def test_every_pass_over_the_same_trees_logs_them_once(tmp_path, caplog):
    path = written(tmp_path, f"{TEA}\n(S\n")
    for _ in range(3):
        assert [str(tree) for tree in stream_trees(path)] == [TEA]
    assert len(caplog.records) == 2
    written(tmp_path, f"{TEA}\n(S\n(S\n")
    assert len(read_trees(path)) == 1
    assert len(caplog.records) == 5


def test_good_files_are_read_silently(tmp_path, caplog):
    read_trees(written(tmp_path, TEA))
    assert caplog.records == []


def test_a_file_needs_a_tree(tmp_path):
    with pytest.raises(ValueError, match="must have a bracketed tree, .* received none. Check"):
        read_trees(written(tmp_path, "\n"))
    with pytest.raises(ValueError, match=r"received none that can be used \(.*trees.mrg, line 2: "):
        read_trees(written(tmp_path, "\n(S\n"))


def test_the_path_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent must be a text file"):
        read_trees(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"must have files named \*.mrg or \*.mrg.gz"):
        read_trees(tmp_path)
