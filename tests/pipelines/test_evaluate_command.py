import json
import re
import sys
from pathlib import Path

import pytest

from keras_transformer.evaluation import failed_checks, length_problem, score
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.translation.translator import Translator
from pipelines import evaluate
from tests.helpers.tiny import tiny_model, toy_pairs
from tests.helpers.toy_tfds import register_pairs

pytestmark = pytest.mark.slow  # They train a model and export it.

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
    captured = capsys.readouterr()
    assert captured.out == f"{expected}\n"
    problem = length_problem(translations, [target for _, target in PAIRS])
    assert ("words of the references" in captured.err) == (problem is not None)
    written = json.loads((tmp_path / "s.json").read_text())
    assert written == expected.to_dict()
    assert {"bleu", "chrf", "signature"} <= written.keys()
    assert written["bleu"] > 0
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [*translations, ""]
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "s.json", "source", "target"}


def test_translations_that_are_too_short_are_reported(model, text, capsys):
    Path(text[-1]).write_text("".join(f"{3 * target}\n" for _, target in PAIRS), encoding="utf-8")
    evaluate.main(["--model", model, *text])
    assert "words of the references; a higher length penalty" in capsys.readouterr().err


def test_tab_separated_text_is_scored(run, text, tmp_path, capsys):
    evaluate.main(["--model", run, *text])
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    expected = capsys.readouterr().out
    evaluate.main(["--model", run, "--source", str(tmp_path / "pairs.tsv")])
    assert capsys.readouterr().out == expected


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A saved translator, which is not trained, whose vocabulary has the tag >>de<<."""
    lines = [source for source, _ in PAIRS]
    tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, 290, language_tags=[">>de<<"]))
    path = tmp_path_factory.mktemp("tagged") / "model"
    Translator(tiny_model(tokenizer.vocab_size), tokenizer).save(path)
    return str(path)


def test_a_tag_that_the_model_lacks_is_refused(tagged, model, text):
    options = [*text, "--target-language", "fr", "--add-tag"]
    with pytest.raises(SystemExit, match="received >>fr<<. .* has >>de<<. Choose among them"):
        evaluate.main(["--model", tagged, *options])
    with pytest.raises(SystemExit, match="received >>fr<<. .* has no tags"):
        evaluate.main(["--model", model, *options])


def test_the_end_of_a_long_source_is_reported(model, text, capsys):
    evaluate.main(["--model", model, *text, "--max-source-length", "4"])
    warnings = [line for line in capsys.readouterr().err.splitlines() if "Left out" in line]
    numbers = [int(re.match(r"warning: line (\d+) has ", line)[1]) for line in warnings]
    long = [i for i, (source, _) in enumerate(PAIRS, start=1) if len(source.split()) > 4]
    assert set(long) <= set(numbers) and numbers == sorted(numbers)


def test_a_tag_is_added_to_every_source(tagged, text, capsys, monkeypatch):
    seen = []

    def translate(sentences, progress):
        seen.extend(sentences)
        return [target for _, target in PAIRS]

    monkeypatch.setattr("pipelines.cli.models.load_model", lambda args: translate)
    evaluate.main(["--model", tagged, *text, "--target-language", "de", "--add-tag"])
    assert seen == [f">>de<< {source}" for source, _ in PAIRS]
    evaluate.main(["--model", tagged, *text, "--target-language", "de"])
    assert seen[len(PAIRS) :] == [source for source, _ in PAIRS]
    assert "BLEU" in capsys.readouterr().out


def test_texts_of_different_length_are_refused(run, text):
    with open(text[1], "a") as file:
        file.write("one more\n")
    with pytest.raises(SystemExit, match="error: parallel files .* received 31 in .* and 30 in"):
        evaluate.main(["--model", run, *text])


register_pairs("scored_translate", test=PAIRS, dev=PAIRS[:5])
SET = ["--tfds", "scored_translate", "--source-language", "en", "--target-language", "de"]


@pytest.fixture
def tfds_dir(tmp_path, monkeypatch):
    """Where TFDS keeps its data."""
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))


def test_a_set_of_tfds_has_the_scores_of_the_same_text_in_files(run, text, tfds_dir, capsys):
    evaluate.main(["--model", run, *text])
    expected = capsys.readouterr().out
    evaluate.main(["--model", run, *SET])  # BLEU is the same in any order of the sentences.
    assert capsys.readouterr().out == expected


def test_split_and_direction_of_a_set_are_chosen(run, translator, tfds_dir, capsys):
    evaluate.main(["--model", run, *SET, "--split", "dev"])
    translations = translator([source for source, _ in PAIRS[:5]])
    expected = score(translations, [target for _, target in PAIRS[:5]])
    assert capsys.readouterr().out == f"{expected}\n"
    turned = [*SET[:2], "--source-language", "de", "--target-language", "en", "--split", "dev"]
    evaluate.main(["--model", run, *turned])
    translations = translator([target for _, target in PAIRS[:5]])
    expected = score(translations, [source for source, _ in PAIRS[:5]])
    assert capsys.readouterr().out == f"{expected}\n"


def test_published_scores_follow_those_of_sacrebleu(run, translator, text, tmp_path, capsys):
    options = ["--target-language", "de", "--json", str(tmp_path / "s.json")]
    evaluate.main(["--model", run, *text, *options, "--published", "paper", "multi30k"])
    translations = translator([source for source, _ in PAIRS])
    references = [target for _, target in PAIRS]
    expected = score(translations, references, ["paper", "multi30k"], "de")
    assert capsys.readouterr().out == f"{expected}\n"
    assert json.loads((tmp_path / "s.json").read_text()) == expected.to_dict()


def test_failed_checks_are_counted(run, translator, text, capsys):
    sources = [source for source, _ in PAIRS]
    counts = [
        failed_checks(sources, texts, "de")
        for texts in (translator(sources), [target for _, target in PAIRS])
    ]
    assert failed_checks(["Copied %s files."], ["Dateien kopiert"])["printf"] == 1
    evaluate.main(["--model", run, *text, "--target-language", "de", "--checks"])
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert table[0].split() == ["failed", "check", "translations", "references"]
    assert {name: [int(x) for x in rest] for name, *rest in map(str.split, table[1:])} == {
        name: [count[name] for count in counts] for name in counts[0] | counts[1]
    }
    assert len(table) > 1


def test_a_missing_package_is_reported_before_the_work(run, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    monkeypatch.setattr("pipelines.cli.models.load_model", None)
    options = ["--target-language", "de", "--published", "paper"]
    with pytest.raises(SystemExit, match="error: .* pip install .*published"):
        evaluate.main(["--model", run, *text, *options])
