"""The directory of a training run: its files, and how to read them."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import ExperimentConfig
from keras_transformer.text.files import save_tokenizers, tokenizer_paths
from keras_transformer.training.tables import read_table
from keras_transformer.training.vocabularies import Tokenizers
from keras_transformer.translation.saved import find_translator
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.checksums import check_files, recorded_files


def load_translator(
    directory: str | os.PathLike,
    *,
    compiled: bool = False,
    precision: str = "float32",
    **decoding: Any,
) -> Translator:
    """Load the translator of a finished training run; the same as `Translator.load`.

    Args:
        directory: The run directory, or what else `Translator.load` accepts.
        compiled: Whether XLA compiles the search; see `Translator`.
        precision: Type of weights and matrix products, "float32" or "bfloat16".
        **decoding: Fields of `DecodingConfig` that override the saved ones.

    Returns:
        The translator.

    Raises:
        FileNotFoundError: If the directory has no finished run.
        ValueError: If a file is damaged, or a decoding option is invalid.

    Example:

    ```python
    translate = load_translator("runs/en_de", beam_size=8)
    translate("Two dogs run through the snow.")
    ```
    """
    return Translator.load(directory, compiled=compiled, precision=precision, **decoding)


def run_facts(directory: str | os.PathLike) -> dict[str, Any]:
    """Return how a saved model was trained, for a model card.

    Args:
        directory: A run directory, or what else `Translator.load` accepts.

    Returns:
        Of a run, "data" and "training", sections of its configuration, and "validation", which
        checkpoints were chosen and their BLEU. Of an exported model, the facts that it was exported
        with, except its command. Of what `Translator.save` wrote, nothing.

    Raises:
        FileNotFoundError: If there is no saved model.
        ValueError: If a file is damaged.

    Example:

    ```python
    translator = load_translator("runs/en_de")
    export_saved_model(translator, "saved_models/en_de", run_facts("runs/en_de"))
    ```
    """
    saved = find_translator(directory)
    facts = {name: value for name, value in saved.facts.items() if name != "command"}
    chosen = saved.path.with_name("chosen.json")
    if not chosen.exists():
        return facts
    check_files(chosen.parent, [chosen.name])
    try:
        validation = json.loads(chosen.read_text(encoding="utf-8"))
        if not isinstance(validation, dict):
            raise ValueError(f"it holds {validation!r} instead of an object")
    except ValueError as error:
        raise ValueError(
            f"{chosen} is damaged: {error}. Restore it, or remove it and run the training "
            "command again, which chooses a checkpoint anew."
        ) from error
    return {**facts, "validation": validation}


def read_history(directory: str | os.PathLike) -> dict[str, list[float]]:
    """Read the metrics of every epoch of a run from its epochs.csv.

    Args:
        directory: The run directory.

    Returns:
        A list for each metric, such as "loss" and "val_bleu", with one value per epoch; "epoch"
        counts from 1, also for a file of version 0.1, which counts from 0.

    Raises:
        FileNotFoundError: If the directory has no epochs.csv.
        ValueError: If the file is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as run:
    ...     _ = Path(run, "epochs.csv").write_text("epoch,val_bleu\\n1,3.5\\n2,18.25\\n")
    ...     read_history(run)
    {'epoch': [1.0, 2.0], 'val_bleu': [3.5, 18.25]}
    """
    return _columns(read_table(Path(directory) / "epochs.csv", "epoch"))


def read_metrics(directory: str | os.PathLike) -> dict[str, list[float]]:
    """Read what a run measured within its epochs, from its metrics.csv.

    Args:
        directory: The run directory.

    Returns:
        A list for each of "step", "epoch", "loss" (of training, a mean since the last row),
        "learning_rate", "tokens_per_second", "seconds" (of the run, validation included) and others
        that were logged, with one value per row. There is a row every 100 steps, every minute and
        at the end of each epoch.

    Raises:
        FileNotFoundError: If the directory has no metrics.csv, as that of version 0.1.
        ValueError: If the file is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as run:
    ...     _ = Path(run, "metrics.csv").write_text("step,loss\\n100,6.5\\n200,5.25\\n")
    ...     read_metrics(run)
    {'step': [100.0, 200.0], 'loss': [6.5, 5.25]}
    """
    return _columns(read_table(Path(directory) / "metrics.csv", "step"))


def _columns(rows: Sequence[Mapping[str, str]]) -> dict[str, list[float]]:
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def check_claim(directory: Path, config: ExperimentConfig) -> None:
    """Check that a run can start or resume in a directory with this configuration.

    Raises:
        ValueError: If the directory holds a run with another configuration, or its config.yaml is
            damaged or missing.
    """
    check_files(directory, ["config.yaml"])
    path = directory / "config.yaml"
    if not path.exists():
        return
    if differences := _differences(ExperimentConfig.from_file(path), config):
        raise ValueError(
            f"{directory} holds a run with another configuration; received "
            f"{', '.join(differences)}. A run resumes with the configuration it started with, but "
            "may have more epochs, another interval of checkpoints, another cache and other "
            "decoding options. "
            "Restore these values, or choose another directory."
        )


def _differences(before: ExperimentConfig, config: ExperimentConfig) -> Sequence[str]:
    """Return what keeps a run from going on, as "training.seed=2 instead of 1"."""
    may_differ = {
        ("data", "cache"),
        ("training", "checkpoint_minutes"),
        ("training", "checkpoint_steps"),
    }
    differences = []
    for section in ("model", "data", "training"):
        old, new = (dataclasses.asdict(getattr(each, section)) for each in (before, config))
        for name, value in new.items():
            is_longer = (section, name) == ("training", "epochs") and value > old[name]
            if value != old[name] and not is_longer and (section, name) not in may_differ:
                differences.append(f"{section}.{name}={value!r} instead of {old[name]!r}")
    return differences


def claim(directory: Path, config: ExperimentConfig, tokenizers: Tokenizers) -> None:
    """Write the configuration and the vocabularies, with their checksums."""
    directory.mkdir(parents=True, exist_ok=True)
    is_joint = config.model.has_joint_vocabulary
    names = [path.name for path in tokenizer_paths(directory, tokenizers, is_joint)]
    with recorded_files(directory, ["config.yaml", *names]):
        config.to_file(directory / "config.yaml")
        save_tokenizers(directory, tokenizers, is_joint)
