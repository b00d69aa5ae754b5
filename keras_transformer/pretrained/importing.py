"""Read a model of another program as a `Translator`."""

import logging
import os
from pathlib import Path

from keras_transformer.pretrained.foreign_model import ForeignModel
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.text.foreign_vocabulary import Normalization
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)


def import_marian(path: str | os.PathLike, normalization: Normalization = "none") -> Translator:
    """Return a translator with the weights, vocabularies and search of a Marian model.

    Nothing in the files is executed, and nothing is downloaded.

    Args:
        path: The folder of a model: one of Hugging Face's `MarianMTModel`, with config.json, or a
            release of OPUS-MT, with decoder.yml and a .npz file.
        normalization: What is done to text first: `"none"`, as Hugging Face does, or `"opus"`, the
            replacements of the scripts with which OPUS-MT trained its models.

    Raises:
        FileNotFoundError: If there is no such folder, or it lacks a file.
        ValueError: If a file is damaged, or the model is of a kind that cannot be imported.

    Example:

    ```python
    translator = import_marian("opus-mt-en-de")
    translator("A dog runs on the beach.")
    translator.save("runs/opus_en_de")
    ```
    """
    folder = Path(path)
    if normalization == "none" and (folder / "preprocess.sh").exists():
        log.info(
            "%s has a preprocess.sh; normalization='opus' does to text what OPUS-MT's does", folder
        )
    return _read(folder).to_translator(normalization)


def _read(folder: Path) -> ForeignModel:
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no directory {folder}. Give the folder of a model.")
    if (folder / "config.json").exists():
        return read_hugging_face(folder)
    if (folder / "decoder.yml").exists():
        return read_marian(folder)
    raise FileNotFoundError(
        f"{folder} must have config.json (a model of Hugging Face) or decoder.yml (a release of "
        "OPUS-MT), but has neither."
    )
