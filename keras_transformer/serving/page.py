"""The page of the server: its files, what it says about the model, and BLEU for it."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from keras_transformer.config.record import ExportRecord
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.http import read_body
from keras_transformer.serving.queues import Turn, Workers
from keras_transformer.serving.settings import Limits

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = {
    "default-src": "'none'",
    "connect-src": "'self'",
    "img-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Cache-Control": "no-cache",  # A newer version of the package has other files.
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_BLEU_CALLS = 3  # One runs, and two wait.
_CARD = "README.md"
_MOST_CHARACTERS = 200_000
_MOST_EXAMPLES = 5
_MOST = 1e15  # No number of a model is larger.

# BLEU is for small requests only, since any client of the server can ask for it.
MOST_BYTES = 256 << 10
"""Size of a request, both sides together."""
MOST_LINE = 64 << 10
"""Characters of a sentence."""
MOST_SENTENCES = 1024
"""Sentences of a side."""


class Page:
    """Answers requests for the page, which talks to the REST API of the same server.

    Args:
        find_versions: Returns, by the name of each model in requests, the version directory whose
            model card is shown, or None. The page shows the first model at first.
        limits: What a client may ask for.
    """

    def __init__(self, find_versions: Callable[[], Mapping[str, Path | None]], limits: Limits):
        self._find_versions, self._limits = find_versions, limits
        folder = resources.files("keras_transformer.serving") / "page"
        # Read once, so that no path of a request is looked up on disk.
        self._files = {
            "/" if file.name == "index.html" else f"/page/{file.name}": (
                file.read_bytes(),
                _TYPES[Path(file.name).suffix],
            )
            for file in folder.iterdir()
            if Path(file.name).suffix in _TYPES  # A file manager may leave others there.
        }
        self._scorer = Workers(1, _BLEU_CALLS)

    async def answer(self, request: Request, path: str) -> Response | None:
        """Return the response to a request, whose path is not decoded, or None if not for the page.

        Raises:
            ServingError: If its body is malformed or too large, or its model unknown.
        """
        response: Response | None = None
        if request.method in ("GET", "HEAD"):
            if path in self._files:
                content, kind = self._files[path]
                response = Response(content, media_type=kind)
            elif path == "/page/model.json":
                response = JSONResponse(await self._model(request.query_params.get("name")))
        elif request.method == "POST" and path == "/page/bleu":
            response = JSONResponse(await self._bleu(request))
        if response is not None:
            response.headers.update(HEADERS)
        return response

    async def _model(self, name: str | None) -> dict[str, Any]:
        versions = self._find_versions()
        name = next(iter(versions)) if name is None else name
        if name not in versions:
            raise ServingError(Code.NOT_FOUND, f"There is no model {name[:200]}.")
        version = versions[name]
        known = await asyncio.to_thread(about, version) if version else {}
        models = {"models": list(versions)} if len(versions) > 1 else {}
        return {"name": name, **models, **known}

    async def _bleu(self, request: Request) -> dict[str, Any]:
        limits = dataclasses.replace(self._limits, request_bytes=MOST_BYTES)
        turn = Turn([request.client.host if request.client else ""])
        return await self._scorer.run(score_request, await read_body(request, limits), turn=turn)


def about(version: Path) -> dict[str, Any]:
    """Return what a version directory says about its model.

    Args:
        version: The directory. Missing and damaged files are left out.

    Returns:
        `version`, `description`, `languages` (codes, the source first), `license`, `examples`
        (sentences to try), `facts` (pairs of a name and a value), `card`, `max_source_length`,
        `protect`, `makes_trees` of a parser, and of a model of many languages `language_codes` and
        the `source_language` and `target_language` of its export, as far as they are known.
    """
    known: dict[str, Any] = {"version": version.name}
    with contextlib.suppress(OSError, RecursionError, ValueError):
        record = ExportRecord.read(version)
        known["description"] = _text(record.facts.get("description") or "")
        if protect := _string(record.decoding.get("protect")):
            known["protect"] = protect
        length = record.decoding.get("max_source_length")
        if isinstance(length, int) and _number(length, "{}"):
            known["max_source_length"] = length
        if record.vocabulary.get("target_tokenizer") == "TreeTokenizer":
            known["makes_trees"] = True
        if "translate" in record.signatures:
            known["language_codes"] = _strings(record.vocabulary.get("languages"))
            for name in ("source_language", "target_language"):
                known[name] = _string(record.decoding.get(name))
        known |= {name: value for name, value in _introduction(record.facts).items() if value}
        known["facts"] = _facts(record)
    with contextlib.suppress(OSError):
        with (version / _CARD).open(encoding="utf-8", errors="replace") as file:
            known["card"] = file.read(_MOST_CHARACTERS)
    return known


def _introduction(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says first about a model, and offers to try.

    >>> _introduction({"license": "CC-BY 4.0", "data": {"source_language": "en", "tfds": None}})
    {'languages': [], 'license': 'CC-BY 4.0', 'examples': []}
    """
    return {
        "languages": languages_of(facts),
        "license": _string(facts.get("license")),
        "examples": _strings(facts.get("examples"))[:_MOST_EXAMPLES],
    }


