"""Measure time and memory of the layers that Table 1 of the paper compares (Section 4).

    python -m benchmarks.layer_types --plot layer_types.svg

Self-attention needs n^2 d operations and a recurrent layer n d^2, so self-attention is cheaper for
sequences that are shorter than they are wide. The first table has the formulas of Table 1 and the
measured costs, the second the length at which the two layers take the same time.
"""

import argparse
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from keras import ops

from benchmarks.costs import Cost, measure_costs
from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.attention import attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL, NEIGHBORS, HEADS = 3, 31, 8
"""k of the convolution, r of restricted self-attention, heads of multi-head attention."""
_BLOCK = 32  # queries that share their keys in restricted self-attention

SELF_ATTENTION, RECURRENT = "self-attention", "recurrent"
BATCH_SIZE = 8
Costs = Mapping[tuple[int, int, str], Cost]
"""Costs by width d, length n and name of a layer."""

HEADER = """\
| layer | d | n | operations | sequential | path | multiply-adds | ms | spread | peak MB | others |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
CROSSING_HEADER = """\
| d | n of equal operations | n of equal time |
|--:|--:|--:|"""
NOTES = """
- operations, sequential, path: the formulas of Table 1, in millions, with k = {kernel} and
  r = {neighbors}. Those of self-attention and of the recurrent layer are equal at n = d. The layer
  "multi-head" is self-attention of {heads} heads with its projections, which the paper's formula
  leaves out; so does the layer "self-attention" here, softmax(x x^T / sqrt(d)) x.
- multiply-adds: millions, of the matrix products that the layer computes for a sequence.
- ms: a forward pass of {batch} sequences, median of {repeats} turns of half a second or one pass.
  spread: (slowest - fastest turn) / median. peak MB: peak memory of the layer's process beyond that
  after a pass of length 2. others: cores kept busy by other processes, at most, during a turn.
- {machine}."""


class Complexity(NamedTuple):
    """A row of Table 1, for one layer and one sequence."""

    operations: float
    """Operations of the layer, as an order of magnitude."""
    sequential: float
    """Operations that cannot run in parallel."""
    path: float
    """Steps between the two most distant positions through a stack of such layers."""


TABLE_1: dict[str, Callable[[int, int], Complexity]] = {
    SELF_ATTENTION: lambda n, d: Complexity(n**2 * d, 1, 1),
    "restricted": lambda n, d: Complexity(NEIGHBORS * n * d, 1, n / NEIGHBORS),
    RECURRENT: lambda n, d: Complexity(n * d**2, n, n),
    "convolutional": lambda n, d: Complexity(KERNEL * n * d**2, 1, math.log(n, KERNEL)),
    "multi-head": lambda n, d: Complexity(n**2 * d + n * d**2, 1, 1),
}
"""Row of each layer for n positions of width d. The last is not in the paper's table: it is
self-attention with its projections, as in the Transformer."""


def multiply_adds(name: str, n: int, d: int) -> int:
    """Return the number of multiply-adds in the matrix products of a layer.

    >>> multiply_adds("self-attention", n=10, d=4), multiply_adds("recurrent", n=10, d=4)
    (800, 320)
    """
    return {
        SELF_ATTENTION: 2 * n * n * d,  # scores, and the sum of values
        "restricted": 2 * _BLOCK * math.ceil(n / _BLOCK) * (_BLOCK + NEIGHBORS - 1) * d,
        RECURRENT: 2 * n * d * d,  # from the input, and from the previous state
        "convolutional": KERNEL * n * d * d,
        "multi-head": 4 * n * d * d + 2 * n * n * d,
    }[name]


def make_layer(name: str, d: int) -> Callable:
    """Return a layer of `TABLE_1`, a function from float [B, n, d] to the same shape."""
    if name == SELF_ATTENTION:
        return self_attention
    if name == "restricted":
        return restricted_self_attention
    if name == RECURRENT:
        return keras.layers.SimpleRNN(d, use_bias=False, return_sequences=True)
    if name == "convolutional":
        return keras.layers.Conv1D(d, KERNEL, padding="same", use_bias=False)
    layer = MultiHeadAttention(HEADS, d // HEADS, use_bias=False)
    return lambda x: layer(x, x)


def self_attention(x):
    """Return softmax(x x^T / sqrt(d)) x, attention of one head without projections."""
    x = x[:, None]
    return attention(x, x, x)[0][:, 0]


def restricted_self_attention(x, neighbors: int = NEIGHBORS, block: int = _BLOCK):
    """Return `self_attention` of each position to the `neighbors` around it, itself included.

    The queries of a block share the keys that any of them may attend to, so the work grows with n
    instead of its square.

    Args:
        x: float [B, n, d] with static n and d.
        neighbors: r, odd.
        block: Number of queries in a block.
    """
    _, n, d = x.shape
    blocks, side, keys = -(-n // block), neighbors // 2, block + neighbors - 1
    # Block i has the queries i * block + [0, block), and the keys from `side` before them to
    # `side` after them.
    starts = ops.arange(blocks)[:, None] * block
    places = starts + ops.arange(keys)[None] - side  # [blocks, keys]
    queries = ops.arange(block)[:, None]
    is_near = (queries <= ops.arange(keys)) & (ops.arange(keys) < queries + neighbors)
    is_there = (places >= 0) & (places < n)
    padded = ops.pad(x, ((0, 0), (side, blocks * block - n + side), (0, 0)))
    near = ops.reshape(ops.take(padded, places + side, axis=1), (-1, keys, d))
    own = ops.reshape(padded[:, side : side + blocks * block], (-1, block, d))
    mask = is_near[None] & is_there[:, None]  # [blocks, block, keys]
    mask = ops.tile(mask, (ops.shape(x)[0], 1, 1))
    near = near[:, None]
    outputs = attention(own[:, None], near, near, mask)[0]
    return ops.reshape(outputs, (-1, blocks * block, d))[:, :n]


def run_of(case: str, n: int) -> Callable[[], float]:
    """Return a function that runs a layer, such as "recurrent 64" of width 64, on n positions."""
    name, d = case.split()
    layer = make_layer(name, int(d))
    inputs = tf.random.normal((BATCH_SIZE, n, int(d)))
    run = tf.function(lambda x: tf.reduce_sum(layer(x)), autograph=False)
    run(inputs)  # Keras creates the weights in the first trace.
    return lambda: float(run(inputs))  # waits for the result


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure, and yield the lines of two Markdown tables and their notes one by one."""
    costs: dict[tuple[int, int, str], Cost] = {}
    yield HEADER
    for d in args.widths:
        cases = {f"{name} {d}": name for name in TABLE_1}
        for n, found in measure_costs(run_of, list(cases), args.lengths, args.repeats):
            for case, cost in found.items():
                costs[d, n, cases[case]] = cost
                yield row(cases[case], d, n, cost)
    yield "\n" + CROSSING_HEADER
    for d in args.widths:
        yield f"| {d} | {d} | {_number(crossing(costs, d))} |"
    yield NOTES.format(
        kernel=KERNEL,
        neighbors=NEIGHBORS,
        heads=HEADS,
        batch=BATCH_SIZE,
        repeats=args.repeats,
        machine=describe_machine("tensorflow", "keras"),
    )
    if args.plot:
        from keras_transformer.plots import save_figure

        save_figure(plot(costs), args.plot)


