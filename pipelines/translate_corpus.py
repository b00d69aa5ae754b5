"""Translate the files of a corpus, shard by shard, in this process or on a Ray cluster.

Usage:
    python -m pipelines.translate_corpus --model saved_models/en_de --input news.txt.gz --output out
    python -m pipelines.translate_corpus --model /shared/en_de --input 'corpus/*.gz' \
        --output out --engine ray --address auto

A command that was stopped continues when it is given again.
"""

import argparse
import contextlib
import functools
import glob
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.cli.cluster import Task, add_engine_options, check_engine_options, engine
from pipelines.cli.errors import FAILED, plain_errors, stop_on_signals
from pipelines.cli.models import Translate, find_cuts, load_model
from pipelines.cli.parser import Parser, add_model_options, search_options
from pipelines.cli.process import import_tensorflow, start_log
from pipelines.cli.text import one_line
from pipelines.translate import check_unprotected

if TYPE_CHECKING:
    from keras_transformer.data.shards import Shard, ShardedCorpus


class ShardTranslation(NamedTuple):
    """The translation of a shard."""

    lines: list[str]
    """The translation of each line, or its n-best list."""
    cut: list[str]
    """Warnings of lines that are longer than the model reads."""
    words: int
    """Number of words of the lines."""
    loading: float
    """The seconds until the model was loaded; 0 if it was before."""
    translating: float
    """The seconds after that."""
    worker: tuple[str, int]
    """The machine and the process."""


@plain_errors(lambda: "Interrupted. Give the same command again to continue.")
def main(
    argv: Sequence[str] | None = None, prog: str = "python -m pipelines.translate_corpus"
) -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    add_model_options(parser)
    parser.add_argument(
        "--input",
        required=True,
        nargs="+",
        metavar="FILE",
        help="files, patterns or addresses: text, .jsonl or .parquet, also .gz, .xz and .zst",
    )
    parser.add_argument("--output", required=True, metavar="DIRECTORY", help="or its address")
    _add_column_options(parser)
    parser.add_argument(
        "--lines", type=int, default=100_000, metavar="N", help="lines of a shard (default 100000)"
    )
    add_engine_options(parser)
    args = parser.parse_args(argv)
    _check(parser, args)
    start_log()
    import_tensorflow()
    from keras_transformer.data.encoded_files import locked
    from keras_transformer.data.formats import corpus_file
    from keras_transformer.data.shards import LOCK, ShardedCorpus, check_directory
    from keras_transformer.utils.files import as_path

    # By its name, also where this file is run as a program; Ray would copy a function of that.
    from pipelines.translate_corpus import translate_lines

    output, new = as_path(args.output), _new_columns(args)
    files = [corpus_file(path, args.column, new) for path in _paths(args.input)]
    check_directory(output)
    model = _found_model(args.model)
    if args.scores or args.num_hypotheses is not None:
        check_unprotected(args, "--scores" if args.scores else "--num-hypotheses")
    options = _model_options(args, model=model, checksum=_checksum(model))
    if args.scores and args.num_hypotheses is None:
        options.num_hypotheses = "1"
    translate_lines(options, ["a"])  # A mistake in the options is noticed before the work.
    facts = {"model": options.checksum, "options": search_options(args)}
    if args.column is not None:
        facts["columns"] = [args.column, *new]
    output.mkdir(parents=True, exist_ok=True)
    with stop_on_signals(), locked(output / LOCK), engine(args) as run:
        corpus = ShardedCorpus(files, output, lines=args.lines, facts=facts)
        tasks = (Task(shard, (lines, shard.name)) for shard, lines in corpus.missing())
        answered = run(functools.partial(translate_lines, options), tasks)
        _translate(corpus, answered, lambda lines: _columns(args, model, lines))


def _paths(given: Sequence[str]) -> list[str]:
    """Return the files of --input, each once."""
    from keras_transformer.utils.files import as_path

    def found(each: str) -> list[str]:
        path = as_path(each)
        if path.exists() or not glob.has_magic(each):
            return [each]
        if isinstance(path, Path):
            return sorted(glob.glob(str(path))) or [each]
        return sorted(map(path.fs.unstrip_protocol, path.fs.glob(path.path))) or [each]

    return list(dict.fromkeys(path for each in given for path in found(each)))


def _add_column_options(parser: Parser) -> None:
    group = parser.add_argument_group(
        "columns", "Of JSON lines and Parquet, whose other columns are kept."
    )
    group.add_argument("--column", metavar="NAME", help="the column with the text")
    group.add_argument("--scores", action="store_true", help="also write a column score")
    group.add_argument(
        "--model-column", action="store_true", help="also write a column model: name and version"
    )


def _new_columns(args: argparse.Namespace) -> list[str]:
    """Return the names of the columns that are written."""
    n_best = args.num_hypotheses is not None
    names = ["translations", "scores"] if n_best else ["translation"]
    names += ["score"] if args.scores and not n_best else []
    return [*names, "model"] if args.model_column else names


