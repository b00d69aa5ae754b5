"""Files that clients send to be translated, and download once they are."""

import asyncio
import concurrent.futures
import functools
import itertools
import re
import secrets
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.parser import BytesHeaderParser
from email.policy import HTTP
from pathlib import Path
from typing import NamedTuple

from keras_transformer.config.data import PATTERN_PREFIX
from keras_transformer.documents.files import KEPT, SUFFIXES, check_suffix, translate_file
from keras_transformer.documents.word import check_size
from keras_transformer.serving.errors import Code, ServingError, invalid

MOST_BYTES = 1 << 20
"""The size of a file. Parsing holds the GIL."""
_MOST_UNPACKED = 4 << 20
"""The size of a .docx file once it is decompressed, of which a parser needs 40 times as much."""
_AT_A_TIME, _MOST_WAITING = 2, 8
_KEPT_FILES, _KEPT_SECONDS = 64, 900
_MOST_REASON = 500
_HIDDEN = re.compile(KEPT.partition(PATTERN_PREFIX)[2])
"""What an exported model, which has patterns for placeholders only, does not keep."""
_PLACEHOLDER = re.compile(r"\{code[0-9]+\}")


class File(NamedTuple):
    """A file with its name."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """Its extension in lowercase."""
        return Path(self.name).suffix.lower()


@functools.cache
def suffixes(keeps_markup: bool) -> tuple[str, ...]:
    """Return the kinds of files that can be translated here.

    The first call imports what reads them, which takes long.

    Args:
        keeps_markup: Whether the model keeps placeholders and tags.
    """
    found = []
    for suffix in SUFFIXES if keeps_markup else [".txt"]:
        try:
            check_suffix(Path(f"file{suffix}"))
        except ImportError:
            continue
        found.append(suffix)
    return tuple(found)


def read_form(body: bytes, content_type: str, most_fields: int) -> dict[str, str | File]:
    r"""Return the fields of a form of multipart/form-data.

    Args:
        body: The form.
        content_type: The header `Content-Type`, which has its boundary.
        most_fields: The most fields that it may have.

    Raises:
        ServingError: If it is malformed or too large.

    >>> head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"'
    >>> form = head + b"\r\n\r\nA dog.\r\n--x--\r\n"
    >>> read_form(form, "multipart/form-data; boundary=x", 9)
    {'file': File(name='a.txt', content=b'A dog.')}
    """
    kind, options = _read_options(f"Content-Type: {content_type}".encode())
    boundary = options.get("boundary")
    if kind != "multipart/form-data" or not boundary:
        raise invalid(
            "Invalid request: a file must be sent as a form, whose Content-Type is "
            "multipart/form-data with a boundary"
        )
    parts = (b"\r\n" + body).split(f"\r\n--{boundary}".encode(), most_fields + 2)[1:]
    if not parts or not parts[-1].startswith(b"--"):
        raise invalid(f"Invalid request: a form must be complete and may have {most_fields} fields")
    fields: dict[str, str | File] = {}
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        _, options = _read_options(head.lstrip()[:1000])
        name, filename = options.get("name", ""), options.get("filename")
        fields[name] = content.decode("utf-8", "replace")
        if filename is not None:
            fields[name] = File(Path(filename).name[-100:], content)
    return fields


def _read_options(head: bytes) -> tuple[str, Mapping[str, str]]:
    """Return the kind of content that headers name, and the options of their first line."""
    try:
        headers = BytesHeaderParser(policy=HTTP).parsebytes(head)
        found = headers["Content-Disposition"] or headers["Content-Type"]
        options = getattr(found, "params", {}).items()
        # An escaped byte may be no UTF-8.
        valid = {name: value.encode("utf-8", "replace").decode() for name, value in options}
        return headers.get_content_type(), valid
    except Exception as error:  # The parser fails in many ways.
        raise invalid("Invalid request: a header of the form is malformed") from error


def _hide_code(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return texts with placeholders for code, and what these stand for."""
    kept = {name: name for name in _PLACEHOLDER.findall("\n".join(texts))}
    names = (name for i in itertools.count() if (name := f"{{code{i}}}") not in kept)

    def hide(code: re.Match) -> str:
        name = next(names)
        kept[name] = code[0]
        return name

    return [_HIDDEN.sub(hide, text) for text in texts], kept


