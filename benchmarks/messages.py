"""What translations of software messages keep, and this project's trainer compared with Marian's.

    python -m benchmarks.messages --source test.en --reference test.de ours.de marian.de
    python -m benchmarks.messages --minutes 60 --marian marian/bin/python --output hour \\
      --config pipelines/configs/software_en_de.yaml

The second command trains on the text of the configuration, with `keras-transformer train` and with
Marian (pip install pymarian, in another environment), at the same time, each on one core, until
both have used these minutes of it. It takes 2 cores. Then each translates the validation text with
a beam of 5, and the report of the first command follows.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from keras_transformer import evaluation
from keras_transformer.config import ExperimentConfig
from keras_transformer.data.sources import read_lines
from keras_transformer.text.patterns import PATTERNS, PLACEHOLDERS

KINDS = {
    "placeholders": "|".join(PATTERNS[name] for name in PLACEHOLDERS),
    "tags": PATTERNS["html"],
    "URLs": PATTERNS["urls"],
    "numbers": r"(?<![%\w])\d+(?:[.,]\d+)*(?!\w)",
    "options": r"(?<![\w-])--?[A-Za-z][\w-]*",
    "accelerators": PATTERNS["accelerators"],
}
MARIAN = """
import sys
from pymarian import Trainer, Translator
if sys.argv[1] == "train":
    sys.exit(Trainer(sys.argv[2]).train())
lines = open(sys.argv[3], encoding="utf-8").read().split("\\n")[:-1]
text = Translator(sys.argv[2]).translate(lines)
open(sys.argv[4], "w", encoding="utf-8").write("\\n".join(text) + "\\n")
"""
TRAIN = (
    "--type transformer --tied-embeddings-all --label-smoothing 0.1 --exponential-smoothing "
    "--optimizer-params 0.9 0.98 1e-09 --clip-norm 1 --learn-rate 0.001 --lr-warmup 500 "
    "--lr-decay-inv-sqrt 500 --mini-batch 1000 --mini-batch-words 1500 --maxi-batch 1000 "
    "--cpu-threads 1 --workspace 2000 --seed 1 --after 1000e --save-freq 100000u --quiet"
)


def kept(sources: Sequence[str], translations: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Count the spans of the sources that their translations have too.

    Args:
        sources: The source texts.
        translations: As many translations.

    Returns:
        For each of `KINDS`, how many of its spans are kept, and how many there are.

    >>> kept(["Copy %d of 2 files with --force"], ["Kopiere %d von zwei Dateien mit --force"])
    {'placeholders': (1, 1), 'numbers': (0, 1), 'options': (1, 1)}
    """
    counts = {}
    for kind, pattern in KINDS.items():
        find = re.compile(pattern).findall
        before = [Counter(_plain(kind, each) for each in find(text)) for text in sources]
        after = [Counter(_plain(kind, each) for each in find(text)) for text in translations]
        if whole := sum(each.total() for each in before):
            pairs = zip(before, after, strict=True)
            counts[kind] = (sum((one & other).total() for one, other in pairs), whole)
    return counts


def _plain(kind: str, span: str) -> str:
    """Return a number without its marks, as 1,000 and 1.000 are the same."""
    return re.sub(r"\D", "", span) if kind == "numbers" else span


def report(
    sources: Sequence[str],
    references: Sequence[str],
    systems: dict[str, Sequence[str]],
    lines: int,
) -> Iterator[str]:
    """Yield the scores of some translations, what they keep, and random lines to read."""
    counts = {name: kept(sources, texts) for name, texts in systems.items()}
    expected = kept(sources, references)
    yield table_line(["", "BLEU", "chrF", *expected])
    yield table_line(["---", *["--:"] * (2 + len(expected))])
    yield table_line(["in the source", "", "", *(whole for _, whole in expected.values())])
    for name, row in [("reference", expected), *counts.items()]:
        scores = evaluation.score(systems[name], references) if name in systems else None
        shown = [f"{scores.bleu:.1f}", f"{scores.chrf:.1f}"] if scores else ["", ""]
        shares = (f"{100 * part / whole:.1f}%" for part, whole in row.values())
        yield table_line([name, *shown, *shares])
    yield ""
    for number in sorted(random.Random(1).sample(range(len(sources)), min(lines, len(sources)))):
        yield f"{number + 1:6} {'source':9} {sources[number]}"
        for name, texts in {"reference": references, **systems}.items():
            yield f"{'':6} {name:9.9} {texts[number]}"


