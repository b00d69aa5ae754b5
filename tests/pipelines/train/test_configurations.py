"""The configurations in pipelines/configs."""

import dataclasses

import pytest

from keras_transformer.config.data import as_list
from keras_transformer.presets import PRESETS
from pipelines import train
from tests.helpers.experiment import experiment_of
from tests.helpers.tiny import ROOT

CONFIGS = {
    path.stem: path
    for path in (ROOT / "pipelines" / "configs").glob("*.yaml")
    if path.stem != "quickstart"  # Another command's.
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_committed_configuration_needs_nothing_more(trained, name):
    train.main(["--config", str(CONFIGS[name]), "--output", "x"])
    data = trained[0][0].data
    if name.startswith("parsing"):
        expected = "data/dev.mrg" if name == "parsing_small" else "data/wsj/22"
        assert (data.task, data.validation_source) == ("parsing", expected)
        return
    source, target, *others = [part for part in name.split("_") if len(part) == 2]
    if name.endswith("_tfds"):
        assert (data.source_language, data.target_language) == (source, target)
        sets = {"multi30k": "multi30k", "wmt14": f"wmt14_translate/{target}-{source}"}
        assert data.tfds == sets[name.partition("_")[0]]
        return
    corpus = name.partition("_")[0]
    folder = f"wmt14_{source}_{target}" if corpus == "wmt14" else corpus
    targets = [target, *others]
    assert data.train_languages == data.validation_languages == (targets if others else [])
    for paths, languages in (
        (data.train_source, [source] * len(targets)),
        (data.train_target, targets),
        (data.validation_source, [source] * len(targets)),
        (data.validation_target, targets),
    ):
        for path, language in zip(as_list(paths), languages, strict=True):
            assert path.startswith(f"data/{folder}/")
            assert path.removesuffix(".gz").removesuffix(".xz").endswith(f".{language}")


@pytest.mark.parametrize(
    ("name", "preset", "changes"),
    [
        ("wmt14_en_de_base", "base", {}),
        ("wmt14_en_de_base_tfds", "base", {}),
        ("wmt14_en_de_big", "big", {}),
        ("wmt14_en_fr_base", "base", {"vocab_size": 32_000}),
        # Section 6.1: less dropout than from English to German.
        ("wmt14_en_fr_big", "big", {"vocab_size": 32_000, "dropout": 0.1}),
    ],
)
def test_the_configurations_of_the_papers_runs(trained, name, preset, changes):
    train.main(["--config", str(CONFIGS[name]), "--output", "x"])
    data = dataclasses.asdict(trained[0][0].data)
    assert trained[0][0] == experiment_of(PRESETS[preset], data, **changes)
    # Section 5.1: byte pairs for German, word pieces for French.
    assert data["subwords"] == ("wordpiece" if "en_fr" in name else "bpe")


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.endswith("_tfds")])
def test_a_configuration_for_tfds_differs_from_that_for_files_only_in_the_text(trained, name):
    for config in (name, name.removesuffix("_tfds")):
        train.main(["--config", str(CONFIGS[config]), "--output", "x"])
    (tfds, _), (files, _) = trained
    text = {"tfds": None, "source_language": None, "target_language": None}
    paths = ("train_source", "train_target", "validation_source", "validation_target")
    text |= {path: getattr(files.data, path) for path in paths}
    assert dataclasses.replace(tfds, data=dataclasses.replace(tfds.data, **text)) == files
