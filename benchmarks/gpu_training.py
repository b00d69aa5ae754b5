"""Training cells of `benchmarks.gpu`: whole steps, a profile, equal weights, and a whole run."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_worker import Prepared, Record
from benchmarks.trainers import Batch, load_batches, of_pytorch, ours, ours_on_jax
from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS

NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0"}
OURS, ON_JAX, EAGER, COMPILED = "ours", "ours (JAX)", "PyTorch", "PyTorch, torch.compile"


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


def train(
    trainers: Sequence[str],
    model: str,
    vocab_size: int,
    precision: str,
    batches: str,
    device: str,
    limit: float = 200,
) -> Prepared:
    """Prepare trainers by their first pass over the batches; a run is another pass of one.

    Args:
        trainers: Names of trainers that use the same library.
        model: Name of the preset.
        vocab_size: Tokens of the vocabulary.
        precision: The Keras dtype policy.
        batches: A file of `save_batches`.
        device: "gpu" or "cpu".
        limit: Seconds after which a first pass fails, so that the trainers before it are not lost.
    """

    def too_late(*_):
        raise TimeoutError(f"no first pass within {limit:.0f} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    config = replace(PRESETS[model].model, vocab_size=vocab_size)
    case = config, load_batches(batches), precision
    passes: dict[str, Callable[[], float]] = {}
    facts: Record = {"first_pass": {}}
    for name in trainers:
        start = time.perf_counter()
        try:
            passes[name] = _trainer(name, case, device)
            passes[name]()
        except Exception as error:  # The others can still train; a run raises it again.
            facts["failed"] = f"{name}: {str(error)[-1000:]}"
        facts["first_pass"][name] = round(time.perf_counter() - start, 1)
    signal.setitimer(signal.ITIMER_REAL, 0)

    def run(trainer: str, action: str = "pass") -> Record:
        if action == "peak":
            return {"operations": peak_operations(precision, 8192 if device == "gpu" else 64)}
        if action == "profile":
            return profile(passes[trainer], len(case[1]))
        start = time.perf_counter()
        loss = passes[trainer]()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "loss": float(loss), "memory": _memory(trainer)}

    return facts, run


def _trainer(name, case, device):
    if name == OURS:
        return ours(*case, jit_compile=True)
    if name == ON_JAX:
        return ours_on_jax(*case)
    return of_pytorch(*case, "cuda" if device == "gpu" else "cpu", compiled=name == COMPILED)


def _memory(trainer):
    """Return the peak bytes of the device's memory in use, or None where they are not counted."""
    try:
        if trainer == OURS:
            import tensorflow as tf

            return tf.config.experimental.get_memory_info("GPU:0")["peak"]
        if trainer == ON_JAX:
            import jax

            return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
        import torch

        return torch.cuda.max_memory_allocated() or None
    except (RuntimeError, TypeError, ValueError):
        return None


def peak_operations(precision: str, size: int) -> float:
    """Return the operations per second of a large matrix product in TensorFlow."""
    import tensorflow as tf

    dtype = tf.bfloat16 if precision == "mixed_bfloat16" else tf.float32
    left, right = (tf.cast(tf.random.normal([size, size]), dtype) for _ in range(2))
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(20):
            product = tf.matmul(left, right)
        product[0, 0].numpy()  # Waits for the device.
        seconds.append((time.perf_counter() - start) / 20)
    return 2 * size**3 / float(np.median(seconds[1:]))


