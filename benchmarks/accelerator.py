"""Training speed on a GPU or TPU by JAX, compared with PyTorch on the same batches of few shapes.

    python -m benchmarks.accelerator --source train.en --target train.de

The text becomes batches of a few static shapes, so that XLA and `torch.compile` compile a few
times. No TensorFlow is needed. All trainers make whole steps: forward, backward and Adam. They take
turns, each in a process of its own. PyTorch is left out if it is not installed.
"""

import argparse
import importlib.util
import io
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import chain, islice
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):
    os.environ["KERAS_BACKEND"] = "jax"
    # The processes share the device's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

from benchmarks.costs import Cost, processes, run_step, take_turns
from benchmarks.machine import describe_machine
from benchmarks.report import print_report, table_line
from benchmarks.trainers import LEARNING_RATE, Batch, Pass, load_batches, of_pytorch, save_batches
from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, TransformerConfig
from keras_transformer.data import EncodedPairs, TokenBatches, read_pairs
from keras_transformer.data.batching import choose_widths
from keras_transformer.presets import PRESETS

OURS, EAGER, COMPILED = "ours (JAX)", "PyTorch", "PyTorch, torch.compile"
HEADER = """\
| model | trainer | tokens/s | spread | ratio | matrix TFLOP/s | of the peak | loss | first pass s |
|---|---|--:|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- tokens/s: source and target tokens per second without padding, the median of {repeats} runs over
  the same {batches} batches of {shapes} shapes, each of at most {batch_tokens:,} source tokens and
  as many target tokens. Of these batches, {padding:.0%} is padding. spread: slowest minus fastest
  run, divided by the median. ratio: to the faster PyTorch.
- matrix TFLOP/s: arithmetic of the matrix products on these shapes, padding included, forward and
  backward; "of the peak": as a share of {peak:,.1f} TFLOP/s, which one large product in {precision}
  reaches.
- All have the preset's dropout on the sub-layers' outputs, the attention weights, the embeddings
  and inside the feed-forward networks. PyTorch's projections have biases, and each of its stacks
  ends in a norm.
- loss: mean over the batches of the last run, to show that all learn. first pass: with compilation.
- {device}; {machine}. Python {python}, {versions}."""


def static_batches(
    pairs: Sequence[tuple[str, str]], vocab_size: int, batch_tokens: int, count: int, shapes: int
) -> list[Batch]:
    """Return the first batches of an epoch over a text, each of one of a few shapes."""
    encoded = encode(pairs, vocab_size)
    widths = choose_widths(np.maximum(encoded.source_lengths, encoded.target_lengths), shapes)
    batches = TokenBatches(encoded, batch_tokens, seed=1, widths=widths)
    return [(inputs["source"], labels) for inputs, labels in islice(batches, count)]


def encode(pairs: Sequence[tuple[str, str]], vocab_size: int) -> EncodedPairs:
    """Train a vocabulary on a text and encode it, by SentencePiece alone."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for pair in pairs for line in pair),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    parts = []
    for lines in zip(*pairs, strict=True):
        ids = processor.encode(list(lines), num_threads=os.cpu_count())
        counts = [len(sentence) for sentence in ids]
        parts += [np.fromiter(chain(*ids), np.int32), np.concatenate([[0], np.cumsum(counts)])]
    return EncodedPairs(*parts)


def ours(config: TransformerConfig, batches: Sequence[Batch], precision: str) -> Pass:
    """Train with `model.fit` and our model, loss and optimizer, with the dropout of PyTorch."""
    import keras

    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.model import Transformer
    from keras_transformer.optimizers import FusedAdam

    keras.utils.set_random_seed(1)
    rates = {"attention_dropout": config.dropout, "ffn_dropout": config.dropout}
    model = Transformer(replace(config, **rates), dtype=precision)
    adam = FusedAdam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, LabelSmoothedCrossEntropy(0.1))

    class InMemory(keras.utils.PyDataset):
        def __len__(self):
            return len(batches)

        def __getitem__(self, index):
            source, labels = batches[index]
            target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=BOS_ID)
            return {"source": source, "target": target}, labels

    dataset = InMemory()
    return lambda: model.fit(dataset, shuffle=False, verbose=0).history["loss"][0]


def make_step(name: str, case: tuple[TransformerConfig, str, str, str]) -> Pass:
    """Return one pass over the batches by the trainer of this name.

    Args:
        name: A key of `TRAINERS`.
        case: The model's sizes, the Keras dtype policy, the file of batches, and PyTorch's device.
    """
    config, precision, path, device = case
    batches = load_batches(path)
    if name == OURS:
        return ours(config, batches, precision)
    return of_pytorch(config, batches, precision, device, compiled=name == COMPILED)


def installed() -> list[str]:
    """Return the trainers whose packages are installed."""
    return [OURS, EAGER, COMPILED] if importlib.util.find_spec("torch") else [OURS]


def table_row(
    model: str, name: str, cost: Cost, peers: Sequence[Cost], loss: float, **facts: float
) -> str:
    """Return a line of the table; the ratio is to the fastest of `peers`."""
    fastest = min((peer.median for peer in peers), default=None)
    operations = facts["operations"] / cost.median
    cells = (
        *(model, name),
        f"{facts['tokens'] / cost.median:,.0f}",
        f"{cost.spread:.0%}",
        "" if fastest is None else f"{fastest / cost.median:.2f}",
        f"{operations / 1e12:,.2f}",
        f"{operations / facts['peak']:.0%}",
        f"{loss:.2f}",
        f"{facts['first_pass']:.0f}",
    )
    return table_line(cells)


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure, and yield the lines of a Markdown table and its notes as they come."""
    pairs = read_pairs(args.source, args.target)
    batches = static_batches(pairs, args.vocab_size, args.batch_tokens, args.batches, args.shapes)
    tokens = sum(int(np.count_nonzero(ids)) for batch in batches for ids in batch)
    with processes(["peak"]) as ask:
        device, peak = ask("peak", device_peak, args.precision, args.peak_size)
    names = installed()
    yield HEADER
    for model in args.models:
        config = replace(PRESETS[model].model, vocab_size=args.vocab_size)
        operations = sum(matrix_operations(config, batch) for batch in batches)
        with tempfile.TemporaryDirectory() as folder, processes(names) as ask:
            path = Path(folder) / "batches.npz"
            save_batches(batches, path)
            case = (config, args.precision, str(path), args.torch_device)
            first = {name: ask(name, first_pass, name, case) for name in names}
            costs = take_turns(ask, make_step, names, case, args.repeats)
            losses = {name: ask(name, run_step, make_step, name, case) for name in names}
        for name, cost in costs.items():
            peers = [costs[peer] for peer in names if peer != OURS]
            facts = {"tokens": tokens, "operations": operations, "peak": peak}
            yield table_row(model, name, cost, peers, losses[name], first_pass=first[name], **facts)
    yield NOTES.format(
        repeats=args.repeats,
        batches=len(batches),
        batch_tokens=args.batch_tokens,
        shapes=len({source.shape for source, _ in batches}),
        padding=1 - tokens / sum(ids.size for batch in batches for ids in batch),
        peak=peak / 1e12,
        precision=args.precision,
        device=device,
        machine=describe_machine(),
        python=platform.python_version(),
        versions=", ".join(
            f"{name} {metadata.version(name)}"
            for name in ("keras", "jax", "torch")
            if importlib.util.find_spec(name)
        ),
    )


