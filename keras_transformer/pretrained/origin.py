"""Who made a model, and under which license, as its files say."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.pretrained.text_file import parse_yaml
from keras_transformer.utils.files import read_json

_FRONT_MATTER = re.compile(rb"---\r?\n(.*?\r?\n)---\r?\n", re.DOTALL)
_ATTRIBUTION = re.compile(rb"^Attribution: *(\S.*)$", re.MULTILINE)
_LONGEST = 1000


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
