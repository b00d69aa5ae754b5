"""Runs a SavedModel as a model server does, with no Python in its process: see native_host.c."""

import contextlib
import functools
import importlib.util
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

SOURCE = Path(__file__).with_suffix(".c")
_SIZE = struct.Struct("=I")
_ANSWER = struct.Struct("=IIQQI")


class Answer(NamedTuple):
    """What the host says to a request."""

    number: int
    """Which request, from 0."""
    error: str | None
    """TensorFlow's message, where it failed."""
    seconds: float
    """Time inside TensorFlow."""
    resident: int
    """Bytes of memory that the host's process then held."""
    texts: list[bytes]
    """The translations; none where it failed."""


def serve(
    saved_model: Path,
    requests: Iterable[Sequence[bytes]],
    *,
    threads: int = 1,
    intra_op: int = 0,
    inter_op: int = 0,
    xla: bool = False,
) -> Iterator[Answer]:
    """Give requests to a new process that runs a SavedModel, and return its answers as they come.

    Args:
        saved_model: directory with saved_model.pb, whose `serving_default` takes and returns
            strings.
        requests: the strings of each; any iterable, which another thread goes through.
        threads: requests at once.
        intra_op: threads inside one operation; 0 lets TensorFlow choose.
        inter_op: threads for operations; 0 lets TensorFlow choose.
        xla: whether compiled functions may run, as in a server that was started with
            --xla_cpu_compilation_enabled.

    Raises:
        RuntimeError: the process has failed; the error has what it wrote.
    """
    arguments = [build(), saved_model, *_tensors(saved_model)]
    arguments += [threads, intra_op, inter_op, int(xla), *tokenizer_ops()]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with (
            subprocess.Popen(map(str, arguments), stdin=pipe, stdout=pipe, stderr=log) as host,
            ThreadPoolExecutor() as pool,
        ):
            writing = pool.submit(_write, host.stdin, requests)
            try:
                yield from _answers(host.stdout)
            finally:
                host.stdout.close()  # Where the caller has enough, it ends the host and the writer.
            writing.result()
        if host.returncode:
            log.seek(0)
            raise RuntimeError(f"The native host ended with {host.returncode}:\n{log.read()}")


@functools.cache
def build() -> Path:
    """Compile and link the host; the program lasts as long as this process.

    Raises:
        RuntimeError: there is no gcc, or it has failed.
    """
    if shutil.which("gcc") is None:
        raise RuntimeError("The native host is built with gcc. Install it: apt install gcc.")
    include, libraries = tf.sysconfig.get_include(), tf.sysconfig.get_lib()
    program = Path(_directory().name) / SOURCE.stem
    command = ["gcc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += ["-isystem", include, str(SOURCE), "-o", str(program), f"-L{libraries}"]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    command += [f"-Wl,-rpath,{libraries}"]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"gcc has failed:\n{process.stderr}")
    return program


@functools.cache
def _directory() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()  # Removed when the process ends.


def tokenizer_ops() -> list[Path]:
    """Return the libraries of tensorflow-text that have the ops of both kinds of tokenizer."""
    (package,) = importlib.util.find_spec("tensorflow_text").submodule_search_locations
    names = ("sentencepiece_tokenizer", "fast_wordpiece_tokenizer", "normalize_ops")
    return [Path(package) / "python" / "ops" / f"_{name}.so" for name in names]


def _tensors(saved_model: Path) -> tuple[str, str]:
    """Return the names of the input and the output of `serving_default` in the graph."""
    saved = saved_model_pb2.SavedModel.FromString(
        (Path(saved_model) / "saved_model.pb").read_bytes()
    )
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    return signature.inputs["text"].name, signature.outputs["translation"].name


def _write(pipe: BinaryIO, requests: Iterable[Sequence[bytes]]) -> None:
    """Write requests, until the host has ended."""
    with contextlib.suppress(BrokenPipeError), pipe:
        for texts in requests:
            pipe.write(_SIZE.pack(len(texts)))
            for text in texts:
                pipe.write(_SIZE.pack(len(text)) + text)
            pipe.flush()


def _answers(pipe: BinaryIO) -> Iterator[Answer]:
    """Read answers, until the host has ended, be it in the middle of one."""
    with contextlib.suppress(struct.error):
        while True:
            number, code, nanoseconds, resident, count = _ANSWER.unpack(pipe.read(_ANSWER.size))
            texts = [pipe.read(*_SIZE.unpack(pipe.read(_SIZE.size))) for _ in range(count)]
            error = texts.pop().decode(errors="replace") if code else None
            yield Answer(number, error, nanoseconds / 1e9, resident, texts)
