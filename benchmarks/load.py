"""Load-test an exported model, run as a model server does.

Several threads translate batches of sentences in one process without Python. Each sentence must
always have the same translation, whatever its batch, and memory must stop growing.

Usage:
    python -m benchmarks.load --model saved_models/en_de --text test.en
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.report import new_parser
from pipelines.cli.errors import plain_errors


class Sample(NamedTuple):
    """The measurements of one answer."""

    time: float
    """Seconds since the start."""
    seconds: float
    """Time inside TensorFlow."""
    resident: int
    """Resident bytes of the process at that time."""
    sentences: int
    """Size of the batch."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--model", required=True, help="an exported SavedModel")
    parser.add_argument("--text", required=True, help="file of sentences to draw from")
    parser.add_argument("--seconds", type=float, default=600, help="default 600")
    parser.add_argument("--threads", type=int, default=4, help="concurrent requests (default 4)")
    parser.add_argument("--max-batch", type=int, default=32, help="largest batch (default 32)")
    parser.add_argument("--intra-op", type=int, default=0, help="TensorFlow threads within an op")
    parser.add_argument(
        "--inter-op", type=int, default=0, help="TensorFlow threads for concurrent ops"
    )
    parser.add_argument("--xla", action="store_true", help="allow compiled functions")
    args = parser.parse_args(argv)
    from benchmarks.native_host import serve
    from keras_transformer.data import read_lines
    from keras_transformer.utils.versions import find_saved_model

    with plain_errors():
        sentences = [line.encode() for line in read_lines(args.text)]
        model = find_saved_model(args.model)
        if model is None:
            raise FileNotFoundError(f"There is no SavedModel in {args.model}: export one there.")
    start = None
    batches, samples, errors, translations, changed = [], [], [], {}, 0

    def requests() -> Iterator[list[bytes]]:
        nonlocal start
        start = time.monotonic()  # after the host is built
        draw = random.Random(1)
        while time.monotonic() < start + args.seconds:
            batches.append(draw.choices(sentences, k=draw.randint(1, args.max_batch)))
            yield batches[-1]

    options = {"threads": args.threads, "intra_op": args.intra_op, "inter_op": args.inter_op}
    for answer in serve(model, requests(), xla=args.xla, **options):
        batch, batches[answer.number] = batches[answer.number], None
        samples.append(
            Sample(time.monotonic() - start, answer.seconds, answer.resident, len(batch))
        )
        if answer.error is not None:
            errors.append(answer.error)
            continue
        for sentence, translation in zip(batch, answer.texts, strict=True):
            changed += translations.setdefault(sentence, translation) != translation
    print(report(samples, len(errors), changed))
    if errors:
        sys.exit(f"error: {errors[0]}")


def report(samples: Sequence[Sample], errors: int, changed: int) -> str:
    """Return a table; the first tenth of the time is warm-up and excluded from latencies."""
    times, seconds, resident, sizes = map(np.array, zip(*samples, strict=True))
    tenth = times[-1] / 10
    warm = times >= tenth
    latencies = np.percentile(1000 * seconds[warm], [50, 95, 99, 100])
    memory = resident / 2**20
    slope = np.polyfit(times[warm], memory[warm], 1)[0] * 60
    # At the end of each tenth.
    ends = memory[np.searchsorted(times, tenth * np.arange(1, 11)).clip(max=len(times) - 1)]
    rows = {
        "requests": f"{len(samples):,}",
        "sentences": f"{sizes.sum():,}",
        "sentences/s": f"{sizes[warm].sum() / (times[-1] - tenth):,.1f}",
        "errors": f"{errors:,}",
        "changed translations": f"{changed:,}",
        "latency, ms": "p50 {:.1f}, p95 {:.1f}, p99 {:.1f}, max {:.1f}".format(*latencies),
        "resident memory, MiB": f"{ends[0]:.1f} after warm-up, {ends[-1]:.1f} at the end",
        "growth after warm-up": f"{slope:+.2f} MiB/min",
        "at each tenth of the time": ", ".join(f"{end:.0f}" for end in ends),
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


if __name__ == "__main__":
    main()
