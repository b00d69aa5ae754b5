"""LibreTranslate's API, for the tools that translate with it."""

import asyncio
import codecs
import contextlib
import dataclasses
import functools
import hmac
import math
import urllib.parse
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request

from keras_transformer.documents.files import readable_suffixes
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.files import File, Files, read_form
from keras_transformer.serving.json_format import parse
from keras_transformer.serving.languages import (
    MANY,
    Offer,
    choose,
    detect,
    list_languages,
    read_offer,
)
from keras_transformer.serving.metrics import Entry
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.parts import DOCUMENT
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.queues import LARGE, off_loop
from keras_transformer.serving.text_parts import (
    Part,
    check_texts,
    html_parts,
    join_parts,
    text_parts,
)
from keras_transformer.serving.versions import Served

PATHS = {
    **dict.fromkeys(["/detect", "/suggest", "/translate", "/translate_file"], "POST"),
    **dict.fromkeys(["/download_file", "/frontend/settings", "/health", "/languages"], "GET"),
}
"""The method of each path."""
_WITH_TERMS, _N_BEST = "translate_with_terms", "n_best"
_MOST_FIELDS = 64
_MOST_FORM = 1 << 20
"""Bytes; nothing else runs while more are decoded."""
_MULTIPART, _HEAD = b"content-disposition: form-data", 1000


@dataclasses.dataclass(frozen=True)
class _Translator:
    """Translates the rows of a request, with the model of its languages."""

    predictor: Predictor
    served: Served
    offer: Offer
    languages: tuple[str, str]
    client: str
    deadline: float

    @property
    def is_many(self) -> bool:
        """Whether each text names its languages."""
        return MANY in self.served.model

    @property
    def can_keep_tags(self) -> bool:
        """Whether it translates text with tags in it."""
        return _WITH_TERMS in self.served.model and not self.is_many

    def tag(self, rows: list[str]) -> list[str]:
        """Return rows that begin with the tag of their target, if the model has several."""
        if len(self.offer.targets) > 1 and not self.is_many:
            return [f">>{self.languages[1]}<< {row}" for row in rows]
        return rows

    async def translate(self, rows: Sequence[str], keeps_tags: bool = False) -> list[str]:
        """Return the translations of rows."""
        count = len(rows)
        if self.is_many:
            source, target = self.languages
            languages = {"source_language": count * [source], "target_language": count * [target]}
            found = await self._predict(MANY, {"text": rows, **languages})
        elif keeps_tags:
            columns = {"terms": count * [""], "protect": count * ["html"]}
            found = await self._predict(_WITH_TERMS, {"text": rows, **columns})
        else:
            signature = DOCUMENT if DOCUMENT in self.served.model else DEFAULT
            found = await self._predict(signature, {"text": rows})
        return [text.decode("utf-8", "replace") for text in found]

    async def choices(self, rows: Sequence[str]) -> list[list[str]]:
        """Return translations of each row, the best first; [] if not all rows have them."""
        model = self.served.model
        if _N_BEST not in model or self.is_many or self.offer.protects:
            return []
        most = model.estimates[_N_BEST].most_bytes
        if any(len(row.encode("utf-8", "replace")) > most for row in rows):
            return []  # The model would leave out the rest.
        answers = await self._predict(_N_BEST, {"text": rows}, "translations")
        return [[text.decode("utf-8", "replace") for text in row if text] for row in answers]

    async def _predict(
        self, signature: str, columns: Mapping[str, Sequence[str]], output: str = "translation"
    ) -> list[Any]:
        """Return an output of a signature, for as many rows at a time as it takes."""
        served, count, found = self.served, len(columns["text"]), []
        step = served.batching.max_batch_size if served.batching else max(count, 1)
        inputs = {
            name: np.array([text.encode("utf-8", "replace") for text in column], object)
            for name, column in columns.items()
        }
        longest = max(map(len, inputs["text"]), default=0)
        # `Predictor.run` checks those of a document.
        most = math.inf if signature == DOCUMENT else served.model.estimates[signature].most_bytes
        if longest > most:  # The model would leave out the rest.
            raise invalid(
                f"Invalid request: a line may have {most} bytes, received {longest}. Break it "
                "between sentences."
            )
        for start in range(0, count, step):
            outputs = await self.predictor.run(
                served,
                signature,
                {name: column[start : start + step] for name, column in inputs.items()},
                self.deadline - asyncio.get_running_loop().time(),
                client=self.client,
                most_values=self.predictor.settings.limits.answer_values,
            )
            found += outputs[output].tolist()
        return found


