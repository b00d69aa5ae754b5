"""Measure how fast an imported Marian model translates, compared with Hugging Face and CTranslate2.

    python -m benchmarks.imported --source train.en --target train.de

The model has random weights, and the architecture and layers of most OPUS-MT models, which have the
size of the paper's base model; its vocabulary is smaller. It is written as a folder of Hugging
Face's `MarianMTModel`, imported, and exported. Hugging Face runs the folder in PyTorch. All engines
take turns, each in its own process, and generate 20 tokens for every sentence.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import keras

from benchmarks.decoding import (
    BEAM_SIZES,
    FIXED_LENGTH,
    HEADER,
    LONGEST,
    OURS,
    SENTENCES,
    THEIRS,
    add_run_options,
    compare,
    export,
    fixed_length_search,
    numbers_of_threads,
    table_row,
)
from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report
from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig
from keras_transformer.data import read_pairs
from keras_transformer.presets import PRESETS
from keras_transformer.pretrained import import_marian, save_hugging_face
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.translation.translator import Translator

NOTES = """
- threads: those of each engine. CTranslate2 ran with {their_threads}; the table has the faster one
  for each cell.
- tokens/s: generated tokens per second, in the median of {repeats} runs over the same sentences.
  spread: slowest minus fastest run, relative to the median. ratio: relative to CTranslate2.
- Ours and Hugging Face translate text to text; CTranslate2 translates tokens to tokens.
- same: translations that equal CTranslate2's token by token. With a beam, the engines choose
  differently among translations of the maximum length, which random weights always reach.
- peak MB: peak memory of the engine's process. others: the most cores that other processes kept
  busy during a run.
- {machine}, {versions}."""

OPUS = {
    "activation": "swish",
    "use_bias": True,
    "use_output_bias": True,
    "position": "tensor2tensor",
    "layer_norm_epsilon": 1e-5,
}
"""Settings in which OPUS-MT differs from the paper."""


def write_model(folder: Path, size: str, pairs: Sequence[tuple[str, str]], vocab_size: int) -> None:
    """Write a `MarianMTModel` of a preset's size, with random weights and a text's vocabulary."""
    keras.utils.set_random_seed(1)
    tokenizer = SentencePieceTokenizer(train_sentencepiece(chain(*pairs), vocab_size))
    config = replace(PRESETS[size].model, vocab_size=tokenizer.vocab_size, **OPUS)
    search = DecodingConfig(style="transformers", max_length=LONGEST, max_source_length=LONGEST)
    save_hugging_face(Translator(Transformer(config), tokenizer, decoding=search), folder)


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure all cells, and yield the lines of a Markdown table and its notes."""
    pairs = read_pairs(args.source, args.target)
    versions: dict[str, None] = {}
    yield HEADER
    with tempfile.TemporaryDirectory() as directory:
        marian = Path(directory) / "marian"
        write_model(marian, args.model, pairs, args.vocab_size)
        imported = import_marian(marian)
        for beam_size, search in BEAM_SIZES.items():
            parts = imported.model, imported.tokenizer, imported.target_tokenizer
            translator = Translator(*parts, fixed_length_search(beam_size))
            exports = export(translator, Path(directory) / search, tuple(OURS))
            options = {"path": str(marian), "beam_size": beam_size, "length": FIXED_LENGTH}
            for batch_size, count in SENTENCES["base"].items():
                chosen = [pairs[i * len(pairs) // count][0] for i in range(count)]
                found = compare(
                    translator,
                    exports,
                    chosen,
                    batch_size=batch_size,
                    repeats=args.repeats,
                    threads=args.threads,
                    peers={},
                    of_texts={"Hugging Face": options},
                )
                for engine, measurement in found.items():
                    versions[measurement.version] = None
                    cells = args.model, search, batch_size, engine
                    yield table_row(*cells, measurement, found[THEIRS])
    yield NOTES.format(
        repeats=args.repeats,
        their_threads=" and ".join(map(str, numbers_of_threads(args.threads))),
        machine=describe_machine(),
        versions=", ".join(versions),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--source", required=True, help="text for the vocabulary, or .gz")
    parser.add_argument("--target", required=True, help="its translations, line by line")
    parser.add_argument("--model", choices=["tiny", "base"], default="base", help="default base")
    parser.add_argument("--vocab-size", type=int, default=16_000, help="tokens (default 16000)")
    add_run_options(parser)
    args = parser.parse_args(argv)
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
