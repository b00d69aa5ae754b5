"""Which weights a run ends with."""

import json
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

    def chosen(average, damaged=()):
        data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
        config = toy_experiment(data, average=average)
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
        for path in damaged:
            path = tmp_path / "checkpoints" / path
            path.write_bytes(path.read_bytes()[:-999])

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
        choose.choose_weights(config, checked, text)
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
        "checkpoints": files,
        "validation_bleu": {"average": -1, "best": -2},
    }


def test_damaged_checkpoints_are_left_out(chosen, caplog):
    seen, _ = chosen("best", ["best-0001-bleu-9.0000.weights.h5", "epoch-0003.weights.h5"])
    assert seen == [3.0, 3.0]
    assert "best-0001-bleu-9.0000.weights.h5 is damaged" in caplog.text
