import numpy as np
import pytest

from benchmarks import training
from benchmarks.costs import Cost
from benchmarks.trainers import load_batches, make_step, save_batches
from benchmarks.training import read_batches, table_row
from keras_transformer.config import TransformerConfig
from tests.helpers.tiny import tiny_tokenizer, toy_pairs


@pytest.fixture(scope="module")
def batches():
    random = np.random.default_rng(1)
    return [
        tuple(random.integers(4, top, shape).astype("int32") for top, shape in sides)
        for sides in (((30, (6, 7)), (9, (6, 5))), ((30, (6, 4)), (9, (6, 8))))
    ]


@pytest.fixture(scope="module")
def file(batches, tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "batches.npz"
    save_batches(batches, path)
    return str(path)


def test_batches_come_back_from_their_file(batches, file):
    for saved, read in zip(batches, load_batches(file), strict=True):
        for ids, same in zip(saved, read, strict=True):
            np.testing.assert_array_equal(ids, same)
            assert same.dtype == np.int32


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize(
    ("name", "needed"),
    [("ours, prepared", "keras"), ("KerasHub", "keras_hub"), ("PyTorch", "torch")],
)
def test_every_trainer_learns(file, name, needed, precision):
    pytest.importorskip(needed)
    config = TransformerConfig(30, num_layers=1, d_model=16, d_ff=24, num_heads=2, dropout=0.0)
    step = make_step(name, (config, precision, file))
    losses = [step() for _ in range(10)]
    assert losses[-1] < losses[0] < 2 * np.log(30)


def test_batches_are_the_first_of_an_epoch_over_the_text(monkeypatch):
    monkeypatch.setitem(training.BATCHES, "tiny", (60, 3))
    batches = read_batches(toy_pairs(200), tiny_tokenizer(), "tiny")
    assert len(batches) == 3
    for source, labels in batches:
        assert len(source) == len(labels)
        assert 30 < labels.size <= 60


def test_a_translation_needs_its_source(capsys):
    with pytest.raises(SystemExit):
        training.main(["--target", "train.de"])
    assert "--target is the translation of --source" in capsys.readouterr().err


def test_rows():
    ours, peer = Cost([2.0, 1.0, 4.0], [0.1, 0.4, 0.2], 7_000_000), Cost([3.0], [0.0], 5)
    slower = Cost([5.0], [0.0], 5)
    row = table_row("tiny", "float32", "ours", 900, ours, 3.14159, [slower, peer])
    assert row == "| tiny | float32 | ours | 450 | 150% | 1.50 | 3.14 | 7 | 0.4 |"
    assert " |  | 3.14 |" in table_row("tiny", "float32", "ours", 900, ours, 3.14159, [])


def test_peers_that_are_not_installed_are_left_out(monkeypatch):
    monkeypatch.setattr(training, "PACKAGES", {"KerasHub": "no_such_package", "PyTorch": "json"})
    names = ["ours", "ours, prepared", "PyTorch", "PyTorch, prepared"]
    assert training.installed() == names
