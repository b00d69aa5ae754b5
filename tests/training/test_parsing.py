"""Training runs whose text is trees."""

import dataclasses
import json

import pytest
import yaml

from keras_transformer.config import ExperimentConfig
from keras_transformer.data import WordDropout, read_trees
from keras_transformer.data.trees import tree_pair
from keras_transformer.evaluation import score_brackets
from keras_transformer.training import train
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.prepare import token_batches
from keras_transformer.translation import Translator
from keras_transformer.trees import parse_tree
from pipelines import evaluate
from tests.helpers.arrays import assert_same_weights
from tests.helpers.experiment import encoded_text
from tests.helpers.parser import write_treebank
from tests.helpers.shared import shared
from tests.helpers.tiny import ROOT

SIZES = {"vocab_size": 300, "num_layers": 1, "d_model": 32, "d_ff": 48, "num_heads": 2}
TRAINING = {
    "epochs": 10,
    "steps_per_epoch": 39,  # Three passes, because a validation takes longer than a step.
    "batch_tokens": 150,
    "warmup_steps": 60,
    "learning_rate_scale": 0.25,
    "average_checkpoints": 2,
}
DECODING = {"beam_size": 2, "length_factor": 4.0, "extra_length": 10, "length_penalty": 0.0}


def experiment(data, **changes):
    model = {**SIZES, "target_vocab_size": 160, "share_embeddings": "target"}
    values = {"model": model, "data": data, "training": TRAINING, "decoding": DECODING}
    return ExperimentConfig.from_dict({**values, **changes})


@pytest.fixture(
    scope="module",
    params=[("none", "word"), ("source", "word"), ("target", "bpe")],
    ids=lambda param: "-".join(param),
)
def run(request):
    """A parser of a toy treebank, and the trees that it has not seen."""
    word_tags, subwords = request.param

    def make(folder):
        treebank = write_treebank(folder / "wsj")
        with (treebank / "03" / "wsj_0301.mrg").open("a", encoding="utf-8") as file:
            file.write("(S (NP (NN nebula)) (VP (VBZ rises) (NP (NN nebula))))\n")
        data = {
            "task": "parsing",
            "word_tags": word_tags,
            "subwords": subwords,
            "subword_dropout": 0.2 if subwords == "word" else 0.0,
            "vocabulary_corpora": 1,
            "train_source": [str(treebank / "02"), str(treebank / "03")],
            "validation_source": str(treebank / "22"),
        }
        train(experiment(data), folder / "run")

    folder = shared(f"parser_{word_tags}_{subwords}", make)
    return folder / "run", folder / "wsj" / "22"


@pytest.mark.slow
def test_a_parser_learns_a_small_grammar(run):
    directory, unseen = run
    references = read_trees(unseen)
    translator = Translator.load(directory)
    tagged = translator.target_tokenizer.word_tags == "source"
    parses = translator([tree_pair(tree, tagged=tagged)[0] for tree in references])
    scores = score_brackets([parse_tree(parse) for parse in parses], references)
    assert scores.f1 > 90
    assert scores.errors == 0
    history = read_history(directory)
    assert max(history["val_f1"]) > 90 > history["val_f1"][0]
    report = json.loads((directory / "chosen.json").read_text())
    assert report["validation_f1"][report["chosen"]] == pytest.approx(scores.f1)
    if translator.target_tokenizer.word_tags != "none":
        predicted = [tag for parse in parses for tag in parse_tree(parse).tags]
        tags = [tag for tree in references for tag in tree.tags]
        assert sum(map(str.__eq__, predicted, tags)) > 0.9 * len(tags)


@pytest.mark.slow
def test_a_vocabulary_has_words_of_the_first_corpora(run):
    directory, _ = run
    content = (directory / "source.model").read_bytes()
    assert b"nebula" not in content
    if content.startswith(b"{"):  # Few of the merges of subwords are whole words.
        assert b"moon" in content


@pytest.mark.slow
def test_evaluate_scores_trees(run, capsys, tmp_path):
    directory, unseen = run
    options = ["--json", str(tmp_path / "f1.json"), "--translations", str(tmp_path / "found.mrg")]
    evaluate.main(["--model", str(directory), "--trees", str(unseen), *options])
    report = json.loads((directory / "chosen.json").read_text())
    found = json.loads((tmp_path / "f1.json").read_text())
    assert found["f1"] == pytest.approx(report["validation_f1"][report["chosen"]])
    assert f"F1 {found['f1']:.2f}" in capsys.readouterr().out
    parsed = read_trees(tmp_path / "found.mrg")
    assert [tree.words for tree in parsed] == [tree.words for tree in read_trees(unseen)]


def short_run(folder, **training):
    """An experiment of word dropout on a small treebank."""
    if not (folder / "wsj").exists():
        write_treebank(folder / "wsj")
    data = {
        "task": "parsing",
        "word_tags": "source",
        "subwords": "word",
        "subword_dropout": 5.0 / 6,
        "train_source": str(folder / "wsj" / "02"),
        "validation_source": str(folder / "wsj" / "22"),
    }
    recipe = {
        "epochs": 2,
        "batch_tokens": 150,
        "average_checkpoints": 1,
        "warmup_steps": 3,
        **training,
    }
    return experiment(data, training=recipe)


def test_word_dropout_varies_the_batches_of_words(tmp_path):
    config = short_run(tmp_path)
    encoded = encoded_text(config, tmp_path / "run")
    batches = token_batches(config, *encoded)
    assert isinstance(batches.vary, WordDropout)
    off = dataclasses.replace(config, data=dataclasses.replace(config.data, subword_dropout=0.0))
    plain = token_batches(off, *encoded)
    assert plain.vary is None
    assert len(batches) == len(plain)


@pytest.mark.slow
def test_a_parser_starts_from_another(tmp_path, without_scores):
    first = train(short_run(tmp_path, epochs=1), tmp_path / "first")
    stands_still = {"epochs": 1, "learning_rate_scale": 1e-12}
    config = short_run(tmp_path, init_from=str(tmp_path / "first"), **stands_still)
    second = train(config, tmp_path / "second")
    assert_same_weights(second.model, first.model, atol=1e-6)
    for name in ("source.model", "target.model"):
        files = [tmp_path / run / name for run in ("first", "second")]
        assert files[0].read_bytes() == files[1].read_bytes()
    other = dataclasses.replace(config, data=dataclasses.replace(config.data, word_tags="target"))
    with pytest.raises(ValueError, match="data.word_tags='target' instead of 'source', of .*first"):
        train(other, tmp_path / "third")


@pytest.mark.parametrize("name", ["parsing_wsj", "parsing_semi_supervised"])
def test_the_papers_parsers_read_the_treebank_as_it_is_laid_out(name, tmp_path):
    values = yaml.safe_load((ROOT / "pipelines" / "configs" / f"{name}.yaml").read_text())
    sections = values["data"]["train_source"]
    if name == "parsing_wsj":
        assert sections == [f"data/wsj/{number:02}" for number in range(2, 22)]
    assert values["data"]["validation_source"] == "data/wsj/22"
    assert values["preset"] == name


def test_a_joint_vocabulary_is_refused():
    data = {"task": "parsing", "train_source": "a.mrg", "validation_source": "b.mrg"}
    with pytest.raises(ValueError, match="have separate vocabularies, received no model.target"):
        experiment(data, model=SIZES)