class _Work:
    """A file that is translated in a thread, for a client that may leave.

    Args:
        file: The file.
        translate: Translates texts, in the loop of the caller.
    """

    def __init__(self, file: File, translate: Callable[[Sequence[str]], Awaitable[list[str]]]):
        self._file, self._translate = file, translate
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._asked: concurrent.futures.Future | None = None

    def run(self) -> tuple[bytes, list[str]]:
        """Return what `translate_file` does."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"file{self._file.suffix}")
            path.write_bytes(self._file.content)
            try:
                if self._file.suffix == ".docx":
                    check_size(self._file.content, _MOST_UNPACKED)
                return translate_file(path, self._translate_here)
            except ValueError as error:
                reason = str(error).replace(str(path), self._file.name)
                raise invalid(f"Invalid request: {reason[:_MOST_REASON]}") from error

    def stop(self) -> None:
        """Translate no more texts."""
        self._is_over = True
        if self._asked:
            self._asked.cancel()

    def _translate_here(self, texts: Sequence[str]) -> list[str]:
        if self._file.suffix == ".txt":
            return self._ask(texts)
        hidden, kept = _hide_code(texts)
        return [
            _PLACEHOLDER.sub(lambda name: kept.get(name[0], name[0]), text)
            for text in self._ask(hidden)
        ]

    def _ask(self, texts: Sequence[str]) -> list[str]:
        async def wait() -> list[str]:
            return await self._translate(texts)

        if self._is_over:
            raise ServingError(Code.CANCELLED, "The client has left.")
        asked = self._asked = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        if self._is_over:  # Since then.
            self.stop()
        return asked.result()


class Files:
    """Translates files, and keeps the translations in memory until they are downloaded."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, File]] = {}
        self._threads = concurrent.futures.ThreadPoolExecutor(_AT_A_TIME, "files")
        self._begun: list[concurrent.futures.Future] = []

    async def translate(
        self, file: File, translate: Callable[[Sequence[str]], Awaitable[list[str]]]
    ) -> tuple[str, list[str]]:
        """Translate a file.

        Args:
            file: The file.
            translate: Translates texts.

        Returns:
            What `get` finds the translation by, and a line for each text that was not translated.

        Raises:
            ServingError: If it is damaged, too large, or cannot be translated, or too many wait.
        """
        if len(file.content) > MOST_BYTES:
            raise invalid(f"Invalid request: a file may have {MOST_BYTES} bytes. Divide it.")
        self._begun = [each for each in self._begun if not each.done()]
        if len(self._begun) >= _AT_A_TIME + _MOST_WAITING:
            message = "Too many files wait. Try again later."
            raise ServingError(Code.RESOURCE_EXHAUSTED, message, http=503)
        work = _Work(file, translate)
        self._begun.append(self._threads.submit(work.run))
        try:
            content, failures = await asyncio.wrap_future(self._begun[-1])
        finally:  # A thread that has begun is not stopped otherwise.
            work.stop()
        name = secrets.token_urlsafe(24)
        self._kept[name] = time.monotonic() + _KEPT_SECONDS, File(file.name, content)
        self._drop()
        self._kept = dict(list(self._kept.items())[-_KEPT_FILES:])
        return name, failures

    def get(self, query: str) -> File:
        """Return the translation that the query of an address names.

        Raises:
            ServingError: If there is none.
        """
        self._drop()
        name = urllib.parse.parse_qs(query, max_num_fields=9).get("id", [""])[0]
        if name not in self._kept:
            raise ServingError(Code.NOT_FOUND, "There is no such file. Translate it again.")
        return self._kept[name][1]

    def _drop(self) -> None:
        now = time.monotonic()
        self._kept = {name: each for name, each in self._kept.items() if each[0] > now}
