import gzip
import io
import shutil
import sys

import pytest
from tests.helpers.tiny import run_python, toy_sentences

from pipelines import translate

SENTENCES = ["one two three 😀", "", *toy_sentences(5), "red"]


def lines(capsys):
    return capsys.readouterr().out.split("\n")[:-1]


def test_arguments_are_translated_in_order(model, translator, capsys):
    translate.main(["--model", model, *SENTENCES])
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == translator(SENTENCES)
    assert err == ""


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_is_translated_line_by_line(compress, training, translator, tmp_path, capsys):
    text = "".join(f"{sentence}\r\n" for sentence in SENTENCES)
    (tmp_path / "input").write_bytes(compress(text.encode()))
    translate.main(["--model", training, "--input", str(tmp_path / "input"), "--batch-size", "3"])
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == translator(SENTENCES)
    assert f"{len(SENTENCES)}/{len(SENTENCES)}" in err  # The progress bar of more than a batch.


def test_standard_input_is_translated(training, translator, capsys, monkeypatch):
    text = "\n".join(SENTENCES).encode() + b"\nno \xff text\r\nred\x0bblue"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    translate.main(["--model", training])
    assert lines(capsys) == translator([*SENTENCES, "no \ufffd text", "red\x0bblue"])


def test_a_byte_order_mark_is_no_text(capsys, monkeypatch):
    text = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfred\nblue"), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", text)
    monkeypatch.setattr(translate, "load_model", lambda args: lambda texts, _: texts)
    translate.main(["--model", "any"])
    assert lines(capsys) == ["red", "blue"]


def test_a_training_can_be_searched_otherwise(training, translator, capsys):
    translate.main(["--model", training, "--beam-size", "1", "--length-penalty", "0", *SENTENCES])
    greedy = lines(capsys)
    assert len(greedy) == len(SENTENCES)
    assert greedy != translator(SENTENCES)


def test_an_export_inside_a_trainings_directory_is_not_taken_for_it(
    training, translator, capsys, tmp_path
):
    directory = shutil.copytree(training, tmp_path / "run")
    (directory / "1").mkdir()
    (directory / "1" / "saved_model.pb").touch()  # Of an earlier state, or of another search.
    translate.main(["--model", str(directory), *SENTENCES])
    assert lines(capsys) == translator(SENTENCES)


def test_a_translation_stays_on_its_line(training, capsys, monkeypatch):
    monkeypatch.setattr(translate, "load_model", lambda args: lambda texts, _: ["a\nb", "c"])
    translate.main(["--model", training, "one", "two"])
    assert lines(capsys) == ["a b", "c"]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--beam-size", "2"], "a SavedModel is fixed: leave out --beam-size, or give"),
        (["--beam-size", "2", "--length-penalty", "1"], "--beam-size and --length-penalty, or"),
        (["--batch-size", "0"], "batch_size must be at least 1, received 0"),
        (["--input", "none", "--batch-size", "2"], "none must be a text file"),
    ],
)
def test_what_cannot_be_done_is_told(options, message, saved_model):
    sentences = [] if "--input" in options else ["one"]
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        translate.main(["--model", saved_model, *options, *sentences])


def test_a_beam_of_0_is_refused(training):
    with pytest.raises(SystemExit, match="error: beam_size: .* greater than 0, received '0'"):
        translate.main(["--model", training, "--beam-size", "0", "one"])


def test_the_model_must_exist(tmp_path):
    with pytest.raises(SystemExit, match="error: There is no directory none. Give that of a train"):
        translate.main(["--model", "none", "one"])
    with pytest.raises(SystemExit, match="error: .*config.yaml does not exist"):
        translate.main(["--model", str(tmp_path), "one"])


def test_sentences_and_a_file_are_not_both_translated(capsys):
    with pytest.raises(SystemExit):
        translate.main(["--model", "x", "--input", "y", "one"])
    assert "give sentences or --input, not both" in capsys.readouterr().err


def test_a_process_prints_translations_and_nothing_else(saved_model, translator):
    arguments = ["-m", "pipelines.translate", "--model", saved_model]
    process = run_python(*arguments, input="\n".join(SENTENCES), encoding="utf-8")
    assert process.stdout.split("\n")[:-1] == translator(SENTENCES)
    assert process.stderr == ""
