"""Measure how fast an exported model translates, compared with CTranslate2 and the same weights.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --checkpoint runs/en_de --source test.en --reference test.de

The first command measures models with random weights, which generate exactly 20 tokens for every
sentence. The second also measures a trained model, whose translations have their natural length.
Our engines translate text to text; CTranslate2 translates tokens to tokens. All engines take turns,
each in its own process.

CTranslate2 runs with one thread and with all of --threads; each cell of the table reports the
faster one. KerasHub, if installed, and OpenNMT-tf, if --opennmt-python names a Python that has it,
are measured with random weights of their own.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.text import made_up_pairs
from benchmarks.turns import Measurement, measure
from keras_transformer import Transformer
from keras_transformer.config import EOS_ID, DecodingConfig
from keras_transformer.data import read_lines
from keras_transformer.evaluation import score
from keras_transformer.export import export_ctranslate2
from keras_transformer.export.saved_model import write_graph
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.devices import available_cores

THEIRS = "CTranslate2"
"""The engine that ours are compared with, at its best number of threads."""
OURS = {
    "ours, portable": (False, "float32"),
    "ours, compiled": (True, "float32"),
    "ours, bfloat16": (False, "bfloat16"),
}
"""Our engines: whether XLA compiles the search, and the dtype of the weights."""
BEAM_SIZES = {1: "greedy", 4: "beam 4"}
SENTENCES = {
    "tiny": {64: 1000, 1: 100},
    "base": {64: 128, 1: 16},
    "trained": {64: 1000, 1: 100},
}
"""For each model and batch size, a number of sentences that takes some seconds to translate."""
FIXED_LENGTH = 20
"""Tokens that a model with random weights generates for every sentence."""
LONGEST = 64
"""Maximum tokens of a source, so that a compiled search has few shapes, and of a translation."""
VOCAB_SIZE = 7000
"""Vocabulary size of models with random weights, unless --checkpoint has another one."""
SIZES = ("vocab_size", "num_layers", "d_model", "d_ff", "num_heads")

HEADER = """\
| model | search | batch | engine | threads | tokens/s | spread | ratio | same | peak MB | others |
|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- threads: intra_op and inter_op threads of TensorFlow, intra_threads of CTranslate2. CTranslate2
  ran with {their_threads}; the table has the faster one for each cell.
- tokens/s: generated tokens (including end-of-sentence) per second, in the median of {repeats} runs
  over the same sentences. spread: slowest minus fastest run, relative to the median. ratio:
  relative to CTranslate2.
- same: translations that equal CTranslate2's token by token; KerasHub and OpenNMT-tf have random
  weights of their own. Ours and CTranslate2 search without a length penalty, which they define
  differently. At the maximum length, which random weights always reach, CTranslate2 returns the
  most probable translation, and ours the most probable one that ends.
- peak MB: peak memory of the engine's process. others: the most cores that other processes kept
  busy during a run. Rows are comparable only if this is small.
