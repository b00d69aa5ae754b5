"""Run a SavedModel as a model server does, in a process without Python; see native_host.c."""

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
    """The host's answer to a request."""

    number: int
    """Index of the request, from 0."""
    error: str | None
    """TensorFlow's message if it failed."""
    seconds: float
    """Time inside TensorFlow."""
    resident: int
    """Resident bytes of the host's process at that time."""
    texts: list[bytes]
    """The translations; empty if it failed."""


def serve(
    saved_model: Path,
    requests: Iterable[Sequence[bytes]],
    *,
    threads: int = 1,
    intra_op: int = 0,
    inter_op: int = 0,
    xla: bool = False,
    signature: str = "serving_default",
) -> Iterator[Answer]:
    """Send requests to a new process that runs a SavedModel, and yield answers as they arrive.

    Args:
        saved_model: Directory with saved_model.pb.
        requests: The strings of each request; another thread iterates over them.
        threads: Number of concurrent requests.
        intra_op: Threads within one operation; 0 lets TensorFlow choose.
        inter_op: Threads for concurrent operations; 0 lets TensorFlow choose.
        xla: Whether compiled functions may run, as in a server started with
            --xla_cpu_compilation_enabled.
        signature: The signature, from the strings `text` to the strings `translation`.

    Raises:
        RuntimeError: If the process fails; the error includes its output.
    """
    arguments = [build(), saved_model, *_tensors(saved_model, signature)]
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
                host.stdout.close()  # Ends the host if the caller stops early.
            writing.result()
        if host.returncode:
            log.seek(0)
            raise RuntimeError(
                f"The native host failed with exit code {host.returncode}:\n{log.read()}"
            )


@functools.cache
def build() -> Path:
    """Compile and link the host; the program is removed when this process ends.

    Raises:
        RuntimeError: If there is no gcc, or if it fails.
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
    """Return the libraries of tensorflow-text with the ops of both kinds of tokenizers."""
    (package,) = importlib.util.find_spec("tensorflow_text").submodule_search_locations
    names = ("sentencepiece_tokenizer", "fast_wordpiece_tokenizer", "normalize_ops")
    return [Path(package) / "python" / "ops" / f"_{name}.so" for name in names]


def _tensors(saved_model: Path, name: str) -> tuple[str, str]:
    """Return the tensor names of the input and output of a signature."""
    saved = saved_model_pb2.SavedModel.FromString(
        (Path(saved_model) / "saved_model.pb").read_bytes()
    )
    signature = saved.meta_graphs[0].signature_def[name]
    return signature.inputs["text"].name, signature.outputs["translation"].name


def _write(pipe: BinaryIO, requests: Iterable[Sequence[bytes]]) -> None:
    """Write requests until the host ends."""
    with contextlib.suppress(BrokenPipeError), pipe:
        for texts in requests:
            pipe.write(_SIZE.pack(len(texts)))
            for text in texts:
                pipe.write(_SIZE.pack(len(text)) + text)
            pipe.flush()


def _answers(pipe: BinaryIO) -> Iterator[Answer]:
    """Read answers until the host ends, possibly in the middle of one."""
    with contextlib.suppress(struct.error):
        while True:
            number, code, nanoseconds, resident, count = _ANSWER.unpack(pipe.read(_ANSWER.size))
            texts = [pipe.read(*_SIZE.unpack(pipe.read(_SIZE.size))) for _ in range(count)]
            error = texts.pop().decode(errors="replace") if code else None
            yield Answer(number, error, nanoseconds / 1e9, resident, texts)
