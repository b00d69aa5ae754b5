"""Files that clients send to be translated, and download once they are."""

import asyncio
import re
import secrets
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
from email.parser import BytesHeaderParser
from email.policy import HTTP
from pathlib import Path
from typing import NamedTuple

from keras_transformer.documents.files import SUFFIXES, check_suffix, translate_file
from keras_transformer.documents.markdown import IMAGE
from keras_transformer.serving.errors import Code, ServingError, invalid

MOST_BYTES = 1 << 20
"""The size of a file; others wait for the interpreter's lock while one is parsed."""
_AT_A_TIME = 2
_KEPT_FILES, _KEPT_SECONDS = 64, 900
_CODE = re.compile(rf"`[^`]+`|{IMAGE}|\\\|")
"""What an exported model, which has patterns for placeholders only, does not keep."""


class File(NamedTuple):
    """A file with its name."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """What its name ends with, in small letters."""
        return Path(self.name).suffix.lower()


def suffixes(protects: bool) -> list[str]:
    """Return the kinds of files that can be translated here.

    Args:
        protects: Whether the model keeps placeholders and tags.
    """
    found = []
    for suffix in SUFFIXES if protects else [".txt"]:
        try:
            check_suffix(Path(f"file{suffix}"))
        except ImportError:
            continue
        found.append(suffix)
    return found


def read_form(body: bytes, most_fields: int) -> dict[str, str | File]:
    r"""Return the fields of a form of multipart/form-data.

    Args:
        body: The form; its first line is the boundary.
        most_fields: The most fields that it may have.

    Raises:
        ServingError: If it is malformed or too large.

    >>> head = b'--x\r\nContent-Disposition: form-data; name='
    >>> read_form(head + b'"file"; filename="a.txt"\r\n\r\nA dog.\r\n--x--\r\n', 9)
    {'file': File(name='a.txt', content=b'A dog.')}
    """
    boundary = body[: max(body.find(b"\r\n"), 0)]
    parts = (b"\r\n" + body).split(b"\r\n" + boundary, most_fields + 2)[1:]
    if not boundary.startswith(b"--") or not parts or not parts[-1].startswith(b"--"):
        raise invalid(f"Invalid request: a form must be complete and may have {most_fields} fields")
    fields: dict[str, str | File] = {}
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        header = BytesHeaderParser(policy=HTTP).parsebytes(head.lstrip()[:1000])
        options = getattr(header["Content-Disposition"], "params", {})
        name, filename = options.get("name", ""), options.get("filename")
        fields[name] = content.decode("utf-8", "replace")
        if filename is not None:
            fields[name] = File(Path(filename).name[-100:], content)
    return fields


def _hide_code(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return texts with placeholders for code, and what these stand for."""
    kept: dict[str, str] = {}

    def hide(code: re.Match) -> str:
        name = f"{{code{len(kept)}}}"
        while any(name in text for text in texts):
            kept[name] = name
            name = f"{{code{len(kept)}}}"
        kept[name] = code[0]
        return name

    return [_CODE.sub(hide, text) for text in texts], kept


class Files:
    """Translates files, and keeps the translations in memory until they are downloaded."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, File]] = {}
        self._room = asyncio.Semaphore(_AT_A_TIME)

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
            ServingError: If it is damaged, too large, or cannot be translated.
        """
        if len(file.content) > MOST_BYTES:
            raise invalid(f"Invalid request: a file may have {MOST_BYTES} bytes. Divide it.")
        loop, is_over = asyncio.get_running_loop(), False

        def translate_here(texts: Sequence[str]) -> list[str]:
            if is_over:
                raise ServingError(Code.CANCELLED, "The client has left.")
            if file.suffix == ".txt":
                return asyncio.run_coroutine_threadsafe(wait(texts), loop).result()
            hidden, kept = _hide_code(texts)
            found = asyncio.run_coroutine_threadsafe(wait(hidden), loop).result()
            return [
                re.sub(r"\{code([0-9]+)\}", lambda name: kept.get(name[0], name[0]), text)
                for text in found
            ]

        async def wait(texts: Sequence[str]) -> list[str]:
            return await translate(texts)

        def work() -> tuple[bytes, list[str]]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, f"file{file.suffix}")
                path.write_bytes(file.content)
                return translate_file(path, translate_here)

        try:
            async with self._room:
                content, failures = await asyncio.to_thread(work)
        except (ValueError, ImportError) as error:
            reason = f"it is damaged, or no {file.suffix} file"
            raise invalid(f"Invalid request: {file.name} cannot be read: {reason}") from error
        finally:
            is_over = True
        name = secrets.token_urlsafe(24)
        self._drop()
        self._kept[name] = time.monotonic() + _KEPT_SECONDS, File(file.name, content)
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
        kept = {name: each for name, each in self._kept.items() if each[0] > now}
        self._kept = dict(list(kept.items())[-_KEPT_FILES + 1 :])