class LibreTranslate:
    """Answers requests of LibreTranslate's clients with the models of the server."""

    def __init__(self, predictor: Predictor):
        self._predictor, self._settings = predictor, predictor.settings
        self._keys = [key.encode() for key in predictor.settings.api_keys]
        self._files = Files()
        self._offers: weakref.WeakKeyDictionary[Served, Offer] = weakref.WeakKeyDictionary()

    async def answer(self, request: Request, path: str, body: bytes, entry: Entry) -> Any:
        """Return the answer to a request to one of `PATHS`: a file, or a value to encode as JSON.

        Raises:
            ServingError: If the request is malformed or not allowed, or the server is busy.
        """
        if request.method.replace("HEAD", "GET") != PATHS[path]:
            message = f"{path} takes {PATHS[path]}, received {request.method}."
            allow = {"Allow": PATHS[path].replace("GET", "GET, HEAD")}
            raise ServingError(Code.UNIMPLEMENTED, message, http=405, headers=allow)
        if path == "/health":
            return self._health()
        if path == "/download_file":
            return self._files.get(request.url.query)
        if path == "/suggest":
            raise ServingError(Code.PERMISSION_DENIED, "Suggestions are disabled on this server.")
        with contextlib.ExitStack() as stack:  # The versions stay until the request is answered.
            offers = {served: await self._offer(served) for served in self._served(stack)}
            languages = list_languages(offers.values())
            if path == "/languages":
                return languages
            if path == "/frontend/settings":
                return self._frontend(languages, offers)
            read: Callable[[bytes], Mapping[str, Any]] = _read
            if path == "/translate_file":
                kind = request.headers.get("content-type", "")
                read = functools.partial(read_form, content_type=kind, most_fields=_MOST_FIELDS)
            fields = await off_loop(read, body, large=len(body) > LARGE)
            self._check_key(fields.get("api_key"))
            if path == "/detect":
                texts, _ = _texts(fields, self._settings.limits.rows)
                sources = [each["code"] for each in languages if each["targets"]]
                return await asyncio.to_thread(detect, texts, sources)
            try:
                if path == "/translate_file":
                    return await self._translate_file(fields, offers, entry, request)
                return await self._translate(fields, offers, entry)
            except ServingError as error:
                if error.code is not Code.RESOURCE_EXHAUSTED:
                    raise
                raise ServingError(error.code, f"Slowdown: {error.message}", http=429) from error

    def _health(self) -> dict[str, str]:
        if not all(self._predictor.versions.ready().values()):
            raise ServingError(Code.UNAVAILABLE, "A model is not served. See /readyz.")
        return {"status": "ok"}

    def _served(self, stack: contextlib.ExitStack) -> list[Served]:
        """Return the version of each model that answers, which stays while `stack` is open."""
        versions = self._predictor.versions
        names = [name for name, is_ready in versions.ready().items() if is_ready]
        return [stack.enter_context(versions.of(name).use()) for name in names]

    async def _offer(self, served: Served) -> Offer:
        if served not in self._offers:
            self._offers[served] = await asyncio.to_thread(read_offer, served)
        return self._offers[served]

    def _frontend(
        self, languages: list[dict[str, Any]], offers: Mapping[Served, Offer]
    ) -> dict[str, Any]:
        known = {each["code"]: {key: each[key] for key in ("code", "name")} for each in languages}
        source = next((each for each in languages if each["targets"]), None)
        able = {served: offer for served, offer in offers.items() if offer.targets}
        formats = _formats(able).values()
        common = [each for each in _longest(formats) if all(each in others for others in formats)]
        return {
            "charLimit": -1,
            "frontendTimeout": 500,
            "apiKeys": bool(self._keys),
            "keyRequired": bool(self._keys),
            "suggestions": False,
            "filesTranslation": bool(common),
            "supportedFilesFormat": common,
            "language": {
                "source": known[source["code"]] if source else None,
                "target": known[source["targets"][0]] if source else None,
            },
        }

    def _able(
        self, offers: Mapping[Served, Offer], source: str, target: str, suffix: str
    ) -> Mapping[Served, Offer]:
        """Return the models that translate a kind of file between two languages.

        Raises:
            ServingError: If there are none.
        """
        models = [served for served, offer in offers.items() if offer.sources_of(target)]
        if source != "auto" or not models:
            models = [choose(offers, source, target)[0]]
        chosen = {served: offers[served] for served in models}
        formats = _formats(chosen)
        able = {served: offer for served, offer in chosen.items() if suffix in formats[served]}
        if able:
            return able
        keep = all(offer.keeps_markup for offer in chosen.values())
        more = "" if keep else " Export the model with --protect all for more."
        raise invalid(
            "Invalid request: file format not supported. Give one of "
            f"{' '.join(_longest(formats.values()))}.{more}"
        )

    def _check_key(self, given: Any) -> None:
        if not self._keys:
            return
        if not given:
            raise invalid("Please contact the server operator to get an API key")
        key = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        if not any([hmac.compare_digest(key, each) for each in self._keys]):  # Without a shortcut.
            raise ServingError(Code.PERMISSION_DENIED, "Invalid API key")

    async def _translate(
        self, fields: Mapping[str, Any], offers: Mapping[Served, Offer], entry: Entry
    ) -> dict[str, Any]:
        limit = self._settings.limits.rows
        texts, is_list = _texts(fields, limit)
        wanted, target = (_required(fields, side) for side in ("source", "target"))
        most, kind = _alternatives(fields), fields.get("format") or "text"
        if kind not in ("text", "html"):
            shown = kind[:100] if isinstance(kind, str) else type(kind).__name__
            raise invalid(f"{shown} format is not supported. Give text or html.")
        check_texts(texts, kind == "html")
        detected = await _detected(texts, offers, target) if wanted == "auto" else None
        large = sum(map(len, texts)) > LARGE
        source = detected["language"] if detected else wanted
        translator = self._translator(offers, source, target, entry)
        keeps_tags = kind == "html" and translator.can_keep_tags
        read = text_parts if kind == "text" else functools.partial(html_parts, is_whole=keeps_tags)
        parts = await off_loop(lambda: [read(text) for text in texts], large=large)
        rows = [part.text for each in parts for part in each if part.is_row]
        if len(rows) > limit:
            raise _too_large(f"{len(rows)} lines", limit)
        entry.rows = len(rows)
        rows = translator.tag(rows)
        found = await translator.translate(rows, keeps_tags)
        answer: dict[str, list] = {
            "translatedText": await off_loop(join_parts, parts, found, large=large)
        }
        if most:
            choices = await translator.choices(rows) if kind == "text" else []
            answer["alternatives"] = await off_loop(
                _join_others, parts, choices, found, most, large=large
            )
        if detected:
            answer["detectedLanguage"] = len(texts) * [detected]
        return answer if is_list else {name: values[0] for name, values in answer.items()}

    def _translator(
        self, offers: Mapping[Served, Offer], source: str, target: str, entry: Entry
    ) -> _Translator:
        """Return what translates `source` to `target`."""
        served, languages = choose(offers, source, target)
        entry.method, entry.model, entry.version = "Predict", served.name, served.number
        deadline = asyncio.get_running_loop().time() + self._settings.timeout
        offer = offers[served]
        return _Translator(self._predictor, served, offer, languages, entry.client, deadline)

    async def _translate_file(
        self,
        fields: Mapping[str, Any],
        offers: Mapping[Served, Offer],
        entry: Entry,
        request: Request,
    ) -> dict[str, Any]:
        file, limit = fields.get("file"), self._settings.limits.rows
        if not isinstance(file, File):
            raise _missing("file")
        wanted, target = (_required(fields, side) for side in ("source", "target"))
        able = self._able(offers, wanted, target, file.suffix)
        translator: _Translator | None = None

        async def translate(texts: Sequence[str]) -> list[str]:
            nonlocal translator
            check_texts(texts, False)
            if translator is None:
                detected = await _detected(texts, able, target) if wanted == "auto" else None
                source = detected["language"] if detected else wanted
                translator = self._translator(able, source, target, entry)
            parts = await asyncio.to_thread(lambda: [text_parts(text) for text in texts])
            rows = translator.tag([part.text for each in parts for part in each if part.is_row])
            found = []
            for start in range(0, len(rows), limit):
                found += await translator.translate(rows[start : start + limit])
            entry.rows = (entry.rows or 0) + len(rows)
            return await asyncio.to_thread(join_parts, parts, found)

        try:
            async with asyncio.timeout(self._settings.timeout):
                name, failures = await self._files.translate(file, translate, entry.client)
        except TimeoutError as error:
            message = (
                f"The file waited or took more than {self._settings.timeout:g} s. Divide it, or "
                "try again later."
            )
            raise ServingError(Code.DEADLINE_EXCEEDED, message, http=504) from error
        answer = {"translatedFileUrl": f"{request.base_url}download_file?id={name}"}
        return {**answer, **({"untranslated": failures} if failures else {})}


