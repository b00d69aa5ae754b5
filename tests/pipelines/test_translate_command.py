import gzip
import io
import os
import re
import shutil
import sys

import numpy as np
import pytest

from keras_transformer.config import DecodingConfig
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.translation import Translator
from pipelines import translate
from tests.helpers.tiny import languages_tokenizer, run_python, tiny_model, toy_sentences

pytestmark = pytest.mark.slow  # They train a model and export it.

SENTENCES = ["one two three 😀", "", *toy_sentences(5), "red"]


def lines(capsys):
    return capsys.readouterr().out.split("\n")[:-1]


def test_arguments_are_translated_in_order(model, translator, capsys):
    translate.main(["--model", model, *SENTENCES])
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == translator(SENTENCES)
    assert err == ""


def test_the_end_of_a_long_line_is_reported(model, run, saved_model, capsys):
    long = "red dog " * 50 + "sleeps here"
    for path in (model, run, saved_model):
        translate.main(["--model", path, "--max-source-length", "30", "red", long, "one"])
        _, err = capsys.readouterr()
        [warning] = err.splitlines()
        assert warning.startswith("warning: line 2 has ")
        assert " tokens, of which the first 30 are read (max_source_length). Left out: " in warning
        assert re.search(r"Left out: .{80} \.\.\.$", warning)
    translate.main(["--model", model, "--max-source-length", "400", "red", long, "one"])
    assert capsys.readouterr().err == ""


def test_spans_and_terms_are_in_the_translation(model, tmp_path, capsys):
    (tmp_path / "terms").write_text("dog*\tDackel\n\nred\tdunkel rot\n", encoding="utf-8")
    options = ["--model", model, "--terms", str(tmp_path / "terms"), "--protect", "printf html"]
    translate.main([*options, "red %s dogs <b>one</b> %1$d", "two"])
    first, _ = lines(capsys)
    assert all(first.count(x) == 1 for x in ("%s", "<b>", "</b>", "%1$d", "Dackel", "dunkel rot"))
    (tmp_path / "terms").write_text("dog\tHund\ndog\tDackel\ncat\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        translate.main([*options, "two"])
    assert "line 2, 'dog\\tDackel', line 3, 'cat'" in capsys.readouterr().err


def test_lines_name_their_languages(tmp_path, capsys):
    tokenizer = languages_tokenizer()
    search = DecodingConfig(extra_length=4)
    translator = Translator(tiny_model(tokenizer.vocab_size), tokenizer, decoding=search)
    translator.save(tmp_path / "model")
    texts = toy_sentences(9)
    targets = ["German", "zho_Hans", "eng_Latn"] * 3
    rows = [f"eng_Latn \t{target}\t{text}\n" for text, target in zip(texts, targets, strict=True)]
    (tmp_path / "rows").write_text("".join(rows), encoding="utf-8")
    options = ["--model", str(tmp_path / "model"), "--columns", "--input"]
    translate.main([*options, str(tmp_path / "rows"), "--batch-size", "2"])
    found = lines(capsys)
    assert found == translator(texts, source_language="eng_Latn", target_language=targets)
    assert found != translator(texts, source_language="eng_Latn", target_language="deu_Latn")
    (tmp_path / "rows").write_text("eng_Latn\tdeu_Latn\ta\nde b\neng_Latn\tde\n")
    with pytest.raises(SystemExit):
        translate.main([*options, str(tmp_path / "rows")])
    assert "tabs; received 'de b' (line 2), 'eng_Latn\\tde' (line 3)." in capsys.readouterr().err


def test_a_document_keeps_its_structure(model, translator, tmp_path, capsys):
    path, output = tmp_path / "page.md", tmp_path / "page.de.md"
    path.write_text("# One two\n\n* Red `dog`. <b>Sun</b>.\n", encoding="utf-8")
    options = ["--model", model, "--document", str(path), "--output", str(output)]
    translate.main([*options, "--protect", "numbers"])
    assert capsys.readouterr() == ("", "")
    heading, empty, item = output.read_text("utf-8").splitlines()
    assert (heading, empty) == (f"# {translator('One two')}", "")
    assert item.startswith("* ")
    assert all(item.count(span) == 1 for span in ("`dog`", "<b>", "</b>"))
    with pytest.raises(SystemExit):
        translate.main(options)
    assert f"{output} exists. Choose another name, or give --force" in capsys.readouterr().err
    reader, writer = os.pipe()
    translate.main([*options[:-1], f"/dev/fd/{writer}", "--protect", "numbers"])
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        assert pipe.read() == output.read_text("utf-8")
    path.with_suffix(".txt").write_text("One two. Red.\n", encoding="utf-8")
    translate.main(["--model", model, "--document", str(path.with_suffix(".txt"))])
    one, two = translator(["One two.", "Red."])
    assert capsys.readouterr().out == f"{one} {two}\n"


def test_a_text_is_written_part_by_part(tmp_path, capsys, monkeypatch):
    model = train_sentencepiece(toy_sentences(50), 300, language_tags=[">>de<<"])
    tokenizer = SentencePieceTokenizer(model)
    search = DecodingConfig(beam_size=1, extra_length=4, max_source_length=24)
    translator = Translator(tiny_model(tokenizer.vocab_size), tokenizer, decoding=search)
    translator.save(tmp_path / "model")
    path, output = tmp_path / "text.txt", tmp_path / "new.txt"
    text = ">>de<< " + "\r\n\n".join([*toy_sentences(260), "one. Two"])
    path.write_text(f"\ufeff{text}", encoding="utf-8", newline="")
    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 2000)
    options = ["--model", str(tmp_path / "model"), "--document", str(path)]
    translate.main([*options, "--output", str(output)])
    out, err = capsys.readouterr()
    assert output.read_bytes().decode() == "\ufeff" + translator.document(text)
    assert out == "" and err.strip().endswith("]") and "100%" in err
    assert err.count(" 0 sentences") == 1  # One bar for all parts.
    assert int(re.findall("([0-9]+) sentences", err)[-1]) > 260
    translate.main(options)
    assert capsys.readouterr().out.encode() == output.read_bytes()

    def fail(self, texts, **options):
        raise ValueError("no memory")

    monkeypatch.setattr(Translator, "documents", fail)
    with pytest.raises(SystemExit):
        translate.main([*options, "--output", str(tmp_path / "none.txt")])
    assert "error: no memory" in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} == {"model", "text.txt", "new.txt"}