def profile(one_pass: Callable[[], float], steps: int) -> Record:
    """Return what the device does in a pass, by TensorFlow's profiler; see `summarize`."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=0, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        one_pass()
        tf.profiler.experimental.stop()
        files = list(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise RuntimeError("The profiler wrote no file.")
        space = xplane_pb2.XSpace.FromString(files[0].read_bytes())
    events = list(kernel_events(space.planes))
    if not events:
        raise RuntimeError(f"No kernels in {[plane.name for plane in space.planes]}.")
    return summarize(events, steps)


def kernel_events(planes: Iterable[Any]) -> Iterable[tuple[int, int, str, str]]:
    """Yield start and end in ps, name and operation of what ran on the streams of a GPU."""
    for plane in planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            if not line.name.startswith("Stream"):  # Others are made from the streams.
                continue
            for event in line.events:
                metadata = plane.event_metadata[event.metadata_id]
                stats = {
                    names.get(stat.metadata_id, ""): stat.str_value or names.get(stat.ref_value, "")
                    for stat in (*metadata.stats, *event.stats)
                }
                operation = stats.get("tf_op") or stats.get("hlo_op") or stats.get("name") or ""
                start = line.timestamp_ns * 1000 + event.offset_ps
                yield start, start + event.duration_ps, metadata.name, operation


KINDS = (
    ("copies to the device", r"memcpyh2d|htod"),
    ("copies from the device", r"memcpyd2h|dtoh"),
    ("copies on the device", r"memcpy|memset|dtod|p2p"),
    ("products", r"gemm|cutlass|nvjet|cublas|xmma|matmul|splitk"),
    ("optimizer", r"adam|optimizer|apply_gradient|update_step"),
    ("loss", r"loss|cross_entropy|entropy"),
    ("attention", r"attention|softmax"),
    ("embeddings", r"embedding|gather|scatter|position"),
    ("dropout", r"dropout|random|philox|threefry|rng"),
    ("normalization", r"norm"),
    ("feed-forward", r"feed_forward|ffn|relu"),
)
"""Kinds of kernels, each by what its name or operation has; the first one counts."""


def kernel_kind(name: str, operation: str) -> str:
    """Return the kind of a kernel.

    >>> kernel_kind("nvjet_tst_128x256", "model/decoder/attention/dot_general")
    'products'
    >>> kernel_kind("loop_add_fusion_3", "model/decoder/attention/softmax/sub")
    'attention'
    >>> kernel_kind("MemcpyD2D", ""), kernel_kind("fusion_1", "")
    ('copies on the device', 'other')
    """
    of_name, text = name.lower(), f"{name} {operation}".lower()
    for number, (kind, pattern) in enumerate(KINDS):
        # An operation may be called a product or a copy that a fused kernel only prepares.
        if re.search(pattern, of_name if number < 4 else text):
            return kind
    return "other"


def summarize(events: Sequence[tuple[int, int, str, str]], steps: int) -> Record:
    """Return milliseconds of a step by kind of kernel, and the kernels that take longest.

    >>> ms = 10**9
    >>> events = [(0, 4 * ms, "gemm", ""), (3 * ms, 6 * ms, "gemm", ""), (8 * ms, 9 * ms, "f", "x")]
    >>> found = summarize(events, steps=1)
    >>> found["span"], found["waits"], found["kinds"]
    (9.0, 2.0, {'products': 7.0, 'other': 1.0})
    """
    kinds: defaultdict[str, float] = defaultdict(float)
    kernels: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    busy, until = 0, 0
    for start, end, name, operation in sorted(events):
        kinds[kernel_kind(name, operation)] += (end - start) / 1e9 / steps
        kernels[name, operation][0] += (end - start) / 1e9 / steps
        kernels[name, operation][1] += 1 / steps
        busy += max(0, end - max(start, until))
        until = max(until, end)
    span = (until - min(start for start, *_ in events)) / 1e9 / steps
    top = sorted(kernels.items(), key=lambda item: -item[1][0])[:25]
    return {
        "span": round(span, 4),
        "waits": round(span - busy / 1e9 / steps, 4),
        "kernels": round(len(events) / steps, 1),
        "kinds": {kind: round(ms, 4) for kind, ms in sorted(kinds.items(), key=lambda i: -i[1])},
        "top": [[name, op, round(ms, 4), round(n, 1)] for (name, op), (ms, n) in top],
    }


# What differs between the processes of `equality`: name, number of logical GPUs (0: the CPU).
_DEVICES = {"CPU": 0, "GPU": 1, "one replica": 1, "two replicas": 2}


def equality(device: str) -> Prepared:
    """Prepare weights after the same steps on the CPU, on the GPU, and on two logical GPUs."""
    folder = Path(tempfile.mkdtemp())
    processes = {}
    for case, count in _DEVICES.items():
        hidden = count == 0 or device == "cpu"
        environment = NO_TF32 | ({"CUDA_VISIBLE_DEVICES": "-1"} if hidden else {})
        command = [sys.executable, "-m", "benchmarks.gpu_training", case, str(folder / case)]
        processes[case] = subprocess.Popen(
            command, env=os.environ | environment, stderr=subprocess.PIPE, text=True
        )
    errors = {case: process.communicate()[1] for case, process in processes.items()}

    def run(pair: Sequence[str]) -> Record:
        for case in pair:
            if processes[case].returncode:
                return {"error": f"{case}: {errors[case][-1000:]}"}
        left, right = (np.load(folder / f"{case}.npy") for case in pair)
        return {"difference": float(np.abs(left - right).max())}

    return {}, run


def write_weights(case: str, path: str) -> None:
    """Make steps of SGD in float32 without dropout, and write all weights to a file."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    replicas = _DEVICES[case] if "replica" in case else 0
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if replicas:
        limit = {"memory_limit": 2000} if kind == "GPU" else {}
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices(kind)[0],
            [tf.config.LogicalDeviceConfiguration(**limit)] * replicas,
        )
    import keras

    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.training import TrainingTransformer

    rng = np.random.default_rng(0)
    source, target, labels = (rng.integers(4, 53, (8, n)).astype("int32") for n in (9, 7, 7))
    for i in range(8):
        source[i, 9 - i % 5 :] = target[i, 7 - i % 4 :] = labels[i, 7 - i % 4 :] = 0
    batches = tf.data.Dataset.from_tensors(({"source": source, "target": target}, labels))
    strategy = tf.distribute.get_strategy()
    if replicas:
        strategy = tf.distribute.MirroredStrategy(
            [f"{kind}:{i}" for i in range(replicas)],
            # NCCL refuses two ranks on one card.
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        sizes = {"num_layers": 2, "d_model": 24, "d_ff": 40, "num_heads": 3, "dropout": 0.0}
        model = TrainingTransformer(TransformerConfig(vocab_size=53, **sizes))
        model.compile(keras.optimizers.SGD(0.1), LabelSmoothedCrossEntropy(0.1), jit_compile=True)
    model.fit(batches.unbatch().batch(8).repeat(20), epochs=1, verbose=0)
    np.save(path, np.concatenate([weights.ravel() for weights in model.get_weights()]))


def feed(preset: str, options: Sequence[str]) -> Prepared:
    """Prepare nothing: a run is a training run with these options, up to its second epoch's end."""

    def run() -> Record:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pipelines.train", "--preset", preset, *options]
            command += ["--output", f"{folder}/run"]
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True)
            lines = (done.stdout + done.stderr).splitlines()
            metrics = Path(folder, "run", "metrics.csv")
            if done.returncode or not metrics.exists():
                return {"error": "\n".join(lines)[-1500:]}
            from keras_transformer.training.csv_tables import read_metrics

            rows = read_metrics(metrics.parent)
        return {
            "command": " ".join(command[1:-2]),
            "seconds": time.perf_counter() - start,
            "metrics": {name: rows[name] for name in ("step", "tokens_per_second", "seconds")},
            "log": lines[:25],
        }

    return {}, run


if __name__ == "__main__":
    write_weights(*sys.argv[1:])
