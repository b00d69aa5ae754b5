"""Training cells of `benchmarks.gpu`: whole steps, a profile, equal weights, and a whole run."""

import csv
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_worker import Prepared, Record
from benchmarks.trainers import Batch, load_batches, of_pytorch, ours, ours_on_jax
from keras_transformer.config import TransformerConfig

OURS, ON_JAX, EAGER, COMPILED = "ours", "ours (JAX)", "PyTorch", "PyTorch, torch.compile"
TRAINERS = {OURS: "tensorflow", ON_JAX: "jax", EAGER: "torch", COMPILED: "torch"}
"""The trainers, each with its library."""


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


def train(trainer: str, config: TransformerConfig, batches: str, device: str) -> Prepared:
    """Prepare a trainer by its first pass over a file of batches; a run is another pass."""
    on_gpu = device == "gpu"
    arrays = load_batches(batches)
    case = config, arrays, "mixed_bfloat16" if on_gpu else "float32"
    if trainer == OURS:
        one_pass = ours(*case, jit_compile=True)
    elif trainer == ON_JAX:
        one_pass = ours_on_jax(*case)
    else:
        one_pass = of_pytorch(*case, "cuda" if on_gpu else "cpu", compiled=trainer == COMPILED)
    start = time.perf_counter()
    one_pass()
    first_pass = time.perf_counter() - start
    tokens = sum(int(np.count_nonzero(ids)) for batch in arrays for ids in batch)
    operations = sum(matrix_operations(config, batch) for batch in arrays)

    def run(action: str = "pass") -> Record:
        if action == "peak":
            return {"peak tflops": peak_tflops(8192 if on_gpu else 64)}
        if action == "profile":
            return profile(one_pass, len(arrays))
        start = time.perf_counter()
        loss = float(one_pass())
        seconds = time.perf_counter() - start
        found = {"seconds": seconds, "count": tokens, "tflops": operations / seconds / 1e12}
        return found | {"loss": loss, "first_pass": first_pass}

    return {}, run


