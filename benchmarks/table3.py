"""Table 3 of the paper, scaled down: its variations of the model, trained on Multi30k.

    python -m benchmarks.table3 --data data/multi30k --output runs/table3 --report table3.md

Each row has a quarter of the paper's widths and half of its layers, and is trained in its own
directory with the same vocabulary, text and recipe. The table is printed row by row, followed by
whether the paper's conclusions hold. Without a GPU each core trains one row at a time, and all rows
take about three hours on two cores. Repeat the command to continue after an interruption, and with
more --epochs to continue finished rows.
"""

import contextlib
import dataclasses
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

from benchmarks.machine import Stopwatch, describe_machine
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.table3_rows import (
    BASE,
    MAX_LENGTH,
    PAPER,
    RECIPE,
    Judgment,
    Scores,
    experiments,
    judgments,
)
from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.data import read_pairs
from keras_transformer.presets import count_parameters
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.training import train
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.run_directory import read_state, settle
from keras_transformer.utils.files import whole_file
from pipelines.cli.errors import plain_errors
from pipelines.cli.process import start_log

HEADER = """\
| row | N | d_model | d_ff | h | d_k | d_v | P_drop | eps_ls | epochs | perplexity | BLEU \
| the paper's | parameters | minutes | others |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
DIRECTIONS_HEADER = """
| conclusion of the paper | measure | the paper's difference | here | spread of seeds | here it |
|---|---|--:|--:|--:|---|"""
NOTES = """
- Rows have the paper's names. Their d_model, d_ff, d_k and d_v are a quarter of the paper's, N is
  half.
- perplexity: per subword of the validation text, without smoothing. BLEU: sacreBLEU of the same
  text, with the paper's beam search. Both use the weights of the last epoch, not averaged. the
  paper's: both on newstest2013.
- minutes: of the command that finished the row, validation included. others: cores kept busy by
  other processes at the same time, other rows included.
- A difference is positive if the row that the paper found better is better here too. base is the
  mean of its seeds ({seeds}); the spread of seeds is the largest minus the smallest of them. Other
  rows have one seed, so a difference below that spread shows nothing.
