"""Damaged files of models: each must be read or refused, soon and in little memory.

Usage:
    python -m tests.helpers.mutations --count 10000
"""

import argparse
import faulthandler
import functools
import io
import random
import resource
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.pretrained.vocabulary_file import read_spm
from keras_transformer.pretrained.weight_files import read_weights
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from keras_transformer.translation.translator import Translator
from tests.helpers.marian_release import write_release
from tests.helpers.torch_files import SIX, tensor, write

SECONDS, MEGABYTES = 5, 500
_TOKENS = (
    *(b"true", b"null", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"NaN", b"9" * 19, b"9" * 5000),
    *(b"[" * 3000, b"(" * 3000, b'{"a":' * 3000, b"&a [*a, *a]", b"<<: *a", b"!!int ''", b"? - :"),
    *(b"\0" * 9, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\x80" * 9 + b"\1", b"q\0h\0\x86" * 40),
)


Change = Callable[[bytes, random.Random], bytes]


class Report(NamedTuple):
    """What became of the files of a format."""

    accepted: int
    refused: int
    seconds: float
    """The longest time of the processor that one took."""
    megabytes: float
    """The growth of the largest resident memory of this process."""


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return damaged data: 1 to 4 changes, most of which keep the length."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 1, 4, 8, 64)))
        other = rng.randrange(len(data) + 1)
        change = rng.choice(("bit", "bit", "bytes", "digit", "digit", "token", "copy", "cut"))
        if change == "digit":
            digits = [i for i, byte in enumerate(data) if 48 <= byte < 58] or [start]
            start = rng.choice(digits)
            end = start + 1
        new = {
            "bit": bytes(byte ^ 1 << rng.randrange(8) for byte in data[start : start + 1]),
            "bytes": rng.randbytes(end - start),
            "digit": rng.choice((b"0", b"7", b"-7", b"99999999", b"1.5", b"true", b"[2]")),
            "token": rng.choice(_TOKENS),
            "copy": data[other : other + rng.choice((0, 1, 64))],
            "cut": b"",
        }[change]
        end = {"bit": start + 1, "cut": len(data)}.get(change, end)
        data = data[:start] + new + data[end:]
    return data


def _change_entry(path: Path, name: str, rng: random.Random, change: Change) -> None:
    """Change an entry of a zip file, which has a valid checksum again."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    name = rng.choice([entry for entry in entries if entry.endswith(name)])
    if name.endswith(".yml.npy"):
        array = io.BytesIO()
        text = np.load(io.BytesIO(entries[name])).tobytes()
        np.save(array, np.frombuffer(change(text, rng), np.int8))
        entries[name] = array.getvalue()
    else:
        entries[name] = change(entries[name], rng)
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)


@functools.cache
def _samples() -> tempfile.TemporaryDirectory:
    """Return a folder of intact files, which exists until the process ends."""
    from keras_transformer.pretrained import import_marian, save_hugging_face

    directory = tempfile.TemporaryDirectory()
    folder = Path(directory.name)
    (folder / "marian").mkdir()
    write_release(folder / "marian")
    imported = import_marian(folder / "marian", license="MIT")
    search = DecodingConfig(style="transformers")
    tokenizers = imported.tokenizer, imported.target_tokenizer
    translator = Translator(imported.model, *tokenizers, search)
    save_hugging_face(translator, folder / "hugging_face")
    (folder / "torch").mkdir()
    write(folder / "torch/pytorch_model.bin", tensor(), [("0", SIX)])
    return directory


def _change(format: str, folder: Path, rng: random.Random, change: Change) -> Path:
    """Change one file of a format, and return its path."""
    theirs, ours = folder / "hugging_face", folder / "marian"
    path = rng.choice(
        {
            "pickle": [folder / "torch/pytorch_model.bin"],
            "zip": [folder / "torch/pytorch_model.bin"],
            "npz": [ours / "model.npz"],
            "safetensors": [theirs / "model.safetensors"],
            "JSON": sorted(theirs.glob("*.json")),
            "YAML": [ours / "decoder.yml", ours / "joint.vocab.yml", ours / "model.npz"],
            "SentencePiece": [ours / "source.spm"],
        }[format]
    )
    if format == "pickle":
        _change_entry(path, ".pkl", rng, change)
    elif format == "YAML" and path.suffix == ".npz":
        _change_entry(path, ".yml.npy", rng, change)
    elif format == "npz" and rng.random() < 0.5:
        _change_entry(path, ".npy", rng, change)
    else:
        path.write_bytes(change(path.read_bytes(), rng))
    return path


def _read(format: str, path: Path) -> None:
    """Read the model that a file of a format is part of."""
    if format in ("pickle", "zip"):
        read_weights(path.parent)
    elif format in ("safetensors", "JSON"):
        read_hugging_face(path.parent)
    elif format in ("npz", "YAML"):
        read_marian(path.with_name("decoder.yml"))
    else:
        model, pieces = read_spm(path)
        tokenizer = SentencePieceTokenizer(
            join_vocabulary(model, ["<pad>", "<unk>", "<s>", "</s>", *pieces[3:]])
        )
        if zlib.crc32(model) % 8 == 0:  # TensorFlow never frees the model of a SentencePiece op.
            tokenizer.tokenize(["one two ½ ﬁre \u3000漢字"])


FORMATS = ("pickle", "zip", "npz", "safetensors", "JSON", "YAML", "SentencePiece")


def read_mutations(format: str, count: int, seed: int = 1) -> Report:
    """Read damaged files of a format. A process that hangs ends with a traceback.

    Raises:
        Exception: Anything but a ValueError or FileNotFoundError that a file raised.
    """
    accepted, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        samples, folder = Path(_samples().name), Path(name) / "damaged"
        shutil.copytree(samples, folder)
        _read(format, _change(format, folder, random.Random(seed), lambda data, rng: data))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(count):
            rng = random.Random(f"{format} {seed} {number}")
            path = _change(format, folder, rng, mutate)
            faulthandler.dump_traceback_later(10 * SECONDS, exit=True)
            start = time.process_time()
            try:
                _read(format, path)
                accepted += 1
            except (ValueError, FileNotFoundError):
                pass
            except BaseException as error:
                error.add_note(f"{format}, seed {seed}, number {number}")
                raise
            slowest = max(slowest, time.process_time() - start)
            faulthandler.cancel_dump_traceback_later()
            shutil.copyfile(samples / path.relative_to(folder), path)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Report(accepted, count - accepted, slowest, grown / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    args = parser.parse_args()
    for format in args.formats:
        print(format, read_mutations(format, args.count), flush=True)


if __name__ == "__main__":
    main()