def test_a_message_that_fails_is_named(model, tmp_path, capsys, monkeypatch):
    def documents(self, texts, **options):
        if "two" in texts:
            raise ValueError("no such number")
        return texts

    monkeypatch.setattr(Translator, "documents", documents)
    path = tmp_path / "de.po"
    path.write_text('msgid "one"\nmsgstr ""\n\nmsgid "two"\nmsgstr ""\n', encoding="utf-8")
    with pytest.raises(SystemExit) as error:
        translate.main(["--model", model, "--document", str(path)])
    out, err = capsys.readouterr()
    assert error.value.code == 1
    assert err == "warning: not translated: 'two': no such number\n"
    assert 'msgid "one"\nmsgstr "one"\n\nmsgid "two"\nmsgstr ""\n' in out


def test_a_file_is_translated_line_by_line(run, translator, tmp_path, capsys):
    text = "".join(f"{sentence}\r\n" for sentence in SENTENCES)
    (tmp_path / "input").write_bytes(gzip.compress(text.encode()))
    translate.main(["--model", run, "--input", str(tmp_path / "input"), "--batch-size", "3"])
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == translator(SENTENCES)
    assert f"{len(SENTENCES)}/{len(SENTENCES)}" in err  # The progress bar of more than a batch.


def test_standard_input_is_translated(run, translator, capsys, monkeypatch):
    text = "\ufeff".encode() + "\n".join(SENTENCES).encode() + b"\nno \xff text\r\nred\x0bblue"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    translate.main(["--model", run])
    assert lines(capsys) == translator([*SENTENCES, "no \ufffd text", "red\x0bblue"])


def test_a_model_can_be_searched_otherwise(model, translator, capsys):
    translate.main(["--model", model, "--beam-size", "1", "--length-penalty", "0", *SENTENCES])
    greedy = lines(capsys)
    assert len(greedy) == len(SENTENCES)
    assert greedy != translator(SENTENCES)


def test_a_run_takes_precedence_over_an_export_in_its_directory(run, translator, capsys, tmp_path):
    directory = shutil.copytree(run, tmp_path / "run")
    (directory / "1").mkdir()
    (directory / "1" / "saved_model.pb").touch()  # Of an earlier model, or with other options.
    translate.main(["--model", str(directory), *SENTENCES])
    assert lines(capsys) == translator(SENTENCES)


def test_a_translation_stays_on_its_line(capsys, monkeypatch):
    monkeypatch.setattr("pipelines.cli.models.load_model", lambda *_: lambda *_: ["a\nb", "c"])
    translate.main(["--model", "any", "one", "two"])
    assert lines(capsys) == ["a b", "c"]


