"""Damaged files of models: each must be read or refused, soon and in little memory.

Usage:
    python -m tests.helpers.mutations --count 10000
"""

import argparse
import faulthandler
import random
import resource
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.pretrained.weight_files import read_marian_npz, read_weights
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from tests.helpers.marian_release import write_release
from tests.helpers.torch_files import SIX, tensor, write

SECONDS, MEGABYTES = 5, 500
_TOKENS = (
    *(b"true", b"null", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"NaN", b"9" * 19, b"9" * 5000),
    *(b"[" * 3000, b"(" * 3000, b'{"a":' * 3000, b"&a [*a, *a]", b"<<: *a", b"!!int ''", b"? - :"),
    *(b"\0" * 9, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\x80" * 9 + b"\1", b"q\0h\0\x86" * 40),
)


class Report(NamedTuple):
    """What became of the files of a format."""

    accepted: int
    refused: int
    seconds: float
    """The longest time that one took."""
    megabytes: float
    """The growth of the largest resident memory of this process."""


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return damaged data: 1 to 4 changes of bits, numbers, pieces or the length."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 1, 4, 8, 64)))
        other = rng.randrange(len(data) + 1)
        change = rng.choice(("bits", "token", "number", "remove", "copy", "cut"))
        new = {
            "bits": bytes(byte ^ 1 << rng.randrange(8) for byte in data[start:end]),
            "token": rng.choice(_TOKENS),
            "number": rng.randbytes(end - start),
            "remove": b"",
            "copy": data[other : other + 64],
            "cut": b"",
        }[change]
        if change == "number" and (digits := [i for i, c in enumerate(data) if 48 <= c < 58]):
            start = rng.choice(digits)
            end, new = start + 1, rng.choice((b"0", b"-7", b"99999999", b"1.5", b"true", new))
        data = data[:start] + new + (b"" if change == "cut" else data[end:])
    return data


def _mutate_entry(path: Path, name: str, rng: random.Random) -> None:
    """Mutate an entry of a zip file, which has a valid checksum again."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    name = rng.choice([entry for entry in entries if entry.endswith(name)])
    entries[name] = mutate(entries[name], rng)
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)


def _write_samples(folder: Path) -> None:
    from keras_transformer.pretrained import import_marian, save_hugging_face

    (folder / "marian").mkdir()
    write_release(folder / "marian")
    translator = import_marian(folder / "marian", license="MIT")
    save_hugging_face(translator, folder / "hugging_face")
    (folder / "torch").mkdir()
    write(folder / "torch/pytorch_model.bin", tensor(), [("0", SIX)])


def _read(format: str, folder: Path, rng: random.Random) -> None:
    """Damage one file of a format, and read it."""
    if format in ("pickle", "zip", "npz"):
        path = folder / ("marian/model.npz" if format == "npz" else "torch/pytorch_model.bin")
        if format == "zip" or (format == "npz" and rng.random() < 0.5):
            path.write_bytes(mutate(path.read_bytes(), rng))
        else:
            _mutate_entry(path, ".pkl" if format == "pickle" else ".npy", rng)
        if format == "npz":
            read_marian_npz(path)
        else:
            read_weights(path.parent)
        return
    theirs, ours = folder / "hugging_face", folder / "marian"
    names = {
        "safetensors": [theirs / "model.safetensors"],
        "JSON": sorted(theirs.glob("*.json")),
        "YAML": [ours / "decoder.yml", ours / "joint.vocab.yml", ours / "model.npz"],
        "SentencePiece": [ours / "source.spm"],
    }[format]
    path = rng.choice(names)
    if path.suffix == ".npz":
        _mutate_entry(path, "special:model.yml.npy", rng)
    else:
        path.write_bytes(mutate(path.read_bytes(), rng))
    if path.parent == theirs:
        read_hugging_face(theirs)
        return
    source = read_marian(ours / "decoder.yml").source
    if format == "SentencePiece":
        tokenizer = SentencePieceTokenizer(join_vocabulary(source.spm, source.our_pieces))
        tokenizer.tokenize(["one two ½ ﬁre \u3000漢字"])


FORMATS = ("pickle", "zip", "npz", "safetensors", "JSON", "YAML", "SentencePiece")


def read_mutations(format: str, count: int, seed: int = 1) -> Report:
    """Read damaged files of a format. A process that hangs ends with a traceback.

    Raises:
        Exception: Anything but a ValueError or FileNotFoundError that a file raised.
    """
    accepted, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        samples, folder = Path(name) / "samples", Path(name) / "damaged"
        samples.mkdir()
        _write_samples(samples)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(count):
            shutil.copytree(samples, folder, dirs_exist_ok=True)
            faulthandler.dump_traceback_later(10 * SECONDS, exit=True)
            start = time.perf_counter()
            try:
                _read(format, folder, random.Random(f"{format} {seed} {number}"))
                accepted += 1
            except (ValueError, FileNotFoundError):
                pass
            except BaseException as error:
                error.add_note(f"{format}, seed {seed}, number {number}")
                raise
            slowest = max(slowest, time.perf_counter() - start)
            faulthandler.cancel_dump_traceback_later()
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