def _formats(offers: Mapping[Served, Offer]) -> Mapping[Served, Sequence[str]]:
    """Return the kinds of files that each model translates: text, and all if it keeps markup."""
    keep = {
        served: offer.keeps_markup and DOCUMENT in served.model and MANY not in served.model
        for served, offer in offers.items()
    }
    found = readable_suffixes() if any(keep.values()) else ()
    return {served: found if keeps else (".txt",) for served, keeps in keep.items()}


def _longest(formats: Iterable[Sequence[str]]) -> Sequence[str]:
    return max(formats, key=len, default=())


def _join_others(
    parts: Sequence[Sequence[Part]],
    choices: Sequence[Sequence[str]],
    found: Sequence[str],
    most: int,
) -> list[list[str]]:
    """Return texts of other translations than those found, from the choices for each row."""
    first = join_parts(parts, found)
    others: list[list[str]] = [[] for _ in parts]
    for rank in range(max(map(len, choices), default=0)):
        nth = [c[rank] if rank < len(c) else row for c, row in zip(choices, found, strict=True)]
        for text, best, kept in zip(join_parts(parts, nth), first, others, strict=True):
            if text != best and text not in kept and len(kept) < most:
                kept.append(text)
    return others


async def _detected(
    texts: Sequence[str], offers: Mapping[Served, Offer], target: str
) -> dict[str, Any] | None:
    """Return the language of texts; None if no model translates to the target."""
    sources = [source for offer in offers.values() for source in offer.sources_of(target)]
    found = await asyncio.to_thread(detect, texts, list(dict.fromkeys(sources)))
    if sources and not found:
        raise invalid("The language of the text is not clear. Give source.")
    return found[0] if found else None


