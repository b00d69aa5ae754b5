"""Files that clients send to be translated, and download once they are."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from email.parser import BytesHeaderParser
from email.policy import HTTP
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.serving import file_process
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.queues import LARGE, off_loop

log = logging.getLogger(__name__)

Translate = Callable[[Sequence[str]], Awaitable[list[str]]]
"""Translates texts."""

MOST_BYTES = 1 << 20
"""The size of a file."""
_AT_A_TIME, _AT_A_TIME_OF_CLIENT = 5, 2
_MOST = 20
"""Files that are translated or wait; a client may have half of them."""
_MOST_SECONDS, _MOST_MEMORY = 15, 512 << 20
"""Processor time and bytes that reading and writing a file may take."""
_KEPT_FILES, _KEPT_SECONDS = 64, 900
_MOST_REASON = 500
_MOST_LINE = 16 << 20
_ENVIRONMENT = {"PATH", "PYTHONHOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
"""Variables that the process gets, besides `LC_*`: others may hold secrets."""


class File(NamedTuple):
    """A file with its name."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """Its extension in lowercase."""
        return Path(self.name).suffix.lower()


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


def _command(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Return what starts `file_process` with the packages that this process has, and options."""
    limits = str(_MOST_SECONDS), str(_MOST_MEMORY)
    packages = os.pathsep.join(map(os.path.abspath, sys.path))
    kept = {x: os.environ[x] for x in os.environ if x in _ENVIRONMENT or x.startswith("LC_")}
    options = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": {**kept, "PYTHONPATH": packages},
        "start_new_session": True,  # Control-C is for the server.
    }
    arguments = *limits, str(os.getpid()), str(path)
    return [sys.executable, "-P", "-m", file_process.__name__, *arguments], options


@contextlib.asynccontextmanager
async def _start(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `file_process`, and end it with the block."""
    command, options = _command(path)
    process = await asyncio.create_subprocess_exec(*command, limit=_MOST_LINE, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):  # It has ended.
            process.kill()
        await process.communicate()


async def _translate_apart(file: File, translate: Translate) -> tuple[bytes, list[str]]:
    """Return what `translate_file` does, whose parser is in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file{file.suffix}")
        path.write_bytes(file.content)
        async with _start(path) as process:
            end = await _talk(process, translate)
            code = await process.wait()
        if "failures" in end:
            return path.read_bytes(), end["failures"]
    if code == -signal.SIGXCPU:
        end["reason"] = (
            f"{file.name} takes more than {_MOST_SECONDS} s of processor time. Divide it."
        )
    if "reason" not in end:
        log.error("The process that reads a %s file ended with %s", file.suffix, code)
        end["reason"] = f"{file.name} could not be read or written. Restore or divide it."
    reason = end["reason"].replace(str(path), file.name)
    raise invalid(f"Invalid request: {reason[:_MOST_REASON]}")


async def _talk(process: asyncio.subprocess.Process, translate: Translate) -> dict[str, Any]:
    """Translate what a process asks for, and return its last message, which may be missing.

    Raises:
        Exception: If the process ends because texts were not translated; why they were not.
    """
    assert process.stdin and process.stdout
    error: Exception | None = None
    while line := await _read_line(process.stdout):
        message = await off_loop(json.loads, line, large=len(line) > LARGE)
        if "texts" not in message:
            if error and not message:
                raise error
            return message
        try:
            answer: dict[str, Any] = {"texts": await translate(message["texts"])}
        except Exception as caught:  # The file may do without some texts.
            error, answer = caught, {"error": str(caught)}
        process.stdin.write(await off_loop(file_process.encode, answer, large=len(line) > LARGE))
        with contextlib.suppress(ConnectionError):  # It has ended.
            await process.stdin.drain()
    return {}


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """Return a message, or nothing once the process has ended, which may be within one."""
    try:
        line = await stream.readline()
    except ValueError as error:
        raise invalid(
            f"Invalid request: a text of a file may have {_MOST_LINE} bytes. Divide it."
        ) from error
    return line if line.endswith(b"\n") else b""


@dataclasses.dataclass
class _Client:
    """The files of a client that wait or are translated."""

    files: int = 0
    free: asyncio.Semaphore = dataclasses.field(
        default_factory=lambda: asyncio.Semaphore(_AT_A_TIME_OF_CLIENT)
    )


class Files:
    """Translates files, and keeps the translations in memory until they are downloaded."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, File]] = {}
        self._free = asyncio.Semaphore(_AT_A_TIME)
        self._clients: dict[str, _Client] = {}

    async def translate(
        self, file: File, translate: Translate, client: str = ""
    ) -> tuple[str, list[str]]:
        """Translate a file for the client with an address.

        Returns:
            What `get` finds the translation by, and a line for each text that was not translated.

        Raises:
            ServingError: If it is damaged, too large, or cannot be translated, or too many wait.
        """
        if len(file.content) > MOST_BYTES:
            raise invalid(f"Invalid request: a file may have {MOST_BYTES} bytes. Divide it.")
        own = self._clients.get(client, _Client())
        count = sum(each.files for each in self._clients.values())
        if count >= _MOST or own.files >= _MOST // 2:
            message = "Too many files wait. Try again later."
            raise ServingError(Code.RESOURCE_EXHAUSTED, message, http=503)
        self._clients[client] = own
        own.files += 1
        try:
            async with own.free, self._free:
                content, failures = await _translate_apart(file, translate)
        finally:
            own.files -= 1
            if not own.files:
                del self._clients[client]
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
        name = ""
        with contextlib.suppress(ValueError):  # There are too many fields.
            name = urllib.parse.parse_qs(query, max_num_fields=9).get("id", [""])[0]
        if name not in self._kept:
            raise ServingError(Code.NOT_FOUND, "There is no such file. Translate it again.")
        return self._kept[name][1]

    def _drop(self) -> None:
        now = time.monotonic()
        self._kept = {name: each for name, each in self._kept.items() if each[0] > now}
