import hashlib
import re
import signal

import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data.encoded_files import digest
from keras_transformer.training import train
from keras_transformer.training.corpora import text_facts
from keras_transformer.translation import Translator
from pipelines import prepare
from tests.helpers.tiny import toy_experiment, toy_pairs, write_toy_text


def write_corpora(directory):
    """Write two corpora with four pairs to drop, and return the data configuration."""
    data = write_toy_text(directory, train=60)
    lines = [f"{source}\t{target}\n" for source, target in toy_pairs(90)[80:]]
    more = directory / "more.tsv"
    more.write_text("".join([*lines, lines[0], "one\t\n", "one\teins" + " zwei" * 3 + "\n"]))
    first = directory / "first.tsv"
    pairs = zip(*(open(data.pop(f"train_{side}")) for side in ("source", "target")), strict=True)
    first.write_text("".join(f"{source[:-1]}\t{target}" for source, target in pairs))
    return data | {
        "train_source": [str(first), str(more)],
        "train_weights": [1, 2],
        "max_length_ratio": 2,
        "drop_duplicates": True,
    }


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_prepared_is_reported_and_used(tmp_path, capsys, caplog, shared, monkeypatch):
    # Tracing a search takes longer than the run.
    monkeypatch.setattr(Translator, "__call__", lambda self, sentences, *_: list(sentences))
    data = write_corpora(tmp_path) | ({"cache": str(tmp_path / "cache")} if shared else {})
    experiment = toy_experiment(data, epochs=1)
    experiment.to_file(tmp_path / "config.yaml")
    command = ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "run")]
    reports = []
    for _ in range(2):
        prepare.main([*command, "--show", "1"])
        reports.append(capsys.readouterr().out)
    assert reports[0] == reports[1]
    inspection, *examples, report = reports[0].split("\n\n")
    assert inspection.startswith("73 sentence pairs; the filters find\n  identical ")
    assert re.search(r"\n  near_duplicates +1 +1.4%  pairs that occurred before", inspection)
    [example] = (text for text in examples if text.startswith("near_duplicates, for example\n"))
    assert f"example\n  {tmp_path}/more.tsv, line 11\n    " in example
    assert f"\n  repeats {tmp_path}/more.tsv, line 1\n    " in example
    assert report.splitlines()[:5] == [
        f"{tmp_path}/first.tsv: kept 60 of 60 sentence pairs",
        f"{tmp_path}/more.tsv: kept 10 of 13 sentence pairs",
        "  dropped 1 with an empty side",
        "  dropped 1 with one side over 2.0 times as long as the other",
        "  dropped 1 that occurred before",
    ]
    assert re.search(r"\d+ source tokens, \d+ target tokens\n\d+ batches per epoch", reports[0])
    kept = tmp_path / "cache" if shared else tmp_path / "run" / "text"
    files = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert {path.suffix or path.name for path in files} == {
        *(".model", ".ids", ".offsets", ".json", ".lock", "SHA256SUMS")
    }
    caplog.set_level("INFO", logger="keras_transformer")
    caplog.clear()
    train(experiment, tmp_path / ("other" if shared else "run"))
    assert any(message.startswith("using the encoded text in") for message in caplog.messages)
    assert not any(message.startswith("training a vocabulary") for message in caplog.messages)
    after = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.suffix != ".lock"}
    assert {path: time for path, time in files.items() if path.suffix != ".lock"} == {
        path: time for path, time in after.items() if path in files
    }


@pytest.mark.slow
def test_two_workers_of_ray_write_what_one_process_writes(tmp_path, capfd, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("keras_transformer.data.encoding._LINES_AT_ONCE", 16)
    data = write_corpora(tmp_path)
    first, second = data.pop("train_source")
    del data["train_weights"]
    data["corpora"] = [{"source": first, "weight": 2}, {"source": second, "tag": "bt"}]
    data["filters"] = ["numbers", "script", "several_translations", "near_duplicates"]
    data["filters"] += ["in_validation"]
    toy_experiment(data).to_file(tmp_path / "config.yaml")
    made, reports = [], []
    for engine in ([], ["--engine", "ray", "--workers", "2"]):
        output = tmp_path / f"run{len(engine)}"
        command = ["--config", str(tmp_path / "config.yaml"), "--output", str(output)]
        prepare.main([*command, "--show", "2", *engine])
        reports.append(capfd.readouterr().out)
        files = sorted(path for path in (output / "text").rglob("*") if path.is_file())
        made.append({str(path.relative_to(output)): path.read_bytes() for path in files})
    assert reports[0] == reports[1]
    assert re.search(r"kept [1-9]\d? of 13 sentence pairs\n  dropped 1 with an empty", reports[0])
    assert made[0] == made[1]
    assert {"source.ids", "target.offsets"} <= {name.rpartition("/")[2] for name in made[0]}


@pytest.mark.slow
def test_a_signal_ends_it_with_ray_as_without(tmp_path, capfd, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(
        "keras_transformer.training.prepare.inspection_report",
        lambda *_: signal.raise_signal(signal.SIGTERM),
    )
    toy_experiment(write_toy_text(tmp_path, train=60)).to_file(tmp_path / "config.yaml")
    command = ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as error:
        prepare.main([*command, "--engine", "ray", "--workers", "1"])
    assert error.value.code == 128 + signal.SIGTERM
    assert "Interrupted. The same command continues." in capfd.readouterr().err


def test_a_run_with_another_configuration_is_left_alone(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    (tmp_path / "run").mkdir()
    toy_experiment(data, seed=2).to_file(tmp_path / "run" / "config.yaml")
    toy_experiment(data).to_file(tmp_path / "config.yaml")
    with pytest.raises(SystemExit, match="error: .*run holds a run with another configuration"):
        prepare.main(["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "run")])


def test_chosen_filters_drop_what_they_find_and_old_text_is_encoded_again(tmp_path, capsys):
    data = write_toy_text(tmp_path, train=60)
    with open(data["train_target"]) as file:
        targets = file.read().splitlines()
    targets[3:5] = ["%s", "<b>eins</b>"]
    with open(data["train_target"], "w") as file:
        file.write("".join(f"{target}\n" for target in targets))
    toy_experiment(data).to_file(tmp_path / "config.yaml")
    command = ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "run")]
    encoded, vocabularies = [], []
    for options, kept, on in (([], 60, ""), (["--data.filters", "placeholders,tags"], 58, " (on)")):
        prepare.main([*command, *options])
        out = capsys.readouterr().out
        for name in ("placeholders", "tags"):
            assert re.search(rf"\n  {name}{re.escape(on)} +1  1.7%  pairs with other {name}", out)
        assert f"kept {kept} of 60 sentence pairs" in out
        encoded.append({path.name for path in tmp_path.glob("run/text/*/") if path.is_dir()})
        vocabularies.append({*tmp_path.glob("run/text/vocabulary-*.model")})
    assert len(vocabularies[1]) == 2  # The second is trained on what the filters keep.
    [vocabulary] = vocabularies[0]
    before_filters = {
        "text": text_facts(DataConfig(**data)),
        "vocabularies": [hashlib.sha256(vocabulary.read_bytes()).hexdigest()] * 2,
        "subwords": ["SentencePieceTokenizer"] * 2,
        "rules": {"max_length": 128, "max_length_ratio": None, "drop_duplicates": False},
    }
    assert encoded[0] == {digest(before_filters)} != encoded[1]
    assert "\n  dropped 1 with other placeholders on one side\n  dropped 1 with other tags" in out
    with pytest.raises(SystemExit, match="data: filters must be among messages, prose, identical"):
        prepare.main([*command, "--data.filters", "tag"])