def _columns(args: argparse.Namespace, model: str, lines: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns to write of the answers to some lines, by name."""
    if args.column is None:
        return {"translation": list(lines)}
    names, values = _new_columns(args), [list[Any](lines)]
    if args.scores or args.num_hypotheses is not None:
        lists = [[each.split("\t", 2) for each in line.split("\n")] for line in lines]
        values = [[[each[2] for each in best] for best in lists]]
        values += [[[float(each[1]) for each in best] for best in lists]]
        if args.num_hypotheses is None:
            values = [[first for [first] in column] for column in values]
    if args.model_column:
        path = Path(model)
        name = f"{path.parent.name} {path.name}" if path.name.isdecimal() else path.name
        values.append([name] * len(lines))
    return dict(zip(names, values, strict=True))


def _check(parser: Parser, args: argparse.Namespace) -> None:
    check_engine_options(parser, args)
    for option in ("scores", "model_column"):
        if getattr(args, option) and args.column is None:
            parser.error(
                f"--{option.replace('_', '-')} needs a format with columns, JSON lines or Parquet, "
                "and --column"
            )
    parser.exclude(args, "--protect", "--scores", "--num-hypotheses")
    if args.lines < 1:
        parser.error(f"--lines must be at least 1, received {args.lines}")


def _found_model(model: str) -> str:
    """Return the path of a model, or of its highest version, whatever is added later."""
    from keras_transformer.utils.versions import find_saved_model

    version = None if (Path(model) / "config.yaml").exists() else find_saved_model(model)
    return os.path.abspath(version or model)


def _checksum(model: str) -> str:
    """Return what identifies a model: a checksum of the checksums of its files."""
    from keras_transformer.utils.checksums import FILE, sample_checksum

    record = Path(model) / FILE
    return sample_checksum(record) if record.exists() else model


def _translate(
    corpus: "ShardedCorpus",
    answers: Iterator[tuple["Shard", ShardTranslation | Exception]],
    columns: Callable[[Sequence[str]], dict[str, list[Any]]],
) -> None:
    """Write the answers of an engine as they come, in some columns, and report."""
    from keras_transformer.data.shards import BAD_LINES
    from keras_transformer.training.progress import duration

    total = sum(shard.size for shard in corpus.shards)
    done = sum(shard.size for shard in corpus.shards if shard.name in corpus.finished)
    if done:
        print(f"continuing: {done:,} of {total:,} lines are finished", file=sys.stderr)
    before, failed, started = done, 0, time.monotonic()
    took = dict.fromkeys(("loading", "translating", "writing"), 0.0)
    words, workers = 0, set()
    for shard, found in answers:
        if isinstance(found, Exception):
            failed += 1
            print(f"{shard.name}: not translated: {found}", file=sys.stderr)
            continue
        began = time.monotonic()
        corpus.write(shard, columns(found.lines))
        took["loading"] += found.loading
        took["translating"] += found.translating
        took["writing"] += time.monotonic() - began
        words += found.words
        workers.add(found.worker)
        for warning in found.cut[:1]:
            more = f" (and {len(found.cut) - 1:,} more)" if found.cut[1:] else ""
            print(f"{shard.name}: {warning}{more}", file=sys.stderr)
        done += shard.size
        seconds = time.monotonic() - started
        speed = (done - before) / seconds
        left = duration((total - done) / speed) if speed else "?"
        print(
            f"{shard.name}: {done:,} of {total:,} lines, {speed:,.0f} lines/s, {left} left",
            file=sys.stderr,
        )
    seconds = time.monotonic() - started
    print(f"{done:,} of {total:,} lines in {len(corpus.finished):,} files in {corpus.directory}")
    if done > before:
        busy = (took["loading"] + took["translating"]) / seconds / len(workers)
        print(
            f"{done - before:,} of them, with {words:,} words, in {duration(seconds)}; "
            f"workers: {len(workers)}, waiting {max(1 - busy, 0):.0%} of the time"
        )
        print("seconds: " + ", ".join(f"{stage} {each:,.1f}" for stage, each in took.items()))
    if corpus.bad_lines:
        print(f"without a translation, as they have no text: {corpus.bad_lines:,}, see {BAD_LINES}")
    if failed:
        print(f"missing files: {failed:,}. Give the same command again.", file=sys.stderr)
        sys.exit(FAILED)


def translate_lines(
    args: argparse.Namespace, lines: Sequence[str], what: str = ""
) -> ShardTranslation:
    """Translate the lines of a shard; what any engine does.

    Equal lines are translated once. A process loads the model the first time only.

    Args:
        args: The options of `add_model_options`.
        lines: The lines.
        what: The name of the shard, for its progress; without one, there is none.
    """
    from keras_transformer.utils.progress import progress

    began = time.monotonic()
    translate, cuts = _loaded(tuple(sorted(vars(args).items())))
    started = time.monotonic()
    distinct = list(dict.fromkeys(lines))
    shown = progress(f"{what}, {len(distinct):,} distinct lines", "lines")
    with shown if what else contextlib.nullcontext(lambda count: None) as advance:
        answered = translate(distinct, lambda batch: advance(len(batch)))
    found = dict(zip(distinct, answered, strict=True))
    n_best = args.num_hypotheses is not None
    answers = [found[line] if n_best else one_line(found[line]) for line in lines]
    cut = list(cuts(lines))
    words = sum(len(line.split()) for line in lines)
    worker = socket.gethostname(), os.getpid()
    took = started - began, time.monotonic() - started
    return ShardTranslation(answers, cut, words, *took, worker)


@functools.lru_cache(maxsize=1)
def _loaded(
    options: tuple[tuple[str, Any], ...],
) -> tuple[Translate, Callable[[Sequence[str]], Iterator[str]]]:
    args = argparse.Namespace(**dict(options))
    if (found := _checksum(args.model)) != args.checksum:
        raise ValueError(
            f"All machines must have the same model, received another in {args.model}: {found}, "
            f"expected {args.checksum}. Copy it there."
        )
    return load_model(args, args.num_hypotheses is not None), find_cuts(args)


def _model_options(args: argparse.Namespace, **changed: Any) -> argparse.Namespace:
    """Return the options of `add_model_options` alone, for a worker."""
    parser = Parser()
    add_model_options(parser)
    names = vars(parser.parse_args(["--model", ""]))
    return argparse.Namespace(**{name: getattr(args, name) for name in names} | changed)


if __name__ == "__main__":
    main()
