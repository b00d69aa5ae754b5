"""Translators on disk: what `Translator.save` writes, training runs and exports."""

import contextlib
import dataclasses
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import yaml

from keras_transformer.config import DecodingConfig, TransformerConfig
from keras_transformer.config.experiment import SubwordsConfig, TranslatorConfig, read_yaml
from keras_transformer.config.record import ExportRecord
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer, WordPieceTokenizer, WordTokenizer
from keras_transformer.text.files import (
    find_vocabularies,
    read_tokenizers,
    save_tokenizers,
    vocabulary_paths,
    word_tags_of,
)
from keras_transformer.utils import checksums
from keras_transformer.utils.checkpoint_files import best_first, load_checkpoint, position_of
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.files import read_json, whole_directory, whole_file
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.versions import GRAPH, find_saved_model

log = logging.getLogger(__name__)

ORIGIN = ("license", "attribution", "languages")
"""What is known of a model that another program trained, by the names in an export's record."""
ORIGIN_FILE = "origin.json"
"""The same of the model that a run started from, in its directory."""
_CONFIG, _MODEL, _CHOSEN = "config.yaml", "model.keras", "chosen.json"
_LARGE = 2**28
"""Bytes of an archive from which on it is unpacked before it is loaded."""
_KINDS = (
    "the directory of a run (the --output of pipelines.train), of a saved Translator or "
    f"of an exported SavedModel (with its {GRAPH})"
)

_PARTS = {
    *(f"{side}_embedding" for side in ("source", "target", "output")),
    *("source_position", "target_position", "source_norm", "target_norm", "encoder", "decoder"),
}
"""The layers of a `Transformer` that have weights."""


@dataclasses.dataclass(frozen=True)
class SavedTranslator:
    """A translator on disk, whose weights are not read yet."""

    path: Path
    """The file with its configuration: config.yaml, or the export.json of an export."""
    config: TranslatorConfig
    """Sizes of the model, kind of subwords, and decoding options."""
    vocabularies: list[Path]
    """The file of the shared vocabulary, or those of source and target."""
    read_model: Callable[[], Transformer]
    """Read the model."""
    facts: Mapping[str, Any]
    """How it was made: the data and training sections of a run, or the facts of an export."""

    def read_task(self) -> dict[str, str]:
        """Return the `task` and the `word_tags` that a `DataConfig` has for its vocabularies.

        Raises:
            ValueError: If a vocabulary is damaged.
        """
        word_tags = word_tags_of(self.vocabularies[-1])
        task = "translation" if word_tags is None else "parsing"
        return {"task": task, "word_tags": word_tags or "none"}


def find_translator(path: str | os.PathLike) -> SavedTranslator:
    """Find a translator on disk.

    Args:
        path: A directory that `Translator.save` wrote, the directory of a run, of which the best
            complete epoch is taken if it is not finished, a version of an exported model, or the
            directory of all versions, whose highest is taken.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If a file is damaged, or an export lacks its vocabularies.
    """
    path = Path(path)
    # A model may have been exported into its run directory, which is then the newer one.
    if (path / _CONFIG).exists():
        return _in_directory(path)
    if (version := find_saved_model(path)) is not None:
        return _in_export(version)
    if not path.is_dir():
        raise FileNotFoundError(f"There is no directory {path}. Give {_KINDS}.")
    raise FileNotFoundError(f"{path / _CONFIG} does not exist. Give {_KINDS}.")


def weights_file(path: str | os.PathLike) -> Path:
    """Return the file with the weights of a translator on disk; see `find_translator`."""
    directory = find_translator(path).path.parent
    own = directory / _MODEL
    if not own.exists() and (best := _best_epoch(directory)):
        return best
    return own if own.exists() else directory.parent / "variables/variables.data-00000-of-00001"


def _in_directory(directory: Path) -> SavedTranslator:
    path, model = directory / _CONFIG, directory / _MODEL
    if not model.exists() and _best_epoch(directory) is None:
        raise FileNotFoundError(
            f"{model} does not exist. Give {_KINDS}. A run that is not finished needs a complete "
            "epoch."
        )
    checksums.check_files(directory, [_CONFIG])
    sections = read_yaml(path)
    config = TranslatorConfig.from_sections(sections, path)
    vocabularies = find_vocabularies(directory, config.model.has_joint_vocabulary)
    checksums.check_files(directory, [path.name for path in vocabularies])
    is_run = "training" in sections
    if is_run and (directory / ORIGIN_FILE).exists():
        checksums.check_files(directory, [ORIGIN_FILE])
        config = dataclasses.replace(config, origin=read_json(directory / ORIGIN_FILE))
    return SavedTranslator(
        path=path,
        config=config,
        vocabularies=vocabularies,
        read_model=lambda: (
            _read_chosen(model) if model.exists() else _read_best_epoch(directory, config.model)
        ),
        facts={name: sections[name] for name in ("data", "training") if is_run} | config.origin,
    )


