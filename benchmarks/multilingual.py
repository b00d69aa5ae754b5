"""Measure import, export and speed of a model of many languages, of NLLB-200's smallest size.

    python -m benchmarks.multilingual --folder /tmp/nllb --output multilingual.md

The folder gets a model of Hugging Face's `M2M100ForConditionalGeneration` with random weights and
256,206 tokens, most of which no text has. It is imported, exported and served by the commands, each
in its own process. The engines run one after another, and generate 6 tokens for every sentence.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding import add_run_options
from benchmarks.machine import describe_machine, free_ports
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.text import made_up_pairs
from benchmarks.turns import ROOT, measure
from keras_transformer.config import TransformerConfig
from keras_transformer.pretrained.families import weight_name
from keras_transformer.pretrained.foreign_model import layer_weights
from keras_transformer.pretrained.hugging_face_vocabulary import write_languages
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.foreign_vocabulary import join_vocabulary

SIZES = {
    "600M": {"tokens": 256_206, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "num_layers": 12},
    "small": {"tokens": 9_000, "d_model": 64, "d_ff": 128, "num_heads": 4, "num_layers": 2},
}
TEXT_TOKENS = 7000
"""Tokens that text is split into."""
CODES = ["eng_Latn", "deu_Latn", "fra_Latn"]
LENGTH = 6
BATCHES = (1, 16)
BEAM_SIZE = 4
RESTRICTED = ["--restrict-vocabulary", "text.de"]
EXPORTS = {
    "ours, float32": [],
    "ours, int8": ["--quantize", "int8"],
    "ours, restricted vocabulary": RESTRICTED,
    "CTranslate2": ["--format", "ctranslate2"],
    "CTranslate2, restricted vocabulary": ["--format", "ctranslate2", *RESTRICTED],
}
MEASURED = ("ours, float32", "ours, int8", "ours, restricted vocabulary")
"""The exports whose speed is measured."""

STEPS = """\
| step | seconds | peak GB | size GB |
|---|--:|--:|--:|"""
SPEED = """\

| engine | batch | tokens/s | spread | ratio to Hugging Face | peak GB | others |
|---|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- {parameters:,} parameters and {tokens:,} tokens with random weights, in {shards} files of float16;
  beam {beam}, {length} tokens, {threads} threads, and the median of {repeats} runs.
- peak GB: peak memory of the process. size GB: what is on the disk. others: the most cores that
  other processes kept busy during a run.
- server: until it answers its first request.
- {machine}, {versions}."""


def write_model(folder: Path, size: str, pairs: Sequence[tuple[str, str]]) -> tuple[int, int]:
    """Write a folder as of `save_pretrained`, and return the numbers of parameters and of files."""
    from safetensors.numpy import save_file

    sizes: dict[str, Any] = dict(SIZES[size])
    tokens = sizes.pop("tokens")
    tokenizer = many_tokens((text for pair in pairs for text in pair), tokens)
    config = TransformerConfig(tokens, **sizes, use_bias=True, share_embeddings="all")
    d_model = config.d_model
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (tokens, d_model)}
    for weight in layer_weights(config):
        shapes[weight_name(weight)] = weight.shape(config)[::-1]
    for stack in ("encoder", "decoder"):
        shapes |= {f"model.{stack}.layer_norm.{kind}": (d_model,) for kind in ("weight", "bias")}
    folder.mkdir(parents=True)
    rng, names, places = np.random.default_rng(1), list(shapes), dict[str, str]()
    parameters = sum(map(math.prod, shapes.values()))
    for number, start in enumerate(range(0, len(names), 100)):
        file = f"model-{number}.safetensors"
        part = names[start : start + 100]
        arrays = {name: random_weight(rng, name, shapes[name]) for name in part}
        save_file(arrays, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    stacks = {
        f"{stack}_{name}": value
        for stack in ("encoder", "decoder")
        for name, value in (
            ("layers", config.num_layers),
            ("ffn_dim", config.d_ff),
            ("attention_heads", config.num_heads),
        )
    }
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    files = {
        "model.safetensors.index.json": {
            "metadata": {"total_size": 2 * parameters},
            "weight_map": places,
        },
        "config.json": {
            "model_type": "m2m_100",
            "architectures": ["M2M100ForConditionalGeneration"],
            **{"vocab_size": tokens, "d_model": d_model, **stacks, **special},
        },
        "generation_config.json": {**special, "num_beams": BEAM_SIZE, "max_length": 200},
        **write_languages(tokenizer, CODES[:2]),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return parameters, len({*places.values()})


def random_weight(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return float16 weights of a usual scale."""
    if len(shape) == 1:
        return np.full(shape, float("norm.weight" in name), np.float16)
    values = rng.standard_normal(shape, np.float32)
    values *= shape[-1] ** -0.5
    return values.astype(np.float16)