def peak_tflops(size: int) -> float:
    """Return the TFLOP/s of a large matrix product in bfloat16 in TensorFlow."""
    import tensorflow as tf

    left, right = (tf.cast(tf.random.normal([size, size]), tf.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(20):
            product = tf.matmul(left, right)
        product[0, 0].numpy()  # Waits for the device.
        seconds.append((time.perf_counter() - start) / 20)
    return 2 * size**3 / float(np.median(seconds[1:])) / 1e12


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
        file = next(Path(folder).rglob("*.xplane.pb"))
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    events = list(kernel_events(space.planes))
    if not events:
        raise RuntimeError(f"No kernels in {[plane.name for plane in space.planes]}.")
    return summarize(events, steps)


def kernel_events(planes: Sequence[Any]) -> Iterator[tuple[int, int, str, str]]:
    """Yield start and end in ps, name and operation of what ran on the streams of a GPU."""
    operations = fused_operations(planes)
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
                compiled = operations.get((stats.get("hlo_module"), stats.get("hlo_op")))
                operation = compiled or stats.get("tf_op") or stats.get("hlo_op") or ""
                start = line.timestamp_ns * 1000 + event.offset_ps
                yield start, start + event.duration_ps, metadata.name, operation


def fused_operations(planes: Sequence[Any]) -> dict[tuple[str, str], str]:
    """Return TensorFlow's name of what XLA compiled, by module and instruction.

    Of a fusion, it is the name that most of its instructions have.
    """
    from tensorflow.compiler.xla.service import hlo_pb2

    found = {}
    for plane in planes:
        if plane.name != "/host:metadata":
            continue
        for stat in (stat for event in plane.event_metadata.values() for stat in event.stats):
            module = hlo_pb2.HloProto.FromString(stat.bytes_value).hlo_module
            parts = {part.id: part.instructions for part in module.computations}
            for instruction in (i for part in parts.values() for i in part):
                inner = [i for key in instruction.called_computation_ids for i in parts[key]]
                names = Counter(i.metadata.op_name for i in inner if i.metadata.op_name)
                common = max(names, key=lambda name: names[name], default="")
                found[module.name, instruction.name] = instruction.metadata.op_name or common
    return found


KINDS = {
    "copies": r"memcpy|memset|htod|dtoh|dtod",
    "products": r"gemm|cutlass|nvjet|cublas|xmma|matmul|splitk",
    "optimizer": r"adam|optimizer|global_norm|l2loss|update_step",
    "loss": r"loss|cross_entropy",
    "dropout": r"dropout|random|philox|threefry|rng",
    "residuals and normalization": r"residual|norm",
    "embeddings": r"embedding|gather|scatter|position",
    "attention": r"attention|softmax",
    "feed-forward": r"feed_forward|ffn|relu",
}
"""Kinds of kernels, each with what its name or operation has; the first one counts."""


def kernel_kind(name: str, operation: str) -> str:
    """Return the kind of a kernel.

    >>> kernel_kind("nvjet_tst_128x256", "model/decoder/attention/dot_general")
    'products'
    >>> kernel_kind("loop_add_fusion_3", "model/decoder/attention/softmax/sub")
    'attention'
    >>> kernel_kind("MemcpyD2D", ""), kernel_kind("fusion_1", "")
    ('copies', 'other')
    """
    for kind, pattern in KINDS.items():
        # An operation may be called a product or a copy that a fused kernel only prepares.
        text = name if kind in ("copies", "products") else f"{name} {operation}"
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    return "other"


def summarize(events: Sequence[tuple[int, int, str, str]], steps: int) -> Record:
    """Return milliseconds of a step by kind of kernel, and the kernels that take longest."""
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


REPLICAS = {"CPU": 1, "GPU": 1, "two replicas": 2}
"""Cases of `write_weights`, each with its number of logical devices."""


def write_weights(case: str, folder: str) -> Prepared:
    """Prepare the weights after 20 steps of SGD in float32; a run compares those of two cases."""
    import keras
    import tensorflow as tf

    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.training import TrainingTransformer

    tf.config.experimental.enable_tensor_float_32_execution(False)
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    strategy = tf.distribute.get_strategy()
    if (replicas := REPLICAS[case]) > 1:
        limit = {"memory_limit": 2000} if kind == "GPU" else {}
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices(kind)[0],
            [tf.config.LogicalDeviceConfiguration(**limit)] * replicas,
        )
        strategy = tf.distribute.MirroredStrategy(
            [f"{kind}:{i}" for i in range(replicas)],
            # NCCL refuses two ranks on one card.
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    rng = np.random.default_rng(0)
    source, target, labels = (rng.integers(4, 53, (8, n)).astype("int32") for n in (9, 7, 7))
    for i in range(8):
        source[i, 9 - i % 5 :] = target[i, 7 - i % 4 :] = labels[i, 7 - i % 4 :] = 0
    batches = tf.data.Dataset.from_tensors(({"source": source, "target": target}, labels))
    with strategy.scope():
        keras.utils.set_random_seed(1)
        sizes = {"num_layers": 2, "d_model": 24, "d_ff": 40, "num_heads": 3, "dropout": 0.0}
        model = TrainingTransformer(TransformerConfig(vocab_size=53, **sizes))
        model.compile(keras.optimizers.SGD(0.1), LabelSmoothedCrossEntropy(0.1), jit_compile=True)
    model.fit(batches.unbatch().batch(8).repeat(20), epochs=1, verbose=0)
    weights = np.concatenate([weights.ravel() for weights in model.get_weights()])
    np.save(f"{folder}/{case}.npy", weights)

    def run(other: str) -> Record:
        return {"difference": float(np.abs(weights - np.load(f"{folder}/{other}.npy")).max())}

    return {"devices": kind}, run


def feed(settings: Sequence[str], limit: float) -> Prepared:
    """Return the pace of a training run with these options of `pipelines.train`, and its log."""
    command = [sys.executable, "-m", "pipelines.train", *settings]
    with tempfile.TemporaryDirectory() as folder:
        metrics, log = Path(folder, "run", "metrics.csv"), Path(folder, "log")
        with log.open("w") as file, suppress(subprocess.TimeoutExpired):
            output = ["--output", str(metrics.parent)]
            subprocess.run(command + output, stdout=file, stderr=file, timeout=limit)
        lines = log.read_text(errors="replace").splitlines()
        if not metrics.exists():
            raise RuntimeError("\n".join(lines))
        rows = list(csv.DictReader(metrics.open()))
    names = ("step", "seconds", "tokens_per_second")
    paces = [", ".join(f"{name} {float(row[name]):.6g}" for name in names) for row in rows]
    log_lines = [line for line in lines if not re.match(r"[IWE]0000|WARNING: All log", line)]
    return {"paces": paces, "log": log_lines[:25]}, lambda: {}