def _best_epoch(directory: Path) -> Path | None:
    """Return the checkpoint of the best complete epoch of a run, or of the last without scores.

    A run that has chosen its weights has none: it is damaged if it lacks them.
    """
    if (directory / _CHOSEN).exists():
        return None
    checkpoints = directory / "checkpoints"
    if best := best_first(checkpoints):
        return best[0]
    return max(checkpoints.glob("epoch-*.weights.h5"), default=None, key=position_of)


def _read_best_epoch(directory: Path, config: TransformerConfig) -> Transformer:
    """Return the model of a run that is not finished, and say which epoch it is."""
    path = _best_epoch(directory)
    assert path is not None  # There was one, and a run removes it only for a better one.
    model = Transformer(config)
    load_checkpoint(model, path)
    epochs = read_yaml(directory / _CONFIG).get("training", {}).get("epochs", "its epochs")
    message = "%s is not finished: these are the weights of %s of %s, the best so far"
    log.warning(message, directory, position_of(path), epochs)
    return model


def _read_chosen(path: Path) -> Transformer:
    """Read a model.keras, and say so if its run has trained on since it was chosen."""
    chosen, directory = path.with_name(_CHOSEN), path.parent
    last = max(directory.glob("checkpoints/epoch-*.weights.h5"), default=None, key=position_of)
    if last is not None and chosen.exists():
        then, now = read_json(chosen).get("trained_epochs"), position_of(last).epochs
        if then is not None and now > then:
            log.warning(
                "%s: these are the weights that were chosen after epoch %d, and the run has "
                "trained on to epoch %d; train --finish chooses again",
                directory,
                then,
                now,
            )
    return _read_model(path)


def _in_export(version: Path) -> SavedTranslator:
    checksums.check_files(version)
    record, path = ExportRecord.read(version), version / ExportRecord.FILE
    sections = {"model": record.model, "decoding": record.decoding}
    joint = record.model.get("target_vocab_size") is None
    vocabularies = find_vocabularies(path.parent, joint)
    if missing := [str(path) for path in vocabularies if not path.exists()]:
        raise ValueError(
            f"An exported model is loaded with its vocabularies; there is no "
            f"{' and no '.join(missing)}. Export the model again, or give its run directory."
        )
    data = record.facts.get("data")
    # The facts of an export made in Python may be anything.
    if not isinstance(data, Mapping) or "subwords" not in data:
        data = {"subwords": _subwords_of(read_tokenizers(vocabularies[:1], "bpe")[0])}
    origin = {name: record.facts[name] for name in ORIGIN if name in record.facts}
    config = TranslatorConfig.from_sections({**sections, "data": data, "origin": origin}, path)
    return SavedTranslator(
        path=path,
        config=config,
        vocabularies=vocabularies,
        read_model=lambda: _read_exported_model(version, config.model),
        facts=record.facts,
    )


def _subwords_of(tokenizer: Tokenizer) -> str:
    """Return the kind of a vocabulary, as in `DataConfig.subwords`."""
    if isinstance(tokenizer, WordPieceTokenizer):
        return "wordpiece"
    if isinstance(tokenizer, WordTokenizer):
        return "word"
    from sentencepiece import sentencepiece_model_pb2

    spec = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model).trainer_spec
    return "unigram" if spec.model_type == spec.UNIGRAM else "bpe"


def _read_model(path: Path) -> Transformer:
    """Read a model.keras, or raise a ValueError that names it."""
    checksums.check_files(path.parent, [path.name])
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a Keras archive")
        model = _load_archive(path)
        trim_memory()
        return model
    except (EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is damaged: {one_line(error)}. Restore it. In a run directory, the training "
            "command with --choose-again writes it from the checkpoints."
        ) from error


