"""One training step is the same on 1, 2 and 4 replicas.

TensorFlow takes its number of logical devices before its first operation and has room for one
strategy of several devices a process, so the steps are made in others: this file, run as a program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.csv_tables import read_history, read_metrics
from tests.helpers.arrays import assert_same_weights, padded_batch
from tests.helpers.twenty_steps import (
    assert_same_arrays,
    newest_checkpoint,
    twenty_steps,
    write_text,
)

pytestmark = pytest.mark.slow

V = 13
# Model, optimizer, and numbers of replicas to compare with a step without a strategy. With SGD a
# step has the scale of its gradient; Adam hides it. Tracing a model on each replica takes longest.
CASES = {
    ("transformer", "sgd"): (1, 2, 4),
    ("transformer", "adam"): (2,),
    ("distilled", "sgd"): (2,),
    ("clipped", "sgd"): (4,),
    ("compiled", "sgd"): (2,),
    ("functional", "sgd"): (2,),
}
# Replicas of a run of 20 steps, and parts that follow one another on each of them.
RUNS = [(1, 1), (1, 4), (2, 1), (2, 3)]


def build(kind):
    from keras_transformer import Transformer, TransformerConfig, layers
    from keras_transformer.training import TrainingTransformer

    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 11, "num_heads": 2, "dropout": 0.0}
    if kind != "functional":
        config = TransformerConfig(V, **sizes)
        if kind == "distilled":
            return TrainingTransformer(config, teachers=[Transformer(config)], distillation=0.5)
        if kind == "clipped":
            return TrainingTransformer(config, accumulation=2, clip_norm=0.7)
        if kind == "compiled":
            return TrainingTransformer(config, accumulation=2)
        return Transformer(config)
    source = keras.Input((None,), dtype="int32")
    embedding = layers.TokenEmbedding(V, 8)
    x = layers.SinusoidalPositionEncoding()(embedding(source))
    x = layers.Encoder(**sizes)(x, attention_mask=layers.padding_mask(source))
    return keras.Model(source, embedding(x, reverse=True))


def batch(kind):
    """Return sentences of 6, 1, 2 and 0 tokens: halves have 7 and 2, and a quarter has none."""
    inputs, labels = padded_batch([6, 1, 2, 0], (6, 6), V)
    return (inputs["source"] if kind == "functional" else inputs), labels


def train(kind, optimizer, strategy, run_eagerly):
    """Make one step on a batch; return the new weights and what `fit` reports."""
    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
    from keras_transformer.optimizers import FusedAdam

    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build(kind)
        model.compile(
            {"sgd": keras.optimizers.SGD(1.0), "adam": FusedAdam(0.01)}[optimizer],
            LabelSmoothedCrossEntropy(0.1),
            metrics=[NegativeLogLikelihood(), TokenAccuracy()],
            jit_compile=kind == "compiled" and not run_eagerly,
            run_eagerly=run_eagerly,
        )
    history = model.fit(*batch(kind), batch_size=4, verbose=0).history
    return model.get_weights(), {name: values[0] for name, values in history.items()}


def unequal_parts(strategy):
    """Return the reported losses of a batch of 2 sentences and one of 1, which replicas divide.

    A batch of a run on 2 replicas is filled up with padding; and each machine reads its replicas.
    """
    from keras_transformer import Transformer, TransformerConfig
    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.training import TrainingTransformer

    config = TransformerConfig(V, num_layers=1, d_model=8, d_ff=11, num_heads=2, dropout=0.0)
    (inputs, labels), found = batch("transformer"), {}
    given = {name: ids[:3] for name, ids in inputs.items()}, labels[:3]
    for model_class in Transformer, TrainingTransformer:
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = model_class(config)
            model.compile("sgd", LabelSmoothedCrossEntropy(0.1), jit_compile=False)
        options = {"batch_size": 2, "verbose": 0}
        found[f"{model_class.__name__}-evaluate"] = model.evaluate(*given, **options)
        if model_class is TrainingTransformer and strategy.num_replicas_in_sync == 2:
            given = inputs, labels
        history = model.fit(*given, shuffle=False, **options).history
        found[f"{model_class.__name__}-fit"] = history["loss"][0]
        total, count = (
            strategy.experimental_local_results(variable.value)
            for variable in model.metrics[0].variables
        )
        found[f"{model_class.__name__}-of-a-replica"] = float(total[0] / count[0])
    return found


def overflow(strategy):
    """Make steps in float16 of which only the second one, on the second replica, overflows.

    Return the weights and the loss scale of each replica after each step, and the norms.
    """
    from keras_transformer import TransformerConfig
    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.optimizers import FusedAdam
    from keras_transformer.training import TrainingTransformer

    config = TransformerConfig(V, num_layers=1, d_model=8, d_ff=11, num_heads=2, dropout=0.0)
    with strategy.scope():
        model = TrainingTransformer(config, dtype="mixed_float16")
        model.compile(FusedAdam(0.01), LabelSmoothedCrossEntropy(0.1), jit_compile=False)
    inputs, labels = batch("transformer")
    labels = np.where(labels == 0, 5, labels)
    arrays = {}
    for step, (scale, weight) in enumerate([(2**15, 1), (2**23, 1e-6), (2**15, 1)]):
        if step:
            model.optimizer.dynamic_scale.assign(scale)
        weights = np.array([weight, weight, 1, 1], "float32")  # The second replica has two rows.
        history = model.fit(inputs, labels, sample_weight=weights, batch_size=4, verbose=0).history
        arrays[f"norm-{step}"] = np.array(history["gradient_norm"])
        for number, variable in enumerate([model.optimizer.dynamic_scale, *model.weights]):
            for replica, value in enumerate(strategy.experimental_local_results(variable.value)):
                arrays[f"{step}-{replica}-{number}"] = value.numpy()
    return arrays


def drop(strategy):
    """Return what a layer makes of the same ones on each replica."""
    import tensorflow as tf

    from keras_transformer.layers import Dropout

    with strategy.scope():
        layer = Dropout(0.5)

    @tf.function(autograph=False)
    def run():
        return strategy.run(lambda: layer(tf.ones([3, 70]), training=True))

    return [outputs.numpy() for outputs in strategy.experimental_local_results(run())]


def run_with_accumulation(folder, replicas, strategy):
    """Train for 20 steps by `training.train`, with batches in each of the numbers of parts."""
    from keras_transformer.training import machines, run
    from tests.helpers.experiment import leave_scores_out

    leave_scores_out(pytest.MonkeyPatch())
    run.choose_weights = lambda *given: None
    machines.replica_strategy = lambda number: strategy
    for parts in (parts for number, parts in RUNS if number == replicas):
        config = twenty_steps(folder, accumulation=parts, clip_norm=1.5)
        run.train(config, Path(folder, f"run-{replicas}-{parts}"))


def main(folder, *numbers):
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
    for replicas in map(int, numbers):
        strategy = tf.distribute.get_strategy()  # What Keras uses without another.
        if replicas:
            strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
        for (kind, optimizer), wanted in CASES.items():
            if replicas not in (0, *wanted):
                continue
            # Without a graph to trace, the step of a single device takes less time.
            weights, logs = train(kind, optimizer, strategy, run_eagerly=replicas == 0)
            path = Path(folder, f"{kind}-{optimizer}-{replicas}")
            np.savez(path.with_suffix(".npz"), *weights)
            path.with_suffix(".json").write_text(json.dumps(logs))
        if replicas in (0, 2):  # A run on one replica has no strategy.
            reported = json.dumps(unequal_parts(strategy))
            Path(folder, f"reported-{replicas}.json").write_text(reported)
            run_with_accumulation(Path(folder), replicas or 1, strategy)
        if replicas == 2:
            np.savez(Path(folder, "dropped.npz"), *drop(strategy))
            np.savez(Path(folder, "overflow.npz"), **overflow(strategy))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    write_text(folder)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    # With few threads, the programs of two replicas can wait for each other without end.
    environment["TF_NUM_INTRAOP_THREADS"] = "16"
    for numbers in ("0", "1", "2"), ("4",):
        command = [sys.executable, __file__, str(folder), *numbers]
        subprocess.run(command, check=True, env=environment)
    return folder


def steps(folder, kind, optimizer, replicas):
    path = folder / f"{kind}-{optimizer}-{replicas}"
    with np.load(path.with_suffix(".npz")) as arrays:
        return list(arrays.values()), json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize(
    ("kind", "optimizer", "replicas"),
    [(*case, replicas) for case, wanted in CASES.items() for replicas in wanted],
)
def test_a_step_on_replicas_is_that_of_a_single_device(folder, kind, optimizer, replicas):
    weights, logs = steps(folder, kind, optimizer, replicas)
    expected_weights, expected_logs = steps(folder, kind, optimizer, 0)
    assert_same_weights(weights, expected_weights, atol=1e-5)
    norm = {"gradient_norm"} if kind in ("distilled", "clipped", "compiled") else set()
    assert logs.keys() == {"loss", "nll", "accuracy"} | norm
    assert logs == pytest.approx(expected_logs, rel=1e-5)


def test_the_reported_loss_does_not_depend_on_how_replicas_divide_a_batch(folder):
    one, two = (json.loads((folder / f"reported-{n}.json").read_text()) for n in (0, 2))
    assert two == pytest.approx(one, rel=1e-5)


@pytest.mark.parametrize(("kind", "optimizer"), CASES)
def test_the_step_moves_the_weights(folder, kind, optimizer):
    keras.utils.set_random_seed(1)
    before = build(kind).get_weights()
    after, _ = steps(folder, kind, optimizer, 0)
    for old, new in zip(before, after, strict=True):
        assert np.abs(new - old).max() > 1e-3


@pytest.mark.parametrize(("replicas", "parts"), RUNS[1:])
def test_a_run_of_20_steps_is_that_of_a_single_device(folder, replicas, parts):
    run, alone = folder / f"run-{replicas}-{parts}", folder / "run-1-1"
    assert_same_arrays(newest_checkpoint(run), newest_checkpoint(alone))
    norms, clipped = (read_history(each)["gradient_norm"] for each in (run, alone))
    assert norms == pytest.approx(clipped, rel=1e-4)
    assert max(norms) > 1.5
    last_row, last_epoch = (read(run)["loss"][-1] for read in (read_metrics, read_history))
    assert last_row == pytest.approx(last_epoch, rel=1e-4)


def test_all_replicas_skip_a_step_that_overflows_on_the_second(folder):
    with np.load(folder / "overflow.npz") as arrays:
        arrays = dict(arrays)
    count = len([name for name in arrays if name.startswith("0-0-")])
    on = [
        [[arrays[f"{step}-{replica}-{number}"] for number in range(count)] for replica in range(2)]
        for step in range(3)
    ]
    for one, other in on:
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert np.isfinite(ours).all()
    scales = [of_first[0] for of_first, _ in on]
    assert scales == [2**15, 2**22, 2**15]
    for old, same, new in zip(*(of_first[1:] for of_first, _ in on), strict=True):
        np.testing.assert_array_equal(same, old)
        assert np.abs(new - old).max() > 1e-3
    assert [bool(np.isfinite(arrays[f"norm-{step}"][0])) for step in range(3)] == [
        True,
        False,
        True,
    ]


def test_each_replica_has_its_own_dropout_mask(folder):
    with np.load(folder / "dropped.npz") as arrays:
        one, other = arrays.values()
    for outputs in one, other:
        assert set(np.unique(outputs)) == {0.0, 2.0}
        assert 0.3 < (outputs == 0).mean() < 0.7
    assert 0.3 < (one == other).mean() < 0.7


if __name__ == "__main__":
    main(*sys.argv[1:])
