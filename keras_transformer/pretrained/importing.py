"""Read a model of another program as a `Translator`, and who made it, under which license."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.pretrained.foreign_model import ForeignModel
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.text.foreign_vocabulary import Normalization
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.files import parse_yaml, read_json

log = logging.getLogger(__name__)

_FRONT_MATTER = re.compile(rb"---\r?\n(.*?\r?\n)---\r?\n", re.DOTALL)
_ATTRIBUTION = re.compile(rb"^Attribution: *(\S.*)$", re.MULTILINE)
_LONGEST = 1000


def import_model(
    path: str | os.PathLike,
    normalization: Normalization = "none",
    ignore: Sequence[str] = (),
    *,
    license: str | None = None,
    attribution: str | None = None,
) -> Translator:
    """Return a translator with the weights, vocabularies and search of another program's model.

    Nothing in the files is executed, and nothing is downloaded. The files must not change while
    they are read.

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


def read_origin(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the license, the attribution and the languages of a model, as far as they are known.

    Args:
        folder: The folder of the model. Its README.md may begin with YAML between lines of `---`.
        given: What comes before the files of the folder; None is unknown.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "README.md").write_text("---\\nlicense: cc-by-4.0\\n---\\n# Model\\n")
    ...     read_origin(Path(folder), {"attribution": "OPUS-MT"})
    {'license': 'cc-by-4.0', 'attribution': 'OPUS-MT'}
    """
    sources = [given, *_descriptions(folder)]
    found: dict[str, Any] = {}
    for name in ("license", "attribution"):
        texts = [value for source in sources if isinstance(value := source.get(name), str)]
        if text := next((" ".join(text.split())[:_LONGEST] for text in texts if text.strip()), ""):
            found[name] = text
    for languages in (_texts(source.get("languages")) for source in sources):
        if len(languages) == 2:  # Source and target.
            return {**found, "languages": [code[:_LONGEST] for code in languages]}
    return found


def _texts(value: Any) -> list[str]:
    """Return a list of texts, or an empty list instead of anything else."""
    is_list = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
    return value if is_list else []


def _descriptions(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the options of files that may describe a model."""
    readme, config, license = (folder / name for name in ("README.md", "config.json", "LICENSE"))
    if readme.is_file():
        with open(readme, "rb") as file:
            text = file.read(100_000)
        matter = _FRONT_MATTER.match(text)
        try:
            yield _model_card(parse_yaml(matter[1], str(readme)) if matter else {})
        except ValueError:  # A description that is no YAML says nothing.
            yield {}
        if credit := _ATTRIBUTION.search(text):
            yield {"attribution": credit[1].decode("utf-8", "replace")}
    if config.is_file():
        yield read_json(config)
    if license.is_file():
        with open(license, encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.strip()), "")
        if line:
            yield {"license": line if "license" in line.lower() else "see LICENSE"}


def _model_card(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the header of a model card of Hugging Face says, by our names."""
    license = ", ".join(_texts(header.get("license"))) or header.get("license")
    if license == "other":
        license = header.get("license_name", license)
    return {**header, "license": license, "languages": header.get("language")}
