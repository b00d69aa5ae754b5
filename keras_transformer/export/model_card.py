"""The model card of an exported model: how to send it requests, and how it was made."""

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import yaml

from keras_transformer.config.record import ExportRecord

_ROUNDING = " (up to rounding, which may change words with the number of rows)"

_TRANSLATES = "A Transformer that translates text"
_PARSES = "A Transformer that parses sentences, whose words are separated by spaces, into trees"
_AFTER = " The words after that are added to the root of the tree."

_HEAD = """\
{task}, exported for `tensorflow_model_server`. It takes and returns strings.
A request may have any number of rows, and each row is answered as if it were sent
alone{rounding}. (A server that batches requests refuses more rows than its `max_batch_size`.)

- Invalid UTF-8 is replaced by U+FFFD.
- Longer texts are truncated to {max_source_length} tokens, including end-of-sentence.{after}
- A text without {units} has the translation "" with score 0 and length 0.
- A score is the log-probability divided by the length penalty, or -1e9 if there is no translation.
- Lengths are in tokens, including end-of-sentence.
- Rows of tokens are padded with "", rows of attention weights with 0.

## Signatures

"""


def model_card(name: str, record: ExportRecord) -> str:
    """Return the model card, in Markdown.

    Args:
        name: The model's name.
        record: How the model was made. A `description`, a `license` and an `attribution` among
            its facts come first, `signatures` become a table and example requests, every other
            mapping becomes a section, and the remaining values share one.
    """
    facts = record.to_dict()
    signatures = facts.pop("signatures")
    if facts["device"] == "any":
        del facts["device"]
    description = facts.pop("description", None)
    title = f"# {name}\n\n" + (f"{description}\n\n" if description else "")
    for key in ("license", "attribution"):
        title += f"{key.capitalize()}: {facts.pop(key)}\n\n" if facts.get(key) else ""
    parses = record.vocabulary.get("target_tokenizer") == "TreeTokenizer"
    head = _HEAD.format(
        task=_PARSES if parses else _TRANSLATES,
        after=_AFTER if parses else "",
        units="words" if parses else "subwords",
        rounding="" if record.precision == "float32" else _ROUNDING,
        max_source_length=record.decoding["max_source_length"],
    )
    export = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    languages = {key: record.decoding.get(key) for key in ("source_language", "target_language")}
    requests = _block("bash", _requests(name, signatures, languages))
    sections = [title + head + _table(signatures), requests]
    for key, value in {"export": export, **facts}.items():
        if isinstance(value, Mapping):
            text = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=96)
            sections.append(f"## {key.replace('_', ' ').capitalize()}\n\n" + _block("yaml", text))
    return "\n".join(sections)


def _table(signatures: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| signature | inputs | outputs | |", "|---|---|---|---|"]
    for name, about in signatures.items():
        inputs, outputs = (
            ", ".join(f"`{key}` {kind}" for key, kind in about[side].items())
            for side in ("inputs", "outputs")
        )
        lines.append(f"| `{name}` | {inputs} | {outputs} | {about['does']} |")
    return "\n".join(lines) + "\n"


def _requests(
    model: str, signatures: Mapping[str, Mapping[str, Any]], languages: Mapping[str, str | None]
) -> str:
    lines = []
    for name, about in signatures.items():
        texts = {key: languages.get(key, f"Some {key}.") for key in about["inputs"]}
        instance = texts if len(texts) > 1 else texts["text"]
        body = shlex.quote(json.dumps({"signature_name": name, "instances": [instance]}))
        url = shlex.quote(f"localhost:8501/v1/models/{quote(model)}:predict")
        lines.append(f"curl -d {body} {url}\n")
    return "".join(lines)


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}```\n"
