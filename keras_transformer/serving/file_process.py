"""Translates a file in a process of its own, where a hostile file cannot hold up a server.

The server answers each list of texts that the process writes with their translations. A message is
a line of JSON.
"""

import contextlib
import ctypes
import io
import itertools
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from keras_transformer.config.data import PATTERN_PREFIX
from keras_transformer.documents.files import KEPT, translate_file
from keras_transformer.documents.word import check_size

_MOST_UNPACKED = 4 << 20
"""The size of a .docx file once it is decompressed, of which a parser needs 40 times as much."""
_MOST_FAILURES, _MOST_FAILURE = 1000, 300
"""Texts that are named as not translated, and characters for each."""
_LOW_PRIORITY = 10
_PR_SET_PDEATHSIG = 1
_HIDDEN = re.compile(KEPT.partition(PATTERN_PREFIX)[2])
"""What an exported model, which has patterns for placeholders only, does not keep."""
_PLACEHOLDER = re.compile(r"\{code[0-9]+\}")


class _TranslationError(Exception):
    """The server could not translate texts."""


class _NoMemoryError(BaseException):
    """Memory was short while the server was asked, so that a part of its answer may be unread.

    This is no `Exception`: `translate_file` would try each text by itself.
    """


def encode(message: Any) -> bytes:
    """Return a message as its line; strings may have lone surrogates."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def main(seconds: str, memory: str, server: str, file: str) -> None:
    """Translate a file in place.

    Args:
        seconds: The processor time that this may take.
        memory: The bytes that it may take.
        server: The id of the process that starts this one.
        file: The path of the file, which is alone in its directory.
    """
    _limit(int(seconds), int(memory))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What a parser prints.
    path = Path(file)
    _end_with_server(path, int(server))

    def ask(texts: Sequence[str]) -> list[str]:
        try:
            out.write(encode({"texts": texts}))
            out.flush()
            line = sys.stdin.buffer.readline()
            if not line.endswith(b"\n"):  # The server has ended.
                _end(path)
            answer = json.loads(line)
        except BrokenPipeError:
            _end(path)
        except MemoryError as error:
            raise _NoMemoryError from error
        if "error" in answer:
            raise _TranslationError(answer["error"])
        return answer["texts"]

    end: dict[str, Any] = {}
    is_short = False
    try:
        output = io.BytesIO()
        failures = _translate(path, output, ask)
        path.write_bytes(output.getvalue())
        end["failures"] = [line[:_MOST_FAILURE] for line in failures[:_MOST_FAILURES]]
    except _TranslationError:
        pass
    except (MemoryError, _NoMemoryError):
        is_short = True
    except (ImportError, ValueError) as error:  # A package may be there and broken.
        if not (is_short := isinstance(error.__cause__, MemoryError)):
            end["reason"] = str(error)
    if is_short:  # The error, which holds what filled the memory, is gone.
        end["reason"] = f"{path} needs more than {memory} bytes of memory. Divide it."
    try:
        out.write(encode(end))
        out.close()
    except BrokenPipeError:
        _end(path)


def _end_with_server(path: Path, server: int) -> None:
    """Remove the file and end once the server is killed, which cannot do it then."""
    signal.signal(signal.SIGTERM, lambda *_: _end(path))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != server:  # It was killed before.
        _end(path)


def _end(path: Path) -> NoReturn:
    """End, without the file and the directory that the server made for it alone."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()  # Unlike `shutil.rmtree`, it can remove nothing else.
    os._exit(1)


def _limit(seconds: int, memory: int) -> None:
    os.nice(_LOW_PRIORITY)
    with contextlib.suppress(OSError):  # Where memory is short, this process should end first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: memory, resource.RLIMIT_CORE: 0}
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))


def _translate(
    path: Path, output: BinaryIO, ask: Callable[[Sequence[str]], list[str]]
) -> list[str]:
    """Return what `translate_file` does, for a model that keeps placeholders alone."""

    def translate(texts: Sequence[str]) -> list[str]:
        hidden, kept = _hide_code(texts)
        return [
            _PLACEHOLDER.sub(lambda name: kept.get(name[0], name[0]), text) for text in ask(hidden)
        ]

    if path.suffix == ".docx":
        check_size(path.read_bytes(), _MOST_UNPACKED)
    return translate_file(path, output, ask if path.suffix == ".txt" else translate)


def _hide_code(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return texts with placeholders for code, and what these stand for."""
    kept = {name: name for name in _PLACEHOLDER.findall("\n".join(texts))}
    names = (name for i in itertools.count() if (name := f"{{code{i}}}") not in kept)

    def hide(code: re.Match) -> str:
        name = next(names)
        kept[name] = code[0]
        return name

    return [_HIDDEN.sub(hide, text) for text in texts], kept


if __name__ == "__main__":
    main(*sys.argv[1:])