def languages_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the codes of a model's languages, the source first, or none if they are not known.

    >>> languages_of({"languages": ["en", "de", "fr"]})
    ['en', 'de', 'fr']
    """
    data = facts.get("data")
    data = data if isinstance(data, dict) else {}
    pair = [data.get("source_language"), data.get("target_language")]  # Of a TFDS dataset.
    languages = _strings(facts.get("languages")) or _strings(pair)
    return languages if len(languages) > 1 else []


def _facts(record: ExportRecord) -> list[tuple[str, str]]:
    """Return the facts that a user of a translator asks for first.

    >>> _facts(ExportRecord(parameters=2_342_912, decoding={"beam_size": 5}))
    [('Parameters', '2,342,912'), ('Weights', 'float32'), ('Beam size', '5')]
    """
    scores, model = record.facts.get("scores"), record.model
    scores = scores if isinstance(scores, dict) else {}
    layers = model.get("num_layers")
    sizes = [_number(record.vocabulary.get(side), "{:,}") for side in ("source", "target")]
    facts = {
        "F1": _number(scores.get("f1"), "{:.1f}"),
        "BLEU": _number(scores.get("bleu"), "{:.1f}"),
        "chrF": _number(scores.get("chrf"), "{:.1f}"),
        "Scored on": _number(scores.get("sentences"), "{:,} sentences"),
        "Parameters": _number(record.parameters or None, "{:,}"),
        "Encoder layers": _number(layers, "{}"),
        "Decoder layers": _number(model.get("num_decoder_layers") or layers, "{}"),
        "Heads": _number(model.get("num_heads"), "{}"),
        "Width": _number(model.get("d_model"), "{:,}"),
        "Vocabulary": " and ".join(dict.fromkeys(filter(None, sizes))),
        "Weights": _text(record.precision),
        "Beam size": _number(record.decoding.get("beam_size"), "{}"),
        "Longest text": _number(record.decoding.get("max_source_length"), "{:,} tokens"),
        "Attribution": _string(record.facts.get("attribution")),
    }
    return [(name, value) for name, value in facts.items() if value]


def _number(value: Any, pattern: str) -> str:
    """Return a number as text; "" for anything else, such as infinity or NaN.

    >>> [_number(value, "{:,}") for value in (1234, "5", True, float("nan"), 10**400)]
    ['1,234', '', '', '', '']
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return pattern.format(value) if is_number and abs(value) < _MOST else ""


def _string(value: Any) -> str:
    """Return a string as text, "" for anything else."""
    return _text(value).strip() if isinstance(value, str) else ""


def _strings(values: Any) -> list[str]:
    """Return the strings of a list that are not blank."""
    values = values if isinstance(values, list) else []
    return [text for value in values if (text := _string(value))]


def _text(value: Any) -> str:
    """Return a value as text that UTF-8 can represent."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def score_request(body: bytes) -> dict[str, Any]:
    """Return the scores that a request asks for.

    Args:
        body: JSON with `translations` and `references`, two lists of strings.

    Raises:
        ServingError: If it is anything else, or has too many or too long sentences.

    >>> score_request(b'{"translations": ["A dog runs."], "references": ["A dog runs."]}')["chrf"]
    100.0
    """
    try:
        given = json.loads(body)
        translations, references = given["translations"], given["references"]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise invalid("The body must be JSON with `translations` and `references`.") from error
    for texts in (translations, references):
        if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
            raise invalid("`translations` and `references` must be lists of strings.")
        if len(texts) > MOST_SENTENCES:
            raise invalid(f"BLEU takes at most {MOST_SENTENCES} sentences, received {len(texts)}.")
        longest = max(map(len, texts), default=0)
        if longest > MOST_LINE:
            raise invalid(f"A sentence may have {MOST_LINE} characters, received {longest}.")
    from keras_transformer.evaluation import score  # Slow to import, and not always needed.

    try:
        scores = score(translations, references)
    except ValueError as error:
        raise invalid(str(error)) from error
    finally:
        _forget_sentences()
    return {key: value for key, value in dataclasses.asdict(scores).items() if key != "published"}


def _forget_sentences() -> None:
    """Empty the caches of sacrebleu's tokenizers, which would keep each sentence they have seen."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    for tokenizer in (Tokenizer13a, TokenizerChar, TokenizerRegexp, TokenizerZh):
        tokenizer.__call__.cache_clear()
