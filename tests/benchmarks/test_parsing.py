import pytest

from benchmarks import parsing
from keras_transformer.trees import parse_tree
from tests.helpers.parser import parser, toy_trees


@pytest.mark.slow
@pytest.mark.parametrize(("word_tags", "beams"), [("none", "2"), ("source", "1"), ("target", "1")])
def test_the_rules_make_every_result_a_tree(monkeypatch, tmp_path, capsys, word_tags, beams):
    path = tmp_path / "trees.mrg"
    path.write_text("\n".join(toy_trees()[::9]), encoding="utf-8")
    load = lambda path, **search: parser(word_tags, **search)  # noqa: E731
    monkeypatch.setattr(parsing.Translator, "load", load)
    parsing.main(["--model", "x", "--trees", str(path), "--train", str(path), "--beams", beams])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:5]]
    assert [row[2] for row in rows] == ["yes", "no", ""]
    assert rows[0][3] == "100.0%" != rows[1][3]
    assert rows[2][4] == "100.00"


def test_a_free_search_is_read_like_the_one_with_rules():
    tokenizer = parser(beam_size=1).target_tokenizer
    ids = tokenizer.tokenize(["(S (NP (NN a)) (VP (VB b)))"])[0].numpy()
    assert str(parsing._read(tokenizer, ids, ["a", "b"])) == "(S (NP (XX a)) (VP (XX b)))"
    assert parsing._read(tokenizer, ids[:-1], ["a", "b"]) is None
    assert parsing._read(tokenizer, ids, ["a", "b", "c"]) is None
    assert parse_tree("(S (XX a))") == parsing._read(tokenizer, [*ids[:1], ids[2], ids[-1]], ["a"])
