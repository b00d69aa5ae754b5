"""Propose a configuration for a text on this machine, after a few steps of models of each size.

Usage:
    python -m pipelines.plan --source train.en --target train.de --validation-source valid.en \\
        --validation-target valid.de --hours 8 --output plan.yaml
"""

import itertools
import math
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.cli.errors import MISTAKE, Failed, plain_errors, stop_on_signals
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow


class Size(NamedTuple):
    """A size of model, and the highest learning rate that suits it."""

    model: Mapping[str, int]
    rate: float


SIZES = {
    "tiny": Size({"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4}, 2e-3),
    "small": Size({"num_layers": 4, "d_model": 256, "d_ff": 1024, "num_heads": 4}, 1e-3),
    "base": Size({"num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8}, 7e-4),
    "big": Size({"num_layers": 6, "d_model": 1024, "d_ff": 4096, "num_heads": 16}, 5e-4),
}
"""Sizes of models, smallest first."""


class Amount(NamedTuple):
    """What suits up to a number of pairs.

    Attributes:
        pairs: The number of pairs.
        vocab_size: Tokens of the vocabulary.
        dropout: The dropout rate.
        passes: How often to read the text.
        largest: The largest size of model.
    """

    pairs: float
    vocab_size: int
    dropout: float
    passes: int
    largest: str


AMOUNTS = (
    Amount(5_000, 1_000, 0.3, 100, "tiny"),
    Amount(20_000, 4_000, 0.3, 60, "tiny"),
    Amount(50_000, 8_000, 0.2, 32, "tiny"),
    Amount(300_000, 8_000, 0.2, 32, "small"),
    Amount(1_000_000, 16_000, 0.1, 20, "base"),
    Amount(5_000_000, 32_000, 0.1, 12, "base"),
    Amount(math.inf, 37_000, 0.1, 8, "big"),
)


class Kind(NamedTuple):
    """What suits a kind of text, and why."""

    reason: str
    data: Mapping[str, Any]
    decoding: Mapping[str, Any]


MESSAGES = Kind(
    "placeholders or tags in {:.0%} of the sources: filters and user symbols for messages",
    {
        "filters": ["messages"],
        "normalization": "identity",
        "user_symbols": ["printf", "python", "html", "accelerators", r"\n"],
    },
    {"style": "marian", "length_penalty": 1.2},
)
PROSE = Kind(
    "placeholders or tags in {:.0%} of the sources: filters for prose",
    {"filters": ["prose"]},
    {"length_penalty": 1.0},
)
_SHARE_OF_CODE = 0.05
_FEWEST = 1_000
_SAMPLE = 100_000
"""Pairs that the vocabulary of the trial is trained on, and its batches made of."""
_LEAST_STEPS = 100
"""Steps of a pass, below which batches are smaller than the machine could take."""
_BYTES = 260
"""Tokens of every vocabulary: all bytes, and four control tokens."""
_MANY_CHARACTERS = 1_000
_LONGEST_EPOCH = 0.5
"""Hours of an epoch, after which a run validates."""


class Trial(NamedTuple):
    """What a few steps with a size of model say."""

    size: str
    batch_tokens: int
    tokens_per_second: float
    tokens_per_pass: float
    steps_per_pass: int
    memory: int

    def hours(self, passes: float) -> float:
        """Return the hours of a run, without validation."""
        return passes * self.tokens_per_pass / self.tokens_per_second / 3600

    def line(self, passes: int) -> str:
        """Return what a person reads of it."""
        return (
            f"{self.size}: {self.tokens_per_second:,.0f} tokens/s, {self.memory / 1e9:.1f} GB, "
            f"{self.hours(passes):.2g} hours for {passes} passes"
        )


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.plan") -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    text = parser.add_argument_group(
        "text",
        "One sentence a line, plain, gzip, xz or zstd; or pairs, such as .tsv and .po.",
    )
    text.add_argument("--source", required=True, help="training text, or a file of pairs")
    text.add_argument("--target", help="its translations, line by line")
    text.add_argument("--validation-source", required=True, help="text that chooses the weights")
    text.add_argument("--validation-target", help="its translations, line by line")
    parser.add_argument(
        "--hours", type=float, default=24, help="longest time that training may take (default 24)"
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="configuration to write")
    args = parser.parse_args(argv)
    if not args.hours > 0:
        parser.error(f"--hours must be positive, received {args.hours:g}")
    output = Path(args.output)
    if output.is_file():
        raise Failed(f"error: {output} exists already. Remove it, or give another file.", MISTAKE)
    parser.check_outputs(args, ["--output"])
    with plain_errors(lambda: "Interrupted. Nothing was written."), stop_on_signals():
        import_tensorflow(training=True)
        names = ("source", "target", "validation_source", "validation_target")
        files = {name: str(Path(path)) for name in names if (path := getattr(args, name))}
        values, reasons = propose(files, args.hours)
        _write(output, values, reasons)
    print(f"{output} has the configuration; change in it what you like. Train with it:")
    config = shlex.quote(str(output))
    print(f"  {prog.removesuffix('plan')}train --config {config} --output runs/NAME")


def propose(files: Mapping[str, str], hours: float) -> tuple[dict[str, Any], list[str]]:
    """Return a configuration as nested dictionaries, and what led to it, line by line.

    Args:
        files: `source` and `validation_source`, and `target` and `validation_target` if there are
            any.
        hours: The longest time that training may take.

    Raises:
        FileNotFoundError, ValueError: If the text cannot be read, or there is none.
    """
    from keras_transformer.data.sources import check_rereadable, stream_pairs

    check_rereadable(*files.values())
    pairs = sum(1 for _ in stream_pairs(files["source"], files.get("target")))
    if pairs < _FEWEST:
        raise ValueError(
            f"A plan needs at least {_FEWEST:,} pairs, received {pairs:,} in {files['source']}. To "
            "see how training works, run the quickstart; for a few pairs, fine-tune a model."
        )
    validation = files["validation_source"], files.get("validation_target")
    if not any(True for _ in stream_pairs(*validation)):
        raise ValueError(f"A plan needs validation text, received none in {validation[0]}.")
    amount = next(each for each in AMOUNTS if pairs <= each.pairs)
    reasons: list[str] = []

    def note(line: str) -> None:
        reasons.append(line)
        print(line, flush=True)

    sizes = list(SIZES)[: list(SIZES).index(amount.largest) + 1]
    with tempfile.TemporaryDirectory() as folder:
        sample = _write_sample(files, pairs, Path(folder))
        amount = amount._replace(vocab_size=max(amount.vocab_size, sample.least_vocab_size))
        note(f"{pairs:,} pairs: {amount.passes} passes, a vocabulary of {amount.vocab_size:,}")
        share = sample.pairs / pairs
        amount, first = _first_trial(sizes[0], amount, sample, share, note)
        trials = [first]
        note(first.line(amount.passes))
        for size in sizes[1:]:
            if trials[-1].hours(amount.passes) > hours:
                break  # A larger one takes longer.
            trials.append(_try(size, amount, sample.data, share, first.batch_tokens))
            note(trials[-1].line(amount.passes))
    note(sample.kind.reason.format(sample.share_of_code))
    return _configuration(files, sample, amount, trials, hours, note), reasons


class Sample(NamedTuple):
    """Some of the pairs.

    Attributes:
        data: Their files, as the `data` of an experiment.
        pairs: Their number.
        share_of_code: The share of pairs whose source has placeholders or tags.
        characters: The number of different characters.
    """

    data: dict[str, Any]
    pairs: int
    share_of_code: float
    characters: int

    @property
    def least_vocab_size(self) -> int:
        """The tokens of a vocabulary with as many others as characters, in hundreds."""
        return 100 * math.ceil(2 * self.characters / 100)

    def vocab_size_below(self, most: int) -> int:
        """Return a size that is left of a largest one where filters drop some of the text."""
        least = min(most, _BYTES + self.characters)
        return most - (most - least) // 4

    @property
    def coverage(self) -> dict[str, float]:
        """What SentencePiece recommends for Chinese and Japanese: rare characters are bytes."""
        return {"character_coverage": 0.9995} if self.characters > _MANY_CHARACTERS else {}

    @property
    def kind(self) -> Kind:
        """What suits the text."""
        return MESSAGES if self.share_of_code >= _SHARE_OF_CODE else PROSE


def _write_sample(files, pairs, folder):
    """Write evenly spaced pairs to files."""
    from keras_transformer.data.sources import stream_pairs
    from keras_transformer.text.patterns import PLACEHOLDERS, find_symbols

    every = -(-pairs // _SAMPLE)
    chosen = islice(stream_pairs(files["source"], files.get("target")), 0, None, every)
    paths = {side: folder / side for side in ("source", "target")}
    number, with_code = -(-pairs // every), 0
    characters: set[str] = set()
    with open(paths["source"], "w") as sources, open(paths["target"], "w") as targets:
        for source, target in chosen:
            print(source, file=sources)
            print(target, file=targets)
            characters.update(source, target)
            with_code += bool(find_symbols(source, *PLACEHOLDERS, "html"))
    parts = itertools.product(("train", "validation"), paths.items())
    data = {f"{part}_{side}": str(path) for part, (side, path) in parts}
    data["cache"] = str(folder / "text")
    sample = Sample(data, number, with_code / number, len(characters))
    return sample._replace(data={**data, **sample.coverage})


def _first_trial(size, amount, sample, share, note):
    """Return the amount, with a vocabulary that its text fills, and the trial of the first size."""
    from keras_transformer.text.sentencepiece import VocabularyTooLargeError
    from keras_transformer.utils.devices import has_gpu

    batch_tokens = 25_000 if has_gpu() else 4096
    try:
        trial = _try(size, amount, sample.data, share, batch_tokens)
    except VocabularyTooLargeError as error:
        amount = amount._replace(vocab_size=sample.vocab_size_below(error.largest))
        note(f"its words fill at most {error.largest:,}: a vocabulary of {amount.vocab_size:,}")
        trial = _try(size, amount, sample.data, share, batch_tokens)
    if trial.steps_per_pass < _LEAST_STEPS:
        batch_tokens = max(2048, batch_tokens * trial.steps_per_pass // _LEAST_STEPS)
        trial = _try(size, amount, sample.data, share, batch_tokens)
    return amount, trial


def _try(size, amount, data, share, batch_tokens):
    """Make a few steps with a size of model on a share of the text, and return the `Trial`."""
    from keras_transformer.config import ExperimentConfig
    from keras_transformer.training import dry_run

    model = {**SIZES[size].model, "vocab_size": amount.vocab_size, "dropout": amount.dropout}
    training = {"batch_tokens": batch_tokens, "warmup_steps": 1}
    config = ExperimentConfig.from_dict({"model": model, "data": data, "training": training})
    with tempfile.TemporaryDirectory() as folder:
        found = dry_run(config, Path(folder) / size)
    tokens = found.tokens_per_second * found.seconds_per_step * found.steps_per_epoch / share
    steps = round(found.steps_per_epoch / share)
    return Trial(size, batch_tokens, found.tokens_per_second, tokens, steps, found.peak_bytes)


def _configuration(files, sample, amount, trials, hours, note):
    """Return the configuration of the largest size whose run takes at most `hours`."""
    fitting = [trial for trial in trials if trial.hours(amount.passes) <= hours]
    trial = fitting[-1] if fitting else trials[0]
    passes = min(amount.passes, max(1, int(amount.passes * hours / trial.hours(amount.passes))))
    if passes < amount.passes:
        note(
            f"{hours:g} hours are enough for {passes} of {amount.passes} passes: the model will "
            "not have learned what it could"
        )
    steps = passes * trial.steps_per_pass
    warmup = min(4000, max(1, steps * 15 // 100))
    size, kind = SIZES[trial.size], sample.kind
    scale = min(1.0, size.rate * math.sqrt(size.model["d_model"] * warmup))
    training = {
        "epochs": passes,
        "batch_tokens": trial.batch_tokens,
        "warmup_steps": warmup,
        "learning_rate_scale": float(f"{scale:.2g}"),
    }
    epochs = math.ceil(trial.hours(passes) / _LONGEST_EPOCH)
    if epochs > passes:
        training |= {"epochs": epochs, "steps_per_epoch": steps // epochs}
    note(
        f"chosen: {trial.size}, {passes} passes of {trial.steps_per_pass:,} steps, "
        f"{trial.hours(passes):.2g} hours and the time of validation"
    )
    return {
        "model": {"vocab_size": amount.vocab_size, **size.model, "dropout": amount.dropout},
        "data": {
            **{name if "_" in name else f"train_{name}": path for name, path in files.items()},
            **kind.data,
            **sample.coverage,
        },
        "training": training,
        "decoding": {"beam_size": 5, **kind.decoding},
    }


def _write(output, values, reasons):
    """Write the configuration, with the reasons as comments, and check that it is valid."""
    import yaml

    from keras_transformer.config import ExperimentConfig
    from keras_transformer.utils.files import whole_file

    ExperimentConfig.from_dict(values)
    comments = "".join(f"# {line}\n" for line in reasons)
    with whole_file(output) as temporary:
        text = comments + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
