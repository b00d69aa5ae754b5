"""Who made a model, and under which license, as its files say."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.pretrained.text_file import parse_yaml, read_json

_FRONT_MATTER = re.compile(rb"---\r?\n(.*?\r?\n)---\r?\n", re.DOTALL)
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
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
        texts = [source[name] for source in sources if isinstance(source.get(name), str)]
        if text := next((" ".join(text.split())[:_LONGEST] for text in texts if text.strip()), ""):
            found[name] = text
    languages = given.get("languages") or []
    if len(languages) == 2 and all(isinstance(code, str) and code for code in languages):
        found["languages"] = [code[:_LONGEST] for code in languages]
    return found


def _descriptions(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the options of files that may describe a model."""
    readme, config, license = (folder / name for name in ("README.md", "config.json", "LICENSE"))
    if readme.is_file():
        with open(readme, "rb") as file:
            matter = _FRONT_MATTER.match(file.read(100_000))
        try:
            yield parse_yaml(matter[1], str(readme)) if matter else {}
        except ValueError:  # A description that is no YAML says nothing.
            yield {}
    if config.is_file():
        options = read_json(config)
        yield options
        # The model's name on a hub, such as Helsinki-NLP/opus-mt-en-de, begins with its author.
        name = options.get("_name_or_path")
        yield {"attribution": name} if _HUB_NAME.fullmatch(str(name)) else {}
    if license.is_file():
        with open(license, encoding="utf-8", errors="replace") as file:
            yield {"license": next((line for line in file if line.strip()), "")}