def many_tokens(lines: Iterator[str], count: int) -> SentencePieceTokenizer:
    """Return a vocabulary of NLLB's kind whose further tokens have characters that no text has."""
    from sentencepiece import sentencepiece_model_pb2 as schema

    proto = schema.ModelProto.FromString(train_sentencepiece(lines, TEXT_TOKENS))
    kind = schema.ModelProto.SentencePiece
    kept = [piece for piece in proto.pieces if piece.type == kind.NORMAL]
    special = ["<pad>", "<unk>", "<<s>>", "</s>", "<s>"]
    extra = count - len(kept) - len(special) + 1 - len(CODES) - 1
    lowest = min(piece.score for piece in kept)
    kept += [
        kind(piece=f"\ue000{chr(0x4E00 + i % 20_000)}{chr(0x4E00 + i // 20_000)}", score=lowest - i)
        for i in range(extra)
    ]
    del proto.pieces[:]
    proto.pieces.add(piece="<unk>", type=kind.UNKNOWN)
    proto.pieces.extend(kept)
    proto.trainer_spec.byte_fallback = False
    pieces = [*special, *(piece.piece for piece in kept), *CODES, "<mask>"]
    languages = dict(zip(CODES, CODES, strict=True))
    silent = [*special, *CODES, "<mask>"]
    model = proto.SerializeToString()
    return SentencePieceTokenizer(
        join_vocabulary(model, pieces, languages=languages, silent=silent)
    )


def run(*arguments: str, cwd: Path) -> tuple[float, float]:
    """Run a command of this package, and return its seconds and its peak memory in GB."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.main", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(arguments)} has failed; see its message above.")
    return time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e9


def size_of(path: Path) -> float:
    """Return the size of the files of a directory in GB."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e9


def first_answer(path: Path, text: str) -> float:
    """Start a server, and return the seconds until it has answered a request."""
    port, grpc = map(str, free_ports(2))
    start = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "pipelines.main", "serve", "--model", str(path)]
        + ["--rest-port", port, "--port", grpc],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    body = json.dumps({"instances": [text]}).encode()
    url = f"http://localhost:{port}/v1/models/{path.name}:predict"
    try:
        while server.poll() is None:
            try:
                with urllib.request.urlopen(url, body, timeout=300) as answer:
                    answer.read()
                return time.perf_counter() - start
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"The server of {path} has ended. Start it by hand to see why.")
    finally:
        server.terminate()
        server.wait()