- {machine}."""


@dataclasses.dataclass(frozen=True)
class Result(Scores):
    """The scores of a trained row, and the time it took."""

    minutes: float
    other_cores: float
    """Cores kept busy by other processes at the same time."""


def measure(config: ExperimentConfig, directory: Path, vocabulary: Path) -> Result:
    """Train a row, or finish its training, and return the result."""
    config = settle(config, directory)
    path = directory / "result.json"
    if path.exists() and ExperimentConfig.from_file(directory / "config.yaml") == config:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    read_state(directory, config)  # It refuses a directory of another configuration.
    directory.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # It has fewer epochs.
    SentencePieceTokenizer.from_file(vocabulary).save(directory / "vocabulary.model")
    keras.utils.clear_session()
    # The output of Keras is not part of the table.
    with Stopwatch() as watch, contextlib.redirect_stdout(sys.stderr):
        train(config, directory)
    chosen = json.loads((directory / "chosen.json").read_text(encoding="utf-8"))
    result = Result(
        perplexity=math.exp(read_history(directory)["val_nll"][-1]),
        bleu=chosen["validation_bleu"]["last"],
        minutes=watch.seconds / 60,
        other_cores=watch.other_cores,
    )
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(dataclasses.asdict(result)) + "\n", encoding="utf-8")
    return result


def measure_all(
    rows: Mapping[str, ExperimentConfig], output: Path, processes: int
) -> Iterator[Result]:
    """Train rows, each with its share of the cores, and yield their results in order."""
    vocabulary = _vocabulary(next(iter(rows.values())), output)
    processes = min(processes, len(rows))  # more processes than rows would idle
    if processes == 1:
        for name, config in rows.items():
            yield measure(config, output / name, vocabulary)
        return
    # A process forked from one that runs TensorFlow hangs.
    fresh = multiprocessing.get_context("spawn")
    threads = max(1, os.cpu_count() // processes)
    pool = ProcessPoolExecutor(processes, fresh, _start_process, (threads,))
    # If the longest row started last, it would train alone.
    longest_first = sorted(rows, key=lambda name: -rows[name].training.epochs)
    try:
        results = {
            name: pool.submit(measure, rows[name], output / name, vocabulary)
            for name in longest_first
        }
        yield from (results[name].result() for name in rows)
    finally:
        pool.shutdown(cancel_futures=True)


def _start_process(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    start_log()


def report(rows: Mapping[str, ExperimentConfig], output: Path, processes: int = 1) -> Iterator[str]:
    """Train rows, and yield the lines of the table one by one, then those of its conclusions.

    Args:
        rows: Experiments by name, on the same text and with vocabularies of the same size.
        output: Parent of the rows' directories.
        processes: Number of rows that train at the same time; a single row has all cores.
    """
    results = {}
    yield HEADER
    for name, result in zip(rows, measure_all(rows, output, processes), strict=True):
        results[name] = result
        yield table_row(name, rows[name], result)
    directions = [direction_row(judgment) for judgment in judgments(results)]
    if directions:
        yield DIRECTIONS_HEADER
        yield from directions
    yield NOTES.format(
        seeds=sum(name.startswith(BASE) for name in rows),
        machine=describe_machine("tensorflow", "keras"),
    )


def _vocabulary(config: ExperimentConfig, output: Path) -> Path:
    """Return the file of the vocabulary that all rows share, training it the first time."""
    path = output / "vocabulary.model"
    if not path.exists():
        pairs = read_pairs(config.data.train_source, config.data.train_target)
        lines = [pair[side] for side in (0, 1) for pair in pairs]
        output.mkdir(parents=True, exist_ok=True)
        SentencePieceTokenizer(train_sentencepiece(lines, config.model.vocab_size)).save(path)
    return path


def table_row(name: str, config: ExperimentConfig, result: Result) -> str:
    """Return a row of the table."""
    model, training = config.model, config.training
    key_dim = model.key_dim or model.d_model // model.num_heads
    papers = PAPER.get(name)
    cells = (
        *(name, model.num_layers, model.d_model, model.d_ff, model.num_heads),
        *(key_dim, model.value_dim or key_dim, model.dropout, training.label_smoothing),
        *(training.epochs, f"{result.perplexity:.2f}", f"{result.bleu:.1f}"),
        f"{papers.perplexity:.2f}, {papers.bleu:.1f}" if papers else "",
        *(f"{count_parameters(model):,}", f"{result.minutes:.1f}", f"{result.other_cores:.1f}"),
    )
    return table_line(cells)


def direction_row(judgment: Judgment) -> str:
    """Return a row of the second table."""
    direction, measure = judgment.direction, judgment.measure
    cells = (
        *(direction.claim, {"bleu": "BLEU"}.get(measure, measure)),
        f"{direction.gain(PAPER, measure):+.2f}",
        *(f"{judgment.gain:+.2f}", f"{judgment.spread:.2f}", judgment.verdict),
    )
    return table_line(cells)


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data/multi30k"),
        help="directory with train.en.gz, train.de.gz, val.en.gz and val.de.gz "
        "(default data/multi30k)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("runs/table3"), help="default runs/table3"
    )
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="names of rows (default all)")
    parser.add_argument(
        "--epochs",
        type=int,
        default=RECIPE.epochs,
        help=f"epochs per row (default {RECIPE.epochs})",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1 if tf.config.list_physical_devices("GPU") else os.cpu_count(),
        help="rows to train at the same time (default 1 with a GPU, otherwise one per core)",
    )
    parser.add_argument("--report", type=Path, help="also write the report to this file")
    args = parser.parse_args(argv)
    start_log()
    with plain_errors():
        data = DataConfig(
            train_source=str(args.data / "train.en.gz"),
            train_target=str(args.data / "train.de.gz"),
            validation_source=str(args.data / "val.en.gz"),
            validation_target=str(args.data / "val.de.gz"),
            max_length=MAX_LENGTH,
        )
        rows = experiments(data, dataclasses.replace(RECIPE, epochs=args.epochs))
        if unknown := set(args.rows or ()) - rows.keys():
            raise ValueError(f"Rows are {', '.join(rows)}; received {', '.join(sorted(unknown))}.")
        if args.processes < 1:
            raise ValueError(f"--processes must be at least 1, received {args.processes}.")
    chosen = {name: rows[name] for name in rows if name in (args.rows or rows)}
    print_report(report(chosen, args.output, args.processes), args.report)


if __name__ == "__main__":
    main()