def train(options: argparse.Namespace) -> dict[str, Path]:
    """Train both, and return the files of their translations of the validation text."""
    config, output = ExperimentConfig.from_file(options.config), options.output
    output.mkdir(parents=True)
    data, model = config.data, config.model
    text = {}
    for name in ("train_source", "train_target", "validation_source"):
        text[name] = output / f"{name}.txt"
        text[name].write_text("".join(f"{line}\n" for line in read_lines(getattr(data, name))))
    ours = ["keras-transformer", "train", "--config", str(options.config), "--output"]
    ours += [str(output / "ours"), "--training.precision", options.precision]
    vocabulary = output / "marian.spm"
    sizes = (
        f"--enc-depth {model.num_layers} --dim-emb {model.d_model} "
        f"--dec-depth {model.num_decoder_layers or model.num_layers} "
        f"--transformer-dim-ffn {model.d_ff} --transformer-heads {model.num_heads} "
        f"--transformer-dropout {model.dropout} --max-length {data.max_length} "
        f"--dim-vocabs {model.vocab_size} {model.vocab_size}"
    )
    files = (
        f"--model {output}/marian.npz --vocabs {vocabulary} {vocabulary} --log {output}/marian.log "
        f"--train-sets {text['train_source']} {text['train_target']}"
    )
    theirs = [options.marian, "-c", MARIAN, "train", f"{TRAIN} {sizes} {files}"]
    seconds = run_for(60 * options.minutes, {"ours": ours, "marian": theirs}, output)
    print("seconds of the processor:", {name: round(each) for name, each in seconds.items()})
    hypotheses = {name: output / f"{name}.de" for name in seconds}
    run = ["keras-transformer", "train", "--finish", "--output", str(output / "ours")]
    subprocess.run(run, check=True)
    run = ["keras-transformer", "translate", "--model", str(output / "ours")]
    with open(hypotheses["ours"], "wb") as file:
        subprocess.run([*run, "--input", str(text["validation_source"])], check=True, stdout=file)
    search = f"-m {output}/marian.npz -v {vocabulary} {vocabulary} -b 5 --normalize 1 --quiet"
    paths = [str(text["validation_source"]), str(hypotheses["marian"])]
    run = [options.marian, "-c", MARIAN, "translate", f"{search} --cpu-threads 1", *paths]
    subprocess.run(run, check=True)
    return hypotheses


def run_for(seconds: float, commands: dict[str, list[str]], logs: Path) -> dict[str, float]:
    """Run commands on a core each, ask each to end after some seconds of it, and return these."""
    cores = sorted(os.sched_getaffinity(0))
    processes = {}
    for core, (name, command) in zip(cores, commands.items(), strict=False):
        with open(logs / f"{name}.out", "wb") as log:
            command = ["taskset", "--cpu-list", str(core), *command]
            processes[name] = subprocess.Popen(command, stdout=log, stderr=log)
    used = dict.fromkeys(processes, 0.0)
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            if process.poll() is None:
                was, used[name] = used[name], processor_seconds(process.pid)
                if was < seconds <= used[name]:
                    process.send_signal(signal.SIGTERM)
        time.sleep(1)
    return used


def processor_seconds(pid: int) -> float:
    """Return the seconds that a process and its descendants have had of the processors."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # It has ended.
        return 0.0
    # User and system time of the process, and of its children that have ended.
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in " ".join(children).split())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    scoring = parser.add_argument_group("score files of translations")
    scoring.add_argument("--source", metavar="FILE")
    scoring.add_argument("--reference", metavar="FILE")
    scoring.add_argument("translations", nargs="*", type=Path)
    training = parser.add_argument_group("or train this project's model and Marian's first")
    training.add_argument("--config", type=Path, metavar="FILE")
    training.add_argument("--marian", metavar="PYTHON", help="the Python that has pymarian")
    training.add_argument("--minutes", type=float, default=60, help="on one core; 60 by default")
    training.add_argument("--precision", default="float32", help="of this project's model")
    training.add_argument("--output", type=Path, metavar="DIRECTORY", help="a new directory")
    parser.add_argument("--lines", type=int, default=30, help="to show; 30 by default")
    parser.add_argument("--report", type=Path, help="a file for the report")
    options = parser.parse_args(arguments)
    if options.config:
        if not (options.marian and options.output):
            parser.error("--config needs --marian and --output")
        data = ExperimentConfig.from_file(options.config).data
        source, reference = data.validation_source, data.validation_target
        files = train(options)
    else:
        if not (options.source and options.reference and options.translations):
            parser.error("give --source, --reference and files of translations, or --config")
        source, reference = options.source, options.reference
        files = {path.stem: path for path in options.translations}
    systems = {name: read_lines(path) for name, path in files.items()}
    table = report(read_lines(source), read_lines(reference), systems, options.lines)
    print_report([*table, "", describe_machine()], options.report)


if __name__ == "__main__":
    main(sys.argv[1:])