def steps(folder: Path, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Import, export and serve the model, and yield rows of the table."""
    (folder / "text.de").write_text("".join(f"{target}\n" for _, target in pairs), "utf-8")
    measured = run("import", "theirs", "--output", "ours", "--license", "none", cwd=folder)
    yield table_line(["import", *rounded(*measured, size_of(folder / "ours"))])
    search = ["--from", CODES[0], "--to", CODES[1], "--beam-size", str(BEAM_SIZE)]
    search += ["--length-penalty", "0", "--max-length", str(LENGTH)]
    search += ["--min-length", str(LENGTH - 1)]
    for name, options in EXPORTS.items():
        output = ["--checkpoint", "ours", "--output", export_name(name)]
        measured = run("export", *output, *options, *search, cwd=folder)
        yield table_line(
            [f"export, {name}", *rounded(*measured, size_of(folder / export_name(name)))]
        )
    seconds = first_answer(folder / export_name("ours, float32"), pairs[0][0])
    yield table_line(["server, ours, float32", f"{seconds:.0f}", "", ""])


def export_name(engine: str) -> str:
    return engine.replace(",", "").replace(" ", "_").lower()


def rounded(*values: float) -> list[str]:
    return [f"{value:.2f}" for value in values]


def speeds(
    folder: Path, pairs: Sequence[tuple[str, str]], threads: int, repeats: int
) -> Iterator[tuple[str, str]]:
    """Yield rows of the table, and the version of the engine of each."""
    shared = {"beam_size": BEAM_SIZE, "languages": CODES[:2], "length": LENGTH}
    engines = {"Hugging Face": ("Hugging Face", {"path": str(folder / "theirs"), **shared})}
    for name in MEASURED:
        version = folder / export_name(name) / "1"
        engines[name] = ("SavedModel", {"path": str(version)})
    theirs = {
        **{"beam_size": BEAM_SIZE, "length_penalty": 0.0},
        **{"min_decoding_length": LENGTH - 1, "max_decoding_length": LENGTH - 1},
        **{"prefix": CODES[1], "disable_unk": True, "return_end_token": True},
    }
    for export in ("CTranslate2", "CTranslate2, restricted vocabulary"):
        for kind in ("float32", "int8"):
            path = str(folder / export_name(export))
            options = {**theirs, "path": path, "compute_type": kind}
            engines[f"{export}, {kind}"] = ("CTranslate2", options)
    tokenizer = SentencePieceTokenizer((folder / "ours" / "vocabulary.model").read_bytes())
    reference: dict[int, float] = {}
    for size in BATCHES:
        texts = [source for source, _ in pairs[:size]]
        pieces = [tokenizer.id_to_piece(row) for row in tokenizer.tokenize(texts)]
        for name, (engine, options) in engines.items():
            rows = [[CODES[0], *row] for row in pieces] if engine == "CTranslate2" else texts
            task = {"engine": engine, "threads": threads, "options": options, "batches": [rows]}
            found = measure({name: {**task, "python": sys.executable}}, repeats)[name]
            # Engines count the tokens of a translation in their own ways.
            speed = size * LENGTH / sorted(found.seconds)[len(found.seconds) // 2]
            reference.setdefault(size, speed)
            cells = [name, size, f"{speed:.1f}", f"{found.spread:.0%}"]
            cells += [f"{speed / reference[size]:.2f}", *rounded(found.peak_memory / 1e9)]
            yield table_line([*cells, f"{max(found.other_cores):.1f}"]), found.version


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure all cells, and yield the lines of both tables and their notes."""
    pairs = made_up_pairs(20_000)
    parameters, shards = write_model(args.folder / "theirs", args.size, pairs)
    yield STEPS
    yield from steps(args.folder, pairs)
    yield SPEED
    versions: dict[str, None] = {}
    for row, version in speeds(args.folder, pairs, args.threads, args.repeats):
        versions[version] = None
        yield row
    yield NOTES.format(
        parameters=parameters,
        tokens=SIZES[args.size]["tokens"],
        shards=shards,
        beam=BEAM_SIZE,
        length=LENGTH,
        threads=args.threads,
        repeats=args.repeats,
        machine=describe_machine(),
        versions=", ".join(versions),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder, of 15 GB")
    parser.add_argument("--size", choices=SIZES, default="600M", help="default 600M")
    add_run_options(parser)
    parser.set_defaults(repeats=2)
    args = parser.parse_args(argv)
    if args.folder.exists():
        parser.error(f"--folder must not exist yet, received {args.folder}")
    args.folder = args.folder.absolute()
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
