import dataclasses
import json
import math

import pytest

from benchmarks import table3
from benchmarks.table3 import report
from benchmarks.table3_rows import BASE, PAPER, experiments
from keras_transformer.config import DataConfig, ExperimentConfig, TrainingConfig
from keras_transformer.presets import PRESETS, count_parameters
from keras_transformer.training.run_directory import settle
from tests.helpers.tiny import write_toy_text

TEXT = {"train_source": "train.tsv", "validation_source": "valid.tsv"}


def of_one_seed(rows):
    return {name: config for name, config in rows.items() if "seed" not in name}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_rows_are_the_papers_scaled_down():
    rows = of_one_seed(experiments(DataConfig(**TEXT)))
    assert {f"table3_{name}" for name in rows} == {name for name in PRESETS if "table3" in name}
    assert rows.keys() == PAPER.keys()
    for name, config in rows.items():
        ours, paper = config.model, PRESETS[f"table3_{name}"].model
        assert ours.num_layers * 2 == paper.num_layers
        for size in ("d_model", "d_ff", "key_dim", "value_dim"):
            assert (getattr(ours, size) or 0) * 4 == (getattr(paper, size) or 0), (name, size)
        for same in ("num_heads", "dropout", "position"):
            assert getattr(ours, same) == getattr(paper, same), (name, same)
        smoothing = PRESETS[f"table3_{name}"].training.label_smoothing
        assert config.training.label_smoothing == smoothing
        assert config.training.epochs == rows[BASE].training.epochs * (3 if name == "big" else 1)
        assert (config.training.average_checkpoints, config.decoding.beam_size) == (1, 4)


def test_all_rows_share_text_vocabulary_and_seed():
    rows = experiments(DataConfig(**TEXT), vocab_size=700)
    shared = [
        (config.data, config.model.vocab_size, config.training.seed, config.training.batch_tokens)
        for config in of_one_seed(rows).values()
    ]
    assert set(map(str, shared)) == {str(shared[0])} and shared[0][1] == 700
    seeds = [name for name in rows if "seed" in name]
    assert seeds == ["base_seed_2", "base_seed_3"]
    for seed, name in enumerate(seeds, start=2):
        assert (rows[name].model, rows[name].training.seed) == (rows[BASE].model, seed)


@pytest.fixture
def sweep(tmp_path):
    """The experiments of some rows on the toy language."""
    data = DataConfig(**write_toy_text(tmp_path, train=60))
    sizes = {"epochs": 1, "batch_tokens": 600, "warmup_steps": 1, "average_checkpoints": 1}
    # As small as the rate of the first step of a long warm-up.
    recipe = TrainingConfig(learning_rate_scale=0.001, **sizes)
    rows = experiments(data, recipe, vocab_size=380)
    return lambda *names: {name: rows[name] for name in names}


@pytest.fixture
def trained(monkeypatch):
    """Record the names of rows instead of training them; the third call is interrupted."""
    names = []

    def train(config, directory):
        names.append(directory.name)
        number = len(names)
        assert (directory / "vocabulary.model").exists()
        config.to_file(directory / "config.yaml")
        if number == 3:
            raise KeyboardInterrupt
        (directory / "epochs.csv").write_text(f"epoch,val_nll\n0,9.5\n1,{math.log(number)}\n")
        bleu = {"last": 10 * number, "best bleu": 99}
        (directory / "chosen.json").write_text(json.dumps({"validation_bleu": bleu}))

    monkeypatch.setattr(table3, "train", train)
    return names


