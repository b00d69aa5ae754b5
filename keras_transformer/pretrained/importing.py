"""Read a model of another program as a `Translator`."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.pretrained.foreign_model import ForeignModel
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.pretrained.origin import read_origin
from keras_transformer.text.foreign_vocabulary import Normalization
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)


def import_model(
    path: str | os.PathLike,
    normalization: Normalization = "none",
    ignore: Sequence[str] = (),
    *,
    license: str | None = None,
    attribution: str | None = None,
) -> Translator:
    """Return a translator with the weights, vocabularies and search of another program's model.

    Nothing in the files is executed, and nothing is downloaded.

    Args:
        path: The folder of a model: one of Hugging Face, of the family Marian, NLLB, M2M100 or
            mBART-50, with config.json; or a release of OPUS-MT, with a .npz file and a decoder.yml,
            NAME.decoder.yml or config.NAME.yml. Of several such files, give one.
        normalization: What is done to text first: `"none"`, as Hugging Face does, or `"opus"`, the
            replacements of the scripts with which OPUS-MT trained its models.
        ignore: Options of the search without a counterpart here that may be left out, such as
            `["num_beam_groups"]`. By default, they are an error.
        license: The license of the model; by default what its README.md, config.json or LICENSE
            says. Exports of the translator name it.
        attribution: Who must be credited, found in the same way.

    Raises:
        FileNotFoundError: If there is no such folder, or it lacks a file.
        ValueError: If a file is damaged, the model is of a kind that cannot be imported, or its
            search has options without a counterpart.

    Example:

    ```python
    translator = import_model("opus-mt-en-de")
    translator("A dog runs on the beach.")
    translator.save("runs/opus_en_de")
    ```
    """
    path = Path(path)
    folder = path.parent if path.suffix in (".yml", ".yaml") else path
    if normalization == "none" and (folder / "preprocess.sh").exists():
        log.info(
            "%s has a preprocess.sh; normalization='opus' does to text what OPUS-MT's does", folder
        )
    model = _read(path, folder, ignore)
    given = {"license": license, "attribution": attribution, "languages": model.languages}
    origin = read_origin(folder, given)
    if "license" not in origin:
        log.warning("%s names no license; give one, so that exports of the model name it", folder)
    translator = model.to_translator(normalization)
    translator.origin = origin
    return translator


import_marian = import_model
"""The earlier name of `import_model`."""


def _read(path: Path, folder: Path, ignore: Sequence[str]) -> ForeignModel:
    if not folder.is_dir():
        what = "is a file; unpack it" if folder.is_file() else "does not exist"
        raise FileNotFoundError(f"{folder} {what}. Give the folder of a model.")
    if path != folder:
        return read_marian(path, ignore)
    is_hugging_face = (folder / "config.json").exists()
    for pattern in () if is_hugging_face else ("decoder.yml", "*.decoder.yml", "config.*.yml"):
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            raise ValueError(
                f"{folder} must have one {pattern}, received "
                f"{', '.join(file.name for file in found)}. Give one of these files as the path."
            )
        if found:
            return read_marian(found[0], ignore)
    if (folder / "model.bin").exists():
        raise ValueError(
            f"{folder} is a model of CTranslate2 (model.bin), which only CTranslate2 runs. Import "
            "the model that it was converted from."
        )
    if is_hugging_face:
        return read_hugging_face(folder, ignore)
    raise FileNotFoundError(
        f"{folder} must have config.json (a model of Hugging Face) or decoder.yml (a release of "
        "OPUS-MT), but has neither."
    )
