"""Measure the paper's claims about scaled dot-product attention (Section 3.2.1).

    python -m benchmarks.attention
    python -m benchmarks.attention --functions scaled_dot keras --lengths 64 256 1024 4096

The first table has the cost of the compatibility functions and of Keras's layer: time and memory of
a training step, over lengths. The second shows how well they train as queries and keys grow, on a
task that one head can solve: looking up the value of a key among pairs of keys and values.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from benchmarks.costs import Cost, measure_costs
from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.attention import COMPATIBILITIES

PAPERS, KERAS = "scaled_dot", "keras"
D_MODEL, HEADS = 512, 8  # the paper's base model
TRAINED = (PAPERS, "dot", "additive")
"""The functions that Section 3.2.1 compares."""
SYMBOLS, PAIRS, WIDTH, BATCH_SIZE, TEST_SIZE = 16, 8, 256, 32, 2048
LEARNING_RATES = (1e-3, 3e-3)

COST_HEADER = """\
| function | length | ms | spread | ratio | peak MB | others |
|---|--:|--:|--:|--:|--:|--:|"""
TRAINING_HEADER = """\
| function | key_dim | loss | of the seeds | learning rate | largest weight at first |
|---|--:|--:|--:|--:|--:|"""
NOTES = """
- keras: `keras.layers.MultiHeadAttention`.
- First table: a layer of {heads} heads of size {size} attends to one sentence, forward and
  backward. ms: median of {repeats} turns of half a second or one step. spread: (slowest - fastest
  turn) / median. ratio: to {papers}. peak MB: peak memory of the function's process beyond that
  after a step of length 2. others: cores kept busy by other processes, at most, during a turn.
- Second table: one head, inputs of width {width}, {steps} steps of Adam on {batch} sets of {pairs}
  pairs of {symbols} keys and values. loss: nats on unseen sets, mean over {seeds} seeds, at the
  better learning rate of {rates}; guessing has {guess:.2f}. largest weight at first: of a query on
  a key, mean before training.
- {machine}."""


def training_step(name: str, length: int) -> Callable[[], float]:
    """Return a function that runs a layer forward and backward on a sentence of this length."""
    sizes = {"num_heads": HEADS, "key_dim": D_MODEL // HEADS, "use_bias": False}
    if name == KERAS:
        layer = keras.layers.MultiHeadAttention(**sizes)
    else:
        layer = MultiHeadAttention(**sizes, compatibility=name)
    inputs = tf.random.normal((1, length, D_MODEL))
    layer(inputs[:, :2], inputs[:, :2])  # creates the weights

    @tf.function(autograph=False)
    def step(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, inputs, use_causal_mask=True)
        gradients = tape.gradient(outputs, [inputs, *layer.trainable_variables])
        return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    return lambda: float(step(inputs))  # waits for the result


def lookup_task(size: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return sets of key-value pairs with a query each, and the value that belongs to it.

    >>> inputs, labels = lookup_task(3, seed=1)
    >>> {name: array.shape for name, array in inputs.items()}
    {'query': (3, 1), 'keys': (3, 8), 'values': (3, 8)}
    >>> bool((inputs["values"][inputs["keys"] == inputs["query"]] == labels).all())
    True
    """
    random = np.random.default_rng(seed)
    keys = random.permuted(np.tile(np.arange(SYMBOLS), (size, 1)), axis=1)[:, :PAIRS]
    values = random.integers(SYMBOLS, size=(size, PAIRS))
    place = random.integers(PAIRS, size=(size, 1))
    query, labels = (np.take_along_axis(array, place, axis=1) for array in (keys, values))
    return {"query": query, "keys": keys, "values": values}, labels[:, 0]


def lookup_model(name: str, key_dim: int) -> tuple[keras.Model, keras.Model]:
    """Return a model of one head for `lookup_task`, and one that returns the head's weights."""
    inputs = {
        part: keras.Input((size,), dtype="int32", name=part)
        for part, size in (("query", 1), ("keys", PAIRS), ("values", PAIRS))
    }
    # With vectors of variance 1, queries and keys start with a variance of about 1, too.
    embed = keras.layers.Embedding(
        SYMBOLS, WIDTH, keras.initializers.RandomNormal(stddev=1), trainable=False
    )
    attention = MultiHeadAttention(1, key_dim, SYMBOLS, use_bias=False, compatibility=name)
    found, weights = attention(
        embed(inputs["query"]),
        ops.one_hot(inputs["values"], SYMBOLS),
        embed(inputs["keys"]),
        return_attention_scores=True,
    )
    logits = keras.layers.Dense(SYMBOLS)(found[:, 0])
    return keras.Model(inputs, logits), keras.Model(inputs, weights)