@pytest.mark.slow
def test_finished_rows_are_not_trained_again(tmp_path, sweep, trained):
    rows = sweep("base", "base_seed_2", "c_num_layers_4", "b_key_dim_16")
    lines = []
    with pytest.raises(KeyboardInterrupt):
        lines.extend(report(rows, tmp_path / "sweep"))
    again = list(report(rows, tmp_path / "sweep"))
    assert trained == ["base", "base_seed_2", *["c_num_layers_4"] * 2, "b_key_dim_16"]
    assert again[: len(lines)] == lines
    table = [cells(line)[:13] for line in again[1:5]]
    assert [row[10:13] for row in table] == [
        ["1.00", "10.0", "4.92, 25.8"],
        ["2.00", "20.0", ""],
        ["4.00", "40.0", "5.19, 25.3"],
        ["5.00", "50.0", "5.16, 25.1"],
    ]
    assert table[3][:10] == "b_key_dim_16 3 128 512 8 4 16 0.1 0.1 1".split()
    assert f"{count_parameters(rows['c_num_layers_4'].model):,}" in again[3]
    # Compared with the means of 1 and 2, of 10 and 20.
    keys, layers = (
        "B: keys of a quarter of the size are worse",
        "C: two thirds of the layers are worse",
    )
    assert again[6:-1] == [
        f"| {keys} | perplexity | +0.24 | +3.50 | 1.00 | holds |",
        f"| {keys} | BLEU | +0.70 | -35.00 | 10.00 | does not hold |",
        f"| {layers} | perplexity | +0.27 | +2.50 | 1.00 | holds |",
        f"| {layers} | BLEU | +0.50 | -25.00 | 10.00 | does not hold |",
    ]
    assert "mean of its seeds (2)" in again[-1]


@pytest.mark.slow
def test_rows_with_fewer_epochs_continue(tmp_path, sweep, trained):
    rows = sweep("base", "base_seed_2")
    list(report(rows, tmp_path / "sweep"))
    for name, config in rows.items():
        training = dataclasses.replace(config.training, epochs=2)
        rows[name] = dataclasses.replace(config, training=training)
    with pytest.raises(KeyboardInterrupt):
        list(report(rows, tmp_path / "sweep"))
    for _ in range(2):
        lines = list(report(rows, tmp_path / "sweep"))
        assert [cells(line)[10] for line in lines[1:3]] == ["4.00", "5.00"]
        assert trained == ["base", "base_seed_2", "base", "base", "base_seed_2"]
        assert len(lines) == 4  # No direction compares seeds.


def test_another_recipe_is_refused_and_keeps_the_result(tmp_path, sweep, trained):
    rows = sweep("base")
    list(report(rows, tmp_path / "sweep", processes=4))  # One row trains in this process.
    (path,) = (tmp_path / "sweep").glob("*/result.json")
    before = path.read_bytes()
    training = dataclasses.replace(rows["base"].training, warmup_steps=9)
    rows["base"] = dataclasses.replace(rows["base"], training=training)
    with pytest.raises(ValueError, match="another configuration"):
        list(report(rows, path.parents[1]))
    assert trained == ["base"] and path.read_bytes() == before


@pytest.mark.slow
def test_two_rows_train_at_the_same_time(tmp_path, sweep, capfd):
    rows = {
        name: dataclasses.replace(
            config,
            model=dataclasses.replace(config.model, num_layers=1, d_model=16, d_ff=24, num_heads=2),
            decoding=dataclasses.replace(config.decoding, beam_size=1),
        )
        for name, config in sweep("base", "c_num_layers_2").items()
    }
    lines = list(report(rows, tmp_path / "sweep", processes=2))
    assert capfd.readouterr().out == ""
    for line, name in zip(lines[1:3], rows, strict=True):
        perplexity = float(cells(line)[10])
        assert cells(line)[0] == name and 10 < perplexity < 10_000
        vocabulary = (tmp_path / "sweep" / name / "vocabulary.model").read_bytes()
        assert vocabulary == (tmp_path / "sweep" / "vocabulary.model").read_bytes()
        config = ExperimentConfig.from_file(tmp_path / "sweep" / name / "config.yaml")
        assert config == settle(rows[name], tmp_path)
    assert lines[4].startswith("| C: a third of the layers is worse | perplexity | +1.19 | ")
    assert list(report(rows, tmp_path / "sweep")) == lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--rows base f_x", "Rows are base, base_seed_2, .*; received f_x."),
        ("--processes 0", "--processes must be at least 1, received 0."),
    ],
)
def test_an_unknown_row_and_no_process_are_refused(options, message):
    with pytest.raises(SystemExit, match=f"error: {message}"):
        table3.main(options.split())