@pytest.mark.parametrize(
    "options, message",
    [
        ("{saved_model} --batch-size 0 one", "batch_size must be at least 1, received 0"),
        ("{saved_model} --input none --batch-size 2", "none must be a text file"),
        ("{saved_model} --num-hypotheses 3 one", "num_hypotheses must be at most beam_size, .* 3 "),
        ("{run} --beam-size 0 one", "beam_size must be greater than 0, received '0'"),
        ("{run} --alignments {tmp_path}/a one", "at least 100 pairs of text, received 1"),
        (
            "{run} --alignments {tmp_path}/a --alignment-head 1.9.input one",
            "must be a layer, a head and a step .*, received '1.9.input'",
        ),
        (
            "{run} --alignments {tmp_path}/a --alignment-head 1.1.input --target /dev/null one",
            "received 1 sources and 0 translations",
        ),
        ("{run} --alignments a --num-hypotheses 2 one", "--alignments or --num-hypotheses, not"),
        ("{run} --target a one", "--target needs --alignments"),
        ("none one", "There is no directory none. Give the directory of"),
        ("{tmp_path} one", "/config.yaml does not exist. Give the dir"),
    ],
)
def test_what_cannot_be_done_is_an_error(options, message, saved_model, run, tmp_path, capsys):
    options = options.format(saved_model=saved_model, run=run, tmp_path=tmp_path)
    with pytest.raises(SystemExit):
        translate.main(["--model", *options.split()])
    out, err = capsys.readouterr()
    assert re.search(f"error: .*{message}", err)
    assert out == ""
    assert not any(tmp_path.iterdir())


def test_alignments_are_written_next_to_the_translations(model, translator, tmp_path, capsys):
    sentences = [*toy_sentences(110), ""]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    options = ["--model", model, "--input", str(tmp_path / "text")]
    translate.main([*options, "--alignments", str(tmp_path / "links")])
    out, err = capsys.readouterr()
    translations = translator(sentences)
    assert out.split("\n")[:-1] == translations
    head = re.search(r"give --alignment-head (\S+)$", err.strip())[1]
    found = translator.align(sentences, translations)
    assert head == found.head
    links = (tmp_path / "links").read_text().split("\n")
    assert links == [*(" ".join(f"{i}-{j}" for i, j in row) for row in found.links), ""]

    (tmp_path / "target").write_bytes("\r\n".join([*translations, ""]).encode())
    options += ["--target", str(tmp_path / "target"), "--alignment-head", head]
    translate.main([*options, "--alignments", str(tmp_path / "same")])
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "same").read_text().split("\n") == links


def test_n_best_translations_have_rank_and_score(run, translator, capsys):
    options = ["--beam-size", "3", "--num-hypotheses", "2", "--batch-size", "3"]
    translate.main(["--model", run, *options, *SENTENCES])
    rows = [line.split("\t") for line in lines(capsys)]
    assert [rank for rank, _, _ in rows] == ["1", "2"] * len(SENTENCES)
    search = DecodingConfig(beam_size=3, length_penalty=1.0, num_hypotheses=2)
    same = Translator(translator.model, translator.tokenizer, decoding=search)
    found = same.n_best(SENTENCES)
    expected = [text.decode() for text in found["translations"].numpy().ravel()]
    assert [text for _, _, text in rows] == expected
    scores = [float(score) for _, score, _ in rows]
    np.testing.assert_allclose(scores, found["scores"].numpy().ravel(), atol=1e-3)


def test_an_exported_model_can_be_searched_like_its_run(saved_model, run, capsys):
    for model in (saved_model, run):
        translate.main(["--model", model, "--num-hypotheses", "2", "red dog"])
    first, second, *same = lines(capsys)
    assert [first.split("\t")[0], second.split("\t")[0]] == ["1", "2"]
    assert [line.split("\t")[2] for line in (first, second)] == [x.split("\t")[2] for x in same]


def test_at_a_terminal_it_says_what_it_waits_for(capsys, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"red")))
    monkeypatch.setattr("pipelines.cli.models.load_model", lambda *_: lambda texts, _: texts)
    translate.main(["--model", "any"])
    out, err = capsys.readouterr()
    assert out == "red\n"
    assert err == "Type one sentence per line, then Ctrl-D on a new line.\n"


def test_a_process_prints_translations_and_nothing_else(saved_model, translator):
    arguments = ["-m", "pipelines.translate", "--model", saved_model]
    process = run_python(*arguments, input="\n".join(SENTENCES), encoding="utf-8")
    assert process.stdout.split("\n")[:-1] == translator(SENTENCES)
    assert process.stderr == ""
