"""The model card of an exported model: how to ask it, and how it was made."""

import dataclasses
import json
import shlex
from collections.abc import Mapping
from importlib import metadata
from typing import Any
from urllib.parse import quote

import yaml

from keras_transformer.translation.translator import Translator

_PACKAGES = ("keras-transformer-mt", "keras", "tensorflow", "tensorflow-text")

_ROUNDING = " (up to rounding, which may change words with the number of rows)"

_HEAD = """\
A Transformer that translates text, exported for `tensorflow_model_server`: strings in, strings
out, any number of rows in a request, of which each is answered as if it were alone{rounding}. (A
server that batches refuses more than its `max_batch_size`.) Bytes that are not UTF-8 are read as
U+FFFD. Of a longer text the first {max_source_length} subwords, eos included, are translated; one
without any has the translation "" with score 0 and length 0. A score is log-probability / length
penalty, and -1e9 where there is no translation. Lengths are in subwords, eos included. Rows of
subwords are filled up with "", those of attention with 0.

## Signatures

"""


def export_facts(translator: Translator, signatures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what export.json says of a translator, in values that JSON has.

    Args:
        translator: what is exported.
        signatures: what `describe_signatures` says of its signatures.
    """
    model, source, target = translator.model, translator.tokenizer, translator.target_tokenizer
    installed = {package.name: package.version for package in metadata.distributions()}
    return {
        "signatures": signatures,
        "compiled": translator.compiled,
        "precision": model.dtype_policy.name,
        "parameters": model.count_params(),
        "vocabulary": {
            "tokenizer": type(source).__name__,
            "source": source.vocab_size,
            "target": target.vocab_size,
            "shared": source is target,
        },
        "model": dataclasses.asdict(model.config),
        "decoding": dataclasses.asdict(translator.decoding),
        "versions": {name: installed[name] for name in _PACKAGES if name in installed},
    }


def model_card(name: str, facts: Mapping[str, Any]) -> str:
    """Return the card, in Markdown.

    Args:
        name: the model's name.
        facts: what export.json says. A `description` comes first, `signatures` become a table and
            requests for an example, every other mapping becomes a section, and the rest of the
            values share one.
    """
    signatures = facts["signatures"]
    apart = ("description", "signatures")
    others = {key: value for key, value in facts.items() if key not in apart}
    export = {key: value for key, value in others.items() if not isinstance(value, Mapping)}
    title = f"# {name}\n\n"
    if "description" in facts:
        title += f"{facts['description']}\n\n"
    rounding = "" if facts["precision"] == "float32" else _ROUNDING
    sections = [title + _HEAD.format(rounding=rounding, **facts["decoding"]) + _table(signatures)]
    sections.append(_block("bash", _requests(name, signatures)))
    for key, value in {"export": export, **others}.items():
        if isinstance(value, Mapping):
            text = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=96)
            sections.append(f"## {key.replace('_', ' ').capitalize()}\n\n" + _block("yaml", text))
    return "\n".join(sections)


def _table(signatures: Mapping[str, Mapping]) -> str:
    lines = ["| signature | inputs | outputs | |", "|---|---|---|---|"]
    for name, about in signatures.items():
        inputs, outputs = (
            ", ".join(f"`{key}` {kind}" for key, kind in about[side].items())
            for side in ("inputs", "outputs")
        )
        lines.append(f"| `{name}` | {inputs} | {outputs} | {about['does']} |")
    return "\n".join(lines) + "\n"


def _requests(model: str, signatures: Mapping[str, Mapping]) -> str:
    lines = []
    for name, about in signatures.items():
        texts = {key: f"Some {key}." for key in about["inputs"]}
        instance = texts if len(texts) > 1 else texts["text"]
        body = shlex.quote(json.dumps({"signature_name": name, "instances": [instance]}))
        url = shlex.quote(f"localhost:8501/v1/models/{quote(model)}:predict")
        lines.append(f"curl -d {body} {url}\n")
    return "".join(lines)


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}```\n"