def train(
    name: str, key_dim: int, learning_rate: float, steps: int, seed: int
) -> tuple[float, float]:
    """Train a model on `lookup_task`.

    Returns:
        The loss on unseen examples in nats, and the largest weight of a query on a key before
        training, averaged over these examples.
    """
    keras.utils.set_random_seed(seed)
    model, weights = lookup_model(name, key_dim)
    test = lookup_task(TEST_SIZE, seed=0)
    largest = weights.predict(test[0], verbose=0).max(axis=-1).mean()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(learning_rate), loss, jit_compile=False)
    model.fit(*lookup_task(steps * BATCH_SIZE, seed), batch_size=BATCH_SIZE, verbose=0)
    return model.evaluate(*test, batch_size=TEST_SIZE, verbose=0), float(largest)


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure, and yield the lines of two Markdown tables and their notes one by one."""
    functions = list(dict.fromkeys([PAPERS, *args.functions]))  # ratios refer to the paper's
    yield COST_HEADER
    for length, costs in measure_costs(training_step, functions, args.lengths, args.repeats):
        for name, cost in costs.items():
            yield cost_row(name, length, cost, costs[PAPERS])
    trained = [name for name in TRAINED if name in functions]
    if args.key_dims and trained:
        yield "\n" + TRAINING_HEADER
    for key_dim in args.key_dims:
        for name in trained:
            results = {
                rate: [train(name, key_dim, rate, args.steps, 1 + i) for i in range(args.seeds)]
                for rate in LEARNING_RATES
            }
            yield training_row(name, key_dim, results)
    yield NOTES.format(
        heads=HEADS,
        size=D_MODEL // HEADS,
        repeats=args.repeats,
        papers=PAPERS,
        width=WIDTH,
        steps=args.steps,
        batch=BATCH_SIZE,
        pairs=PAIRS,
        symbols=SYMBOLS,
        seeds=args.seeds,
        rates=" and ".join(map(str, LEARNING_RATES)),
        guess=np.log(SYMBOLS),
        machine=describe_machine("tensorflow", "keras"),
    )


def cost_row(name: str, length: int, cost: Cost, papers: Cost) -> str:
    """Return a row of the first table, from the costs of a function and of the paper's."""
    cells = (
        *(name, length),
        f"{1000 * cost.median:,.1f}",
        f"{cost.spread:.0%}",
        f"{cost.median / papers.median:.1f}",
        f"{cost.peak_memory / 1e6:,.0f}",
        f"{max(cost.other_cores):.1f}",
    )
    return table_line(cells)


def training_row(
    name: str, key_dim: int, results: Mapping[float, Sequence[tuple[float, float]]]
) -> str:
    """Return a row of the second table.

    Args:
        name: Name of the function.
        key_dim: Size of queries and keys.
        results: The results of `train` for each seed, by learning rate.
    """
    losses = {rate: [loss for loss, _ in runs] for rate, runs in results.items()}
    best = min(losses, key=lambda rate: statistics.mean(losses[rate]))
    largest = statistics.mean(weight for _, weight in results[best])
    cells = (
        *(name, key_dim),
        f"{statistics.mean(losses[best]):.2f}",
        f"{min(losses[best]):.2f} to {max(losses[best]):.2f}",
        best,
        f"{largest:.2f}",
    )
    return table_line(cells)


def main(argv: Sequence[str] | None = None) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    parser = new_parser(__doc__)
    lengths, sizes = [64, 128, 256, 512], [4, 16, 64, 256, 512]
    functions = [*COMPATIBILITIES, KERAS]
    parser.add_argument(
        "--functions",
        nargs="+",
        choices=functions,
        default=functions,
        help="in addition to scaled_dot (default all)",
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=lengths, help="default 64 to 512")
    parser.add_argument("--repeats", type=int, default=5, help="turns per function (default 5)")
    parser.add_argument("--key-dims", type=int, nargs="*", default=sizes, help="default 4 to 512")
    parser.add_argument("--steps", type=int, default=200, help="training steps (default 200)")
    parser.add_argument("--seeds", type=int, default=3, help="runs per learning rate (default 3)")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    args = parser.parse_args(argv)
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