- {machine}, {versions}."""


def translators(names: Sequence[str], checkpoint: str | None) -> Iterator[tuple[str, Translator]]:
    """Yield the name of each model and its translator, once for each search."""
    if checkpoint:
        tokenizer = Translator.load(checkpoint).tokenizer
    else:
        lines = (line for pair in made_up_pairs(20_000) for line in pair)
        tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, VOCAB_SIZE))
    for name in names:
        keras.utils.set_random_seed(1)
        model = Transformer.from_size(name, vocab_size=tokenizer.vocab_size)
        for beam_size in BEAM_SIZES:
            yield name, Translator(model, tokenizer, decoding=fixed_length_search(beam_size))
    for beam_size in BEAM_SIZES if checkpoint else ():
        trained = Translator.load(checkpoint)
        search = replace(fixed_length_search(beam_size), min_length=0, max_length=LONGEST)
        tokenizers = trained.tokenizer, trained.target_tokenizer
        yield "trained", Translator(trained.model, *tokenizers, search)


def fixed_length_search(beam_size: int) -> DecodingConfig:
    """Return a search for exactly `FIXED_LENGTH` tokens, without a length penalty."""
    return DecodingConfig(
        beam_size=beam_size,
        length_penalty=0.0,
        min_length=FIXED_LENGTH - 1,  # It does not count eos.
        max_length=FIXED_LENGTH,
        max_source_length=LONGEST,
    )


def export(translator: Translator, folder: Path, engines: Sequence[str]) -> dict[str, Path]:
    """Export a translator for our engines and CTranslate2, and return the path of each."""
    parts = (translator.tokenizer, translator.target_tokenizer, translator.decoding)
    for name in engines:
        compiled, precision = OURS[name]
        # `export_saved_model` would also compile the search for all of its shapes.
        model = translator.model.with_dtype(precision)
        write_graph(Translator(model, *parts, compiled), folder / name)
    export_ctranslate2(translator, folder / THEIRS)
    return {name: folder / name for name in (*engines, THEIRS)}


def compare(
    translator: Translator,
    exports: Mapping[str, Path],
    sentences: Sequence[str],
    *,
    batch_size: int,
    repeats: int,
    threads: int,
    peers: Mapping[str, str],
    of_texts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Measurement]:
    """Translate the same sentences with all exports of a translator, and measure them.

    Args:
        translator: The exported translator.
        exports: The result of `export`.
        sentences: The sentences to translate.
        batch_size: The number of sentences per batch, of similar length.
        repeats: The number of runs of each engine.
        threads: The number of threads of each engine. CTranslate2 also runs with one.
        peers: Names in `benchmarks.engine.PEERS`, each with the Python that runs it. They have the
            sizes of the translator's model and generate the maximum length of its search.
        of_texts: Names in `benchmarks.engine.ENGINES` that translate texts with the translator's
            weights, each with its options.

    Returns:
        The measurement of each engine; CTranslate2's is that of its best number of threads.
    """
    search = translator.decoding
    their_options = {
        "beam_size": search.beam_size,
        "length_penalty": search.length_penalty,
        "min_decoding_length": search.min_length,
        "max_decoding_length": search.max_length,
        # Tokens that our search never generates.
        "disable_unk": True,
        "suppress_sequences": [["<pad>"], ["<s>"]],
        "return_end_token": True,
    }
    ids = translator.tokenizer.tokenize(sentences)
    tokens = [translator.tokenizer.id_to_piece(row) for row in ids]
    order = sorted(range(len(sentences)), key=lambda i: len(tokens[i]))
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    with_eos = [[*row, EOS_ID] for row in ids.to_list()]
    sizes = {size: getattr(translator.model.config, size) for size in SIZES}
    sizes |= {"beam_size": search.beam_size, "length": search.max_length}

    def task(engine, rows, python=sys.executable, threads=threads, **options):
        return {
            "engine": engine,
            "python": python,
            "threads": threads,
            "options": options,
            "batches": [[rows[i] for i in batch] for batch in batches],
        }

    tasks = {name: task("SavedModel", sentences, path=str(path)) for name, path in exports.items()}
    del tasks[THEIRS]
    their_options["path"] = str(exports[THEIRS])
    candidates = {f"{THEIRS}, threads: {n}": n for n in numbers_of_threads(threads)}
    for name, number in candidates.items():
        tasks[name] = task(THEIRS, tokens, threads=number, **their_options)
    tasks |= {name: task(name, with_eos, python, **sizes) for name, python in peers.items()}
    of_texts = of_texts or {}
    tasks |= {name: task(name, sentences, **options) for name, options in of_texts.items()}
    found = measure(tasks, repeats)
    tried = [found.pop(name) for name in candidates]
    found[THEIRS] = max(tried, key=lambda measurement: measurement.tokens_per_second)
    target = translator.target_tokenizer
    id_of = {piece: i for i, piece in enumerate(target.id_to_piece(range(target.vocab_size)))}
    theirs = tf.ragged.constant(
        [[id_of[piece] for piece in row] for row in found[THEIRS].tokens], tf.int32, ragged_rank=1
    )
    found[THEIRS].texts = [text.decode() for text in target.detokenize(theirs).numpy()]
    places = sorted(range(len(order)), key=order.__getitem__)
    for name in (*exports, *of_texts):
        measurement = found[name]
        measurement.tokens = [measurement.tokens[place] for place in places]
        measurement.texts = [measurement.texts[place] for place in places]
    return {name: found[name] for name in (*exports, *of_texts, *peers)}


def numbers_of_threads(threads: int) -> list[int]:
    """Return the numbers of threads that CTranslate2 tries: 1 and all.

    >>> numbers_of_threads(4), numbers_of_threads(1)
    ([1, 4], [1])
    """
    return sorted({1, threads})


def installed_peers(opennmt_python: str | None) -> dict[str, str]:
    """Return the peers that can be measured, each with the Python that runs it."""
    peers = {"KerasHub": sys.executable} if importlib.util.find_spec("keras_hub") else {}
    if opennmt_python:
        peers["OpenNMT-tf"] = shutil.which(opennmt_python) or opennmt_python
    return {name: os.path.abspath(python) for name, python in peers.items()}


def table_row(
    model: str, search: str, batch_size: int, engine: str, ours: Measurement, theirs: Measurement
) -> str:
    """Return a line of the table, from the measurements of an engine and of CTranslate2."""
    cells = (
        *(model, search, batch_size, engine, ours.threads),
        f"{ours.tokens_per_second:,.0f}",
        f"{ours.spread:.0%}",
        f"{ours.tokens_per_second / theirs.tokens_per_second:.2f}",
        f"{ours.share_same(theirs):.1%}" if ours.texts else "",
        f"{ours.peak_memory / 1e6:,.0f}",
        f"{max(ours.other_cores):.1f}",
    )
    return table_line(cells)


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure all cells, and yield the lines of a Markdown table and its notes."""
    sentences = (
        read_lines(args.source) if args.source else [text for text, _ in made_up_pairs(1000)]
    )
    references = read_lines(args.reference) if args.reference else None
    peers = installed_peers(args.opennmt_python)
    engines = [name for name, (_, kind) in OURS.items() if args.bfloat16 or kind == "float32"]
    versions, scores = {}, []
    yield HEADER
    for name, translator in translators(args.models, args.checkpoint):
        search = BEAM_SIZES[translator.decoding.beam_size]
        with tempfile.TemporaryDirectory() as folder:
            exports = export(translator, Path(folder), engines)
            for batch_size, count in SENTENCES[name].items():
                count = min(count, len(sentences))
                chosen = [i * len(sentences) // count for i in range(count)]
                found = compare(
                    translator,
                    exports,
                    [sentences[i] for i in chosen],
                    batch_size=batch_size,
                    repeats=args.repeats,
                    threads=args.threads,
                    peers={} if name == "trained" else peers,
                )
                for engine, measurement in found.items():
                    yield table_row(name, search, batch_size, engine, measurement, found[THEIRS])
                    versions[measurement.version] = None
                    if name == "trained" and references:
                        expected = [references[i] for i in chosen]
                        result = score(measurement.texts, expected)
                        scores.append(f"- {search}, batch {batch_size}, {engine}: {result}")
    yield NOTES.format(
        repeats=args.repeats,
        their_threads=" and ".join(map(str, numbers_of_threads(args.threads))),
        machine=describe_machine(),
        versions=", ".join(versions),
    )
    yield from scores


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of how engines run: `--repeats`, `--threads` and `--output`."""
    parser.add_argument("--repeats", type=int, default=5, help="runs of each engine (default 5)")
    cores = available_cores()
    parser.add_argument(
        "--threads", type=int, default=cores, help=f"threads of each engine (default {cores})"
    )
    parser.add_argument("--output", type=Path, help="file for the report")


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--models", nargs="*", choices=["tiny", "base"], default=["tiny", "base"])
    parser.add_argument("--checkpoint", help="run directory, to measure its model too")
    parser.add_argument("--opennmt-python", help="a Python with OpenNMT-tf, to measure it too")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="also measure bfloat16 weights, for processors that multiply in it",
    )
    parser.add_argument("--source", help="sentences, text or .gz (default: made-up words)")
    parser.add_argument("--reference", help="their translations, for BLEU with --checkpoint")
    add_run_options(parser)
    args = parser.parse_args(argv)
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