def _read(body: bytes) -> dict[str, Any]:
    """Return the fields of a body, which is JSON or a form."""
    if body.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        return parse(body)
    if body.lstrip().startswith(b"--") and _MULTIPART in body[:_HEAD].lower():
        raise invalid(
            "Invalid request: a form must be URL-encoded, received multipart/form-data. Send it as "
            "application/x-www-form-urlencoded, or JSON."
        )
    if len(body) > _MOST_FORM:
        raise invalid(f"Invalid request: a form may have {_MOST_FORM} bytes. Send JSON instead.")
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise invalid(f"Invalid request: a form may have {_MOST_FIELDS} fields.") from error
    return {name: value.replace("\r\n", "\n") for name, value in reversed(pairs)}


def _texts(fields: Mapping[str, Any], limit: int) -> tuple[list[str], bool]:
    """Return the texts of a request, and whether it has a list of them."""
    given = fields.get("q")
    if not given:
        raise _missing("q")
    texts = given if isinstance(given, list) else [given]
    if len(texts) > limit:
        raise _too_large(f"{len(texts)} texts", limit)
    if not all(isinstance(text, str) for text in texts):
        raise invalid("Invalid request: q parameter is not a string or a list of strings")
    return texts, isinstance(given, list)


def _required(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not (value and isinstance(value, str)):
        raise _missing(name)
    return value


def _alternatives(fields: Mapping[str, Any]) -> int:
    given = fields.get("alternatives") or 0
    try:
        return max(0, int(given))
    except (OverflowError, TypeError, ValueError) as error:
        raise invalid("Invalid request: alternatives parameter is not a number") from error


def _missing(name: str) -> ServingError:
    return invalid(f"Invalid request: missing {name} parameter")


def _too_large(size: str, limit: int) -> ServingError:
    return invalid(f"Invalid request: request ({size}) exceeds text limit ({limit})")
