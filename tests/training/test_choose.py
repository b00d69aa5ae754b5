"""Which weights a run ends with."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.training import choose
from keras_transformer.training.checkpoints import run_checkpoints
from keras_transformer.training.machines import Machines
from tests.helpers.tiny import toy_experiment

BLEUS = [9.0, 3.0, 7.0]
"""Of epochs 1 to 3. The weights of each are its number, and its moving average 100 times that."""


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Return a function that trains with an average, and returns the candidates and chosen.json."""

    (tmp_path / "epochs.csv").write_text(
        "epoch,val_bleu\n" + "".join(f"{n},{bleu}\n" for n, bleu in enumerate(BLEUS, start=1))
    )

    def chosen(average, damage=None, choose_again=False):
        data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
        config = toy_experiment(data, average=average)
        shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
        model = Transformer(config.model)
        model.compile("sgd")
        checkpoints = run_checkpoints(tmp_path, config.training)  # Two are averaged.
        for epoch, bleu in enumerate(BLEUS, start=1):
            model.set_weights([np.full(w.shape, epoch) for w in model.get_weights()])
            arrays = {
                f"average-{number}": np.full(w.shape, 100 * epoch, "float32")
                for number, w in enumerate(model.trainable_weights)
            }
            checkpoints.save_epoch(model, epoch, bleu, arrays)
        if damage:
            damage(tmp_path / "checkpoints")

        seen = []

        def translator(model, *_):
            def translate(sources):
                seen.append(float(model.get_weights()[0].flat[0]))
                return sources

            return translate

        monkeypatch.setattr(choose, "Translator", translator)
        monkeypatch.setattr(choose, "output_scores", lambda *_: {"val_bleu": -len(seen)})
        checked = SimpleNamespace(
            directory=tmp_path, checkpoints=checkpoints, machines=Machines(strategy=None)
        )
        text = SimpleNamespace(tokenizers=(None, None), validation_pairs=[("a", "b")])
        choose.choose_weights(config, checked, text, choose_again)
        return seen, json.loads((tmp_path / "chosen.json").read_text())

    return chosen


@pytest.mark.parametrize(
    ("average", "value", "files"),
    [
        ("last", 2.5, ["epoch-0002.weights.h5", "epoch-0003.weights.h5"]),
        ("best", 2.0, ["best-0001-bleu-9.0000.weights.h5", "best-0003-bleu-7.0000.weights.h5"]),
        ("ema", 300.0, ["epoch-0003.weights.h5"]),
    ],
)
def test_an_average_competes_with_the_best_epoch(chosen, average, value, files):
    seen, report = chosen(average)
    assert seen == [value, 1.0]  # The average, then the best epoch.
    assert report == {
        "chosen": "average",
        "epochs": 3,
        "checkpoints": files,
        "validation_bleu": {"average": -1, "best": -2},
    }


@pytest.mark.parametrize(
    ("average", "name", "rest"),
    [
        ("last", "epoch-0002.weights.h5", [3.0, 1.0]),
        ("last", "best-0001-bleu-9.0000.weights.h5", [2.5]),
        ("best", "best-0001-bleu-9.0000.weights.h5", [3.0, 3.0]),
        ("ema", "best-0001-bleu-9.0000.weights.h5", [300.0]),
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
    seen, _ = chosen(average, remove, choose_again=True)
    assert seen == rest
    assert "the weights are chosen without" in caplog.text


def test_checkpoints_that_are_not_needed_may_be_missing(chosen):
    seen, _ = chosen("ema", lambda folder: (folder / "epoch-0002.weights.h5").unlink())
    assert seen == [300.0, 1.0]