def matrix_operations(config: TransformerConfig, batch: Batch) -> int:
    """Return the operations of all matrix products of a step: 3 times those of its forward pass.

    >>> sizes = TransformerConfig(10, num_layers=1, d_model=2, d_ff=3, num_heads=1)
    >>> ones = np.ones([1, 1], int)
    >>> matrix_operations(sizes, (ones, ones)) == 3 * 2 * (3 * (4 * 4 + 2 * 2) + 2 * 12 + 20)
    True
    """
    (rows, source), (_, target) = (ids.shape for ids in batch)
    d_model, d_ff = config.d_model, config.d_ff
    inner = config.num_heads * (config.key_dim or d_model // config.num_heads)

    def attention(queries, memory):
        projections = 2 * d_model * inner * (queries + memory)  # Q and output; K and V.
        return projections + 2 * inner * queries * memory  # Scores, and sums of values.

    layer = attention(source, source) + attention(target, target) + attention(target, source)
    layer += 2 * d_model * d_ff * (source + target)
    products = config.num_layers * layer + target * d_model * config.target_size
    return 3 * 2 * rows * products


def peak_operations(precision: str, size: int = 8192, repeats: int = 20) -> float:
    """Return the operations per second of a large matrix product on the default device."""
    import jax
    import jax.numpy as jnp

    dtype = jnp.bfloat16 if precision == "mixed_bfloat16" else jnp.float32
    keys = jax.random.split(jax.random.key(0))
    left, right = (jax.random.normal(key, [size, size], dtype) for key in keys)
    product = jax.jit(jnp.matmul)
    product(left, right).block_until_ready()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            result = product(left, right)
        result.block_until_ready()
        seconds.append((time.perf_counter() - start) / repeats)
    return 2 * size**3 / float(np.median(seconds))


def device_peak(precision: str, size: int) -> tuple[str, float]:
    """Return the name of JAX's default device, and its `peak_operations`."""
    import jax

    return jax.devices()[0].device_kind, peak_operations(precision, size)


def first_pass(name: str, case: tuple[TransformerConfig, str, str, str]) -> float:
    """Make the first pass of a trainer, and return its seconds, with compilation."""
    start = time.perf_counter()
    run_step(make_step, name, case)
    return time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, help="text to train on, or .gz")
    parser.add_argument("--target", required=True, help="its translations, line by line")
    parser.add_argument("--models", nargs="+", choices=list(PRESETS), default=["base", "big"])
    precisions = ["float32", "mixed_bfloat16"]
    parser.add_argument("--precision", choices=precisions, default="mixed_bfloat16")
    parser.add_argument("--vocab-size", type=int, default=8000, help="tokens (default 8000)")
    parser.add_argument("--batch-tokens", type=int, default=25_000, help="tokens of a batch")
    parser.add_argument("--batches", type=int, default=20, help="batches of a run (default 20)")
    parser.add_argument("--shapes", type=int, default=4, help="shapes of batches (default 4)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each trainer (default 5)")
    parser.add_argument("--torch-device", default="cuda", help="PyTorch's device (default cuda)")
    parser.add_argument("--peak-size", type=int, default=8192, help="rows of the large product")
    parser.add_argument("--output", type=Path, help="file for what is printed")
    args = parser.parse_args(argv)
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