def row(name: str, d: int, n: int, cost: Cost) -> str:
    """Return a row of the first table."""
    formula = TABLE_1[name](n, d)
    cells = (
        *(name, d, n),
        f"{formula.operations / 1e6:,.1f}",
        f"{formula.sequential:,}",
        f"{formula.path:,.3g}" if formula.path < 1000 else f"{formula.path:,.0f}",
        f"{multiply_adds(name, n, d) / 1e6:,.1f}",
        f"{1000 * cost.median:,.1f}",
        f"{cost.spread:.0%}",
        f"{cost.peak_memory / 1e6:,.0f}",
        f"{max(cost.other_cores):.1f}",
    )
    return table_line(cells)


def crossing(costs: Costs, d: int) -> float | None:
    """Return the length at which self-attention becomes slower than a recurrent layer.

    Between measured lengths, times are interpolated as powers of the length. Returns None if one
    of the layers is faster at all lengths.
    """
    lengths = sorted({n for width, n, _ in costs if width == d})
    lead = [
        math.log(costs[d, n, SELF_ATTENTION].median / costs[d, n, RECURRENT].median)
        for n in lengths
    ]
    for (n, before), (m, after) in itertools.pairwise(zip(lengths, lead, strict=True)):
        if before <= 0 < after:
            return n * (m / n) ** (before / (before - after))
    return None


def _number(length: float | None) -> str:
    return "none measured" if length is None else f"{length:,.0f}"


def plot(costs: Costs) -> "Figure":
    """Plot operations by the formulas and measured times over lengths, one column for each d."""
    import matplotlib
    from matplotlib.figure import Figure

    from keras_transformer.plots.style import COLORS, GRAY, STYLE

    widths = sorted({d for d, _, _ in costs})
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.3 * len(widths), 4.2), layout="constrained")
        panels = figure.subplots(2, len(widths), sharex=True, sharey="row", squeeze=False)
        for d, (above, below) in zip(widths, panels.T, strict=True):
            lengths = sorted({n for width, n, _ in costs if width == d})
            for name, color in zip(TABLE_1, COLORS, strict=False):
                operations = [TABLE_1[name](n, d).operations for n in lengths]
                seconds = [costs[d, n, name].median for n in lengths]
                style = {"color": color, "marker": ".", "markersize": 4}
                above.loglog(lengths, operations, label=name, **style)
                below.loglog(lengths, [1000 * s for s in seconds], **style)
            for axes, place, text in (
                (above, d, f"n = d = {d}"),
                (below, crossing(costs, d), f"n = {_number(crossing(costs, d))}"),
            ):
                if place is None:
                    continue
                axes.axvline(place, color=GRAY, lw=0.6, linestyle=":", zorder=0)
                axes.annotate(
                    text,
                    (place, 1),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, 2),
                    textcoords="offset points",
                    horizontalalignment="center",
                    fontsize=7,
                    color=GRAY,
                )
            above.set_title(f"d = {d}", fontsize=8, pad=14)
            below.set_xlabel("length n")
            below.set_xticks(lengths, [f"{n}" for n in lengths])
            below.xaxis.minorticks_off()
        panels[0, 0].set_ylabel("operations, Table 1")
        panels[1, 0].set_ylabel("milliseconds, measured")
        figure.legend(
            *panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3
        )
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    parser = new_parser(__doc__)
    lengths, widths = [64, 128, 256, 512, 1024], [64, 256]
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=lengths, help="default 64 to 1024"
    )
    parser.add_argument("--widths", type=int, nargs="+", default=widths, help="default 64 and 256")
    parser.add_argument("--repeats", type=int, default=3, help="turns per layer (default 3)")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    parser.add_argument("--plot", type=Path, help="file for a plot, .png, .svg or .pdf")
    args = parser.parse_args(argv)
    if args.plot and args.plot.suffix not in (
        ".png",
        ".svg",
        ".pdf",
    ):  # before measuring, not after
        parser.error(f"--plot must end in .png, .svg or .pdf, received {args.plot.name!r}")
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
