import json

import pytest
from tiny import toy_pairs

from keras_transformer.evaluation import score
from pipelines import evaluate

PAIRS = toy_pairs(30, seed=9)


@pytest.fixture
def text(tmp_path):
    """Options that name the text."""
    for side, name in enumerate(("source", "target")):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    return ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]


def test_scores_are_printed_and_written(model, translator, text, tmp_path, capsys):
    translations = translator([source for source, _ in PAIRS])
    expected = score(translations, [target for _, target in PAIRS])
    files = ["--json", str(tmp_path / "s.json"), "--translations", str(tmp_path / "out.txt")]
    evaluate.main(["--model", model, *text, *files])
    assert capsys.readouterr().out == f"{expected}\n"
    written = json.loads((tmp_path / "s.json").read_text())
    assert written == expected.to_dict()
    assert {"bleu", "chrf", "signature"} <= written.keys()
    assert written["bleu"] > 0
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [*translations, ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.txt",
        "s.json",
        "source",
        "target",
    ]


def test_tab_separated_text_is_scored(training, text, tmp_path, capsys):
    evaluate.main(["--model", training, *text])
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    expected = capsys.readouterr().out
    evaluate.main(["--model", training, "--source", str(tmp_path / "pairs.tsv")])
    assert capsys.readouterr().out == expected


def test_texts_of_different_length_are_refused(training, text):
    with open(text[1], "a") as file:
        file.write("one more\n")
    with pytest.raises(SystemExit, match="error: parallel files .* received 31 in .* and 30 in"):
        evaluate.main(["--model", training, *text])


def test_a_saved_models_search_cannot_be_changed(saved_model, text):
    with pytest.raises(SystemExit, match="error: .*a SavedModel is fixed: leave out --beam-size"):
        evaluate.main(["--model", saved_model, "--beam-size", "1", *text])
