"""Which weights a run ends with."""

import functools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.training import choose
from keras_transformer.training.checkpoints import run_checkpoints
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.machines import Machines
from tests.helpers.tiny import tiny_tokenizer, toy_experiment

SCORES = [(9.0, 3.0, 20.0), (3.0, 2.0, 21.0), (7.0, 2.5, 22.0)]
"""BLEU, NLL and chrF of epochs 1 to 3. The weights of each are 1, 2 and 4, and its moving average
100 times its number."""


def experiment(average):
    data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    return toy_experiment(data, average=average)  # Two are averaged.


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that returns the directory of a run, for each average made once."""

    @functools.cache
    def trained(average):
        directory, config = tmp_path_factory.mktemp(average), experiment(average)
        model = Transformer(config.model)
        model.compile("sgd")
        for epoch, scores in enumerate(SCORES, start=1):
            model.set_weights([np.full(w.shape, 2 ** (epoch - 1)) for w in model.get_weights()])
            arrays = {
                f"average-{number}": np.full(w.shape, 100 * epoch, "float32")
                for number, w in enumerate(model.trainable_weights)
            }
            named = dict(zip(("bleu", "nll", "chrf"), scores, strict=True))
            run_checkpoints(directory, config.training).save_epoch(model, epoch, named, arrays)
        return directory

    return trained


@pytest.fixture
def chosen(tmp_path, monkeypatch, trained):
    """Return a function that trains with an average, and returns the candidates and chosen.json.

    The BLEU of the final weights is what `bleu` returns for their value.
    """
    rows = (f"{n},{bleu},{nll}\n" for n, (bleu, nll, _) in enumerate(SCORES, start=1))
    (tmp_path / "epochs.csv").write_text(f"epoch,val_bleu,val_nll\n{''.join(rows)}")

    def chosen(
        average,
        damage=None,
        bleu=lambda value: -value,
        nll=lambda value: 1.0,
        translation="eins",
        **how,
    ):
        config = experiment(average)
        shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
        shutil.copytree(trained(average) / "checkpoints", tmp_path / "checkpoints")
        checkpoints = run_checkpoints(tmp_path, config.training)
        if damage:
            damage(tmp_path / "checkpoints")

        seen = []

        def measure(self):
            seen.append(float(self.translator.model.get_weights()[0].flat[0]))
            self.translations = [translation if bleu(seen[-1]) == -1.0 else "eins"]
            return {"val_nll": nll(seen[-1]), "val_bleu": bleu(seen[-1]), "val_chrf": 2.0}

        monkeypatch.setattr(choose.Validation, "measure", measure)
        checked = SimpleNamespace(
            directory=tmp_path, checkpoints=checkpoints, machines=Machines(strategy=None)
        )
        tokenizers = (tiny_tokenizer(), tiny_tokenizer())
        text = SimpleNamespace(tokenizers=tokenizers, validation_pairs=[("one", "eins")], inputs={})
        choose.choose_weights(config, checked, text, **how)
        return seen, json.loads((tmp_path / "chosen.json").read_text())

    return chosen


@pytest.mark.parametrize(
    ("average", "name", "value", "files"),
    [
        ("last", "last 2", 3.0, ["epoch-0002.weights.h5", "epoch-0003.weights.h5"]),
        (
            "best",
            "best 2",
            2.5,
            ["best-0001-bleu-9.0000.weights.h5", "best-0003-bleu-7.0000.weights.h5"],
        ),
        ("ema", "ema", 300.0, ["epoch-0003.weights.h5"]),
    ],
)
def test_an_average_competes_with_the_last_epoch_and_the_best_ones(
    chosen, average, name, value, files, caplog
):
    caplog.set_level("INFO", logger="keras_transformer")
    seen, report = chosen(average, bleu=lambda weight: 40.0 if weight == value else weight)
    # The last, the best by BLEU and by NLL; the best by chrF is the last.
    assert seen == [4.0, 1.0, 2.0, value]
    bleus = {"last": 4.0, "best bleu": 1.0, "best nll": 2.0, "best chrf": 4.0, name: 40.0}
    assert report == {
        "chosen": name,
        "epochs": 3,
        "trained_epochs": 3,
        "checkpoints": files,
        "validation_nll": dict.fromkeys(bleus, 1.0),
        "validation_bleu": bleus,
        "validation_chrf": dict.fromkeys(bleus, 2.0),
    }
    table = [message.split() for message in caplog.messages if message.startswith("  ")]
    assert table[0] == ["candidate", "NLL", "BLEU", "chrF", "checkpoints"]
    assert table[2] == ["best", "bleu", "1.000", "1.000", "2.000", "epoch", "1"]
    assert len(table) == 6


@pytest.mark.parametrize(("best", "name"), [(1.0, "best bleu"), (2.0, "best nll"), (4.0, "last")])
@pytest.mark.parametrize("average", ["last", "best", "ema"])
def test_where_the_average_loses_the_best_single_epoch_is_chosen(chosen, average, best, name):
    _, report = chosen(average, bleu=lambda weight: 30.0 if weight == best else 29.0)
    assert report["chosen"] == name
    assert report["validation_bleu"][name] == max(report["validation_bleu"].values()) == 30.0


def test_of_equal_scores_the_likelier_weights_win(chosen):
    _, report = chosen("last", bleu=lambda weight: 0.0, nll=lambda weight: abs(weight - 2))
    assert report["chosen"] == "best nll"


@pytest.mark.parametrize(("translation", "share"), [("eins", None), ("eins zwei", "200%")])
def test_a_wrong_length_of_the_best_translations_is_reported(chosen, translation, share, caplog):
    chosen("last", translation=translation)
    found = [message for message in caplog.messages if "words of the references" in message]
    assert [message.split()[3] for message in found] == ([share] if share else [])


@pytest.mark.parametrize(
    ("kept", "counts"), [(1, []), (2, [2]), (4, [3, 4]), (5, [3, 5]), (12, [3, 5, 10, 12])]
)
def test_averages_of_3_5_and_10_epochs_are_tried_as_far_as_they_are_kept(kept, counts):
    last = [f"epoch-{number}" for number in range(kept)]
    tried = choose.averages_of("last", [], last)
    assert tried == {f"last {count}": last[-count:] for count in counts}


@pytest.mark.parametrize(
    ("average", "name", "rest"),
    [
        ("last", "epoch-0002.weights.h5", [4.0, 1.0, 2.0]),
        ("last", "best-0001-bleu-9.0000.weights.h5", [4.0, 2.0, 3.0]),
        ("best", "best-0001-bleu-9.0000.weights.h5", [4.0, 2.0]),
        ("ema", "best-0001-bleu-9.0000.weights.h5", [4.0, 2.0, 300.0]),
    ],
)
def test_a_checkpoint_that_is_missing_or_damaged_is_named(chosen, average, name, rest, caplog):
    def cut(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[1:])

    def remove(folder):
        (folder / name).unlink()

    remedy = "give --choose-again to choose from the checkpoints that are there"
    with pytest.raises(ValueError, match=f"{name} .its checksum differs.*remove them and {remedy}"):
        chosen(average, cut)
    shown = name.replace("bleu-9.0000", "[*]")
    with pytest.raises(FileNotFoundError, match=f"{shown}, which do not exist. .* or {remedy}"):
        chosen(average, remove)
    for how in ("choose_again", "finish"):
        seen, _ = chosen(average, remove, **{how: True})
        assert seen == rest
    assert caplog.text.count("the weights are chosen without") == 2


def test_checkpoints_that_are_not_needed_may_be_missing(chosen):
    seen, _ = chosen("ema", lambda folder: (folder / "epoch-0002.weights.h5").unlink())
    assert seen == [4.0, 1.0, 2.0, 300.0]


@pytest.mark.parametrize(("nll", "is_warned"), [(2.47, True), (2.48, False), (2.6, False)])
def test_a_run_that_has_not_converged_is_told_to_train_on(tmp_path, nll, is_warned, caplog):
    (tmp_path / "epochs.csv").write_text(f"epoch,val_nll\n1,9\n2,2.5\n3,{nll}\n")
    choose.warn_unless_converged(read_history(tmp_path))
    message = "not converged: in the last epoch, val_nll still fell by 1.2%; train on with more "
    assert caplog.messages == [f"{message}training.epochs"] * is_warned
