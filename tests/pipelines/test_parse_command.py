import warnings

import pytest
import tensorflow as tf
from matplotlib import image

from keras_transformer.config import DecodingConfig
from keras_transformer.translation.batching import translate_in_batches
from keras_transformer.trees import Tree, parse_tree
from pipelines import parse
from tests.helpers.parser import parser
from tests.helpers.tiny import export_quickly, tiny_translator


class Parser:
    """A translator that puts each word into a bracket, or whose model is no parser."""

    makes_trees = True

    def __init__(self, **decoding):
        self.decoding = DecodingConfig(**decoding)

    def __call__(self, sentences, batch_size, progress):
        return translate_in_batches(self.translate, sentences, batch_size, progress)

    def translate(self, text):
        return tf.constant([bracketed(sentence.decode()) for sentence in text.numpy()])

    def n_best(self, text):
        trees = [[bracketed(s.decode()), bracketed(s.decode(), "NP")] for s in text.numpy()]
        scores = tf.constant([[-0.5, -2.0]] * len(trees))
        return {"translations": tf.constant(trees), "scores": scores}


def bracketed(sentence, label="S"):
    words = tuple(Tree("XX", word=word) for word in sentence.split())
    return str(Tree(label, words)) if words else ""


SENTENCES = ["We left", "", "The old ( dog ) sleeps .", "Go"]
TREES = [
    "(S (XX We) (XX left))",
    "",
    "(S (XX The) (XX old) (XX -LRB-) (XX dog) (XX -RRB-) (XX sleeps) (XX .))",
    "(S (XX Go))",
]


@pytest.fixture(autouse=True)
def options(monkeypatch):
    """The options of the search that a command gave, in a list."""
    given = []

    def load(path, **options):
        given.append(options)
        return Parser(**options)

    monkeypatch.setattr("keras_transformer.translation.Translator.load", load)
    return given


def run(*arguments):
    parse.main(["--model", "any", *map(str, arguments)])


def lines(capsys):
    return capsys.readouterr().out.split("\n")[:-1]


def test_arguments_are_parsed_in_order(capsys, options):
    run("--beam-size", "3", *SENTENCES)
    assert lines(capsys) == TREES
    assert options == [{"beam_size": "3"}]


def test_a_file_is_parsed_line_by_line(capsys, tmp_path):
    (tmp_path / "input").write_text("\n".join(SENTENCES), encoding="utf-8")
    run("--input", tmp_path / "input", "--batch-size", "3")
    out, err = capsys.readouterr()
    assert out.split("\n")[:-1] == TREES
    assert "4/4" in err  # The progress bar of more than a batch.


def test_the_best_trees_have_rank_and_score(capsys):
    run("--num-hypotheses", "2", "We left")
    best, second = lines(capsys)
    assert best == "1\t-0.5000\t(S (XX We) (XX left))"
    assert second == "2\t-2.0000\t(NP (XX We) (XX left))"


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_tree_of_a_sentence_is_drawn_and_printed(suffix, capsys, tmp_path):
    run("--draw", tmp_path / f"tree{suffix}", "We left")
    assert lines(capsys) == [TREES[0]]
    assert [path.name for path in tmp_path.iterdir()] == [f"tree{suffix}"]


def test_each_of_several_trees_is_a_file_with_the_number_of_its_line(capsys, tmp_path):
    run("--draw", tmp_path / "tree.svg", "--batch-size", "2", *SENTENCES, *["Go"] * 6)
    assert lines(capsys) == TREES + TREES[-1:] * 6
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"tree-{number:02}.svg" for number in (1, *range(3, 11))}
    assert ">sleeps<" in (tmp_path / "tree-03.svg").read_text(encoding="utf-8")


def test_other_warnings_of_a_figure_are_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "keras_transformer.plots.save_figure", lambda *_: warnings.warn("odd", stacklevel=2)
    )
    with pytest.warns(UserWarning, match="odd"):
        run("--draw", tmp_path / "tree.svg", "Go")


def test_a_font_without_the_characters_is_reported_in_a_line(capsys, tmp_path):
    run("--draw", tmp_path / "tree.png", "我们 离开了")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / 'tree.png'} has boxes for characters that")
    assert image.imread(tmp_path / "tree.png").size
    run("--draw", tmp_path / "tree.svg", "我们 离开了")
    assert capsys.readouterr().err == ""


def test_trees_are_drawn_in_the_terminal_instead(capsys):
    run("--draw", "-", *SENTENCES)
    assert lines(capsys) == ["S  We left", "", "S  The old ( dog ) sleeps .", "S  Go"]


def test_a_terminal_shows_tags_and_chains_of_constituents(capsys):
    tree = "(S (S (VP (TO To) (VP (VB see) (NP (NP (XX [red]) (XX :smile:)))))) (VP (VBZ is)))"
    parse.print_tree(parse_tree(tree))
    assert lines(capsys) == [
        "S",
        "├── S ─ VP",
        "│   ├── To/TO",
        "│   └── VP",
        "│       ├── see/VB",
        "│       └── NP ─ NP  [red] :smile:",
        "└── VP  is/VBZ",
    ]


def test_a_terminal_shows_all_words_of_a_deep_tree(capsys):
    parse.print_tree(parse_tree("(S (IN that) " * 60 + "(NN end)" + ")" * 60))
    shown = lines(capsys)
    assert sum("that/IN" in line for line in shown) == 60
    assert shown[-1].endswith("S  that/IN end/NN")


def test_color_is_for_terminals(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    parse.print_tree(parse_tree("(NP (XX dogs))"))
    assert capsys.readouterr().out == "\x1b[1;34mNP\x1b[0m  dogs\n"


def test_a_model_that_is_no_parser_is_an_error(monkeypatch):
    monkeypatch.setattr(Parser, "makes_trees", False)
    message = "error: --model must be a parser, received any, .* Use the command translate."
    with pytest.raises(SystemExit, match=message):
        run("We left")


@pytest.mark.slow
def test_an_exported_parser_runs_as_it_is(capsys, options, tmp_path):
    translator = parser(subwords="word")
    export_quickly(translator, tmp_path / "parser")
    run("--model", tmp_path / "parser", *SENTENCES)
    assert lines(capsys) == translator(SENTENCES)
    assert not options  # The translator is not built anew.


@pytest.mark.slow
def test_an_export_that_is_no_parser_is_an_error(tmp_path):
    export_quickly(tiny_translator(), tmp_path / "translator")
    with pytest.raises(SystemExit, match="must be a parser, .* Use the command translate."):
        run("--model", tmp_path / "translator", "We left")