def _load_archive(path: Path) -> Transformer:
    """Return the model of an archive; Keras would read all its weights into memory first.

    Large weights are unpacked into a temporary directory instead, if it has space, and are read
    from there one by one.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        is_compressed = size > path.stat().st_size
        if size > _LARGE and not is_compressed:
            with (
                contextlib.suppress(OSError),
                tempfile.TemporaryDirectory(prefix="keras-transformer-") as folder,
            ):
                if shutil.disk_usage(folder).free > 2 * size:
                    archive.extractall(folder)
                    return keras.saving.load_model(folder, compile=False)
    return keras.saving.load_model(str(path), compile=False)


def _read_exported_model(version: Path, config: TransformerConfig) -> Transformer:
    """Return a model in float32 with the weights of a SavedModel.

    Args:
        version: The directory of the SavedModel, of this version or of 0.1.
        config: The sizes of the model.

    Raises:
        ValueError: If the SavedModel is damaged or has other weights.
    """
    import tensorflow_text  # noqa: F401  Registers the tokenizer's ops.

    try:
        weights = tf.saved_model.load(str(version)).weights
        values = {weight_place(weight.name.removesuffix(":0")): weight for weight in weights}
        model = Transformer(config, dtype="float32")
        model.set_weights([_value(weight_place(weight.path), values) for weight in model.weights])
    except (tf.errors.OpError, AttributeError, KeyError, OSError, ValueError) as error:
        raise ValueError(
            f"The SavedModel in {version} is damaged, or its weights are not those of its "
            f"{ExportRecord.FILE}: {one_line(error)}. Restore it, or export it again."
        ) from error
    return model


def write_readme(directory: Path, origin: Mapping[str, Any]) -> None:
    """Write a README.md with the license, the languages and the attribution, if any is known.

    The header has the keys of Hugging Face's model cards.
    """
    header = {"license": origin.get("license"), "language": origin.get("languages")}
    header = {name: value for name, value in header.items() if value}
    text = f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n" * bool(header)
    if attribution := origin.get("attribution"):
        text += f"\nAttribution: {attribution}\n"
    if text:
        (directory / "README.md").write_text(text, encoding="utf-8")


def weight_place(path: str) -> str:
    """Return a weight's path inside its model, without the model's own name, if it has that."""
    first, _, rest = path.partition("/")
    return path if first in _PARTS else rest


def _value(path: str, values: Mapping[str, tf.Variable]) -> np.ndarray:
    """Return a weight's value, computed from int8 values and their scale if it has those."""
    if path in values:
        return values[path].numpy()
    layer, _, name = path.rpartition("/")
    stem = f"{layer}/{layer.rpartition('/')[2]}_adapter/{name}"
    return values[f"{stem}_int8"].numpy() * values[f"{stem}_scale"].numpy()


def write_translator(
    path: str | os.PathLike,
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    decoding: DecodingConfig,
    origin: Mapping[str, Any],
) -> None:
    """Write model.keras, the vocabularies, config.yaml and checksums into a directory.

    Args:
        path: The directory, which appears only when it is complete. It may be empty, or one that
            this function wrote, which is replaced.
        model: The model. LoRA is merged, and its optimizer is not saved.
        tokenizers: Source and target tokenizers.
        decoding: The decoding options.
        origin: License, attribution and languages of the model, as far as they are known.

    Raises:
        FileExistsError: If `path` is a file, or a directory with anything else.
    """
    path = Path(path).resolve()
    _check_replaceable(path)
    subwords: Any = _subwords_of(tokenizers[0])
    with whole_directory(path) as temporary:
        config = TranslatorConfig(
            model=model.config,
            data=SubwordsConfig(subwords=subwords),
            decoding=decoding,
            origin=dict(origin),
        )
        config.to_file(temporary / _CONFIG)
        save_tokenizers(temporary, tokenizers, model.config.has_joint_vocabulary)
        with whole_file(temporary / _MODEL) as file:
            _write_model(_without_optimizer(model.without_lora()), file)
        checksums.record_files(temporary, sorted(file.name for file in temporary.iterdir()))


def _write_model(model: Transformer, path: Path) -> None:
    """Write a .keras file whose weights go to the disk one by one; Keras keeps all in memory.

    Until the archive is complete, the file with the weights needs its space on the disk twice.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        model.save(folder, zipped=False)
        # A file may have a time that archives don't have, such as one before 1980.
        with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
            for file in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
                archive.write(file, file.relative_to(folder))
                file.unlink()


def _check_replaceable(path: Path) -> None:
    """Check that a path is free, or holds nothing but a translator that was saved there.

    Raises:
        FileExistsError: If it holds anything else.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise FileExistsError(
            f"path must be a directory, received the file {path}. Choose another."
        )
    names = {entry.name for entry in path.iterdir()}
    vocabularies = [file for shared in (True, False) for file in vocabulary_paths(path, shared)]
    held = sorted(names - {_CONFIG, _MODEL, checksums.FILE, *(file.name for file in vocabularies)})
    if not held and _CONFIG not in names:
        held = sorted(names)
    elif not held and "training" in read_yaml(path / _CONFIG):
        held = ["a training run"]
    if held:
        raise FileExistsError(
            "path must be new, empty, or a directory that Translator.save wrote; "
            f"{path} holds {', '.join(held[:3])}. Choose another path, or remove what is there."
        )


def _without_optimizer(model: Transformer) -> Transformer:
    """Return the model, or a copy if it is compiled: Adam's state takes twice its space."""
    if not model.compiled:
        return model
    copy = type(model).from_config(model.get_config())
    if len(copy.weights) != len(model.weights):
        return model  # A subclass that is built later.
    copy.set_weights(model.get_weights())
    return copy
