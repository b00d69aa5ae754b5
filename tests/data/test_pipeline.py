import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import EncodedPairs, TokenBatches, pipeline
from tests.helpers.tiny import run_python

SOURCE_LENGTHS = [5, 3, 9, 4, 7, 4, 6, 5, 8, 3] * 6
TARGET_LENGTHS = [4, 6, 8, 4, 9, 2, 6, 7, 5, 5] * 6


def pairs_of_lengths(source_lengths, target_lengths):
    """Return pairs of which every token is the number of the pair plus 10."""

    def flat(lengths):
        counts = np.array(lengths) - 1
        ids = np.repeat(np.arange(len(counts), dtype=np.int32) + 10, counts)
        return ids, np.concatenate([[0], np.cumsum(counts)])

    return EncodedPairs(*flat(source_lengths), *flat(target_lengths))


@pytest.fixture
def pairs():
    return pairs_of_lengths(SOURCE_LENGTHS, TARGET_LENGTHS)


def labels_of_an_epoch(dataset):
    return [labels.numpy().tolist() for _, labels in dataset]


def one_weight_model():
    """Return a model so small that `fit` does little but read its data; logits [B, T, 1]."""
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    ids = keras.ops.expand_dims(keras.ops.cast(target, "float32"), -1)
    read = keras.ops.cast(keras.ops.sum(source) * 0, "float32")
    return keras.Model({"source": source, "target": target}, keras.layers.Dense(1)(ids + read))


def test_batches_of_three_pairs_equal_those_written_by_hand():
    batches = TokenBatches(
        pairs_of_lengths([2, 3, 4], [3, 2, 6]), batch_tokens=6, num_replicas=1, shuffle=False
    )
    elements = [
        (inputs["source"].numpy().tolist(), inputs["target"].numpy().tolist(), labels.numpy())
        for inputs, labels in batches.dataset()
    ]
    assert len(batches) == len(elements) == 2
    assert elements[0][0] == [[10, 3, 0], [11, 11, 3]]
    assert elements[0][1] == [[2, 10, 10], [2, 11, 0]]
    assert elements[0][2].tolist() == [[10, 10, 3], [11, 3, 0]]
    assert elements[1][0] == [[12, 12, 12, 3]]
    assert elements[1][1] == [[2, 12, 12, 12, 12, 12]]
    assert elements[1][2].tolist() == [[12, 12, 12, 12, 12, 3]]


def test_shapes_are_unknown_and_the_number_of_batches_is_known(pairs):
    batches = TokenBatches(pairs, 40)
    dataset = batches.dataset()
    ids = tf.TensorSpec([None, None], tf.int32)
    assert dataset.element_spec == ({"source": ids, "target": ids}, ids)
    assert dataset.cardinality().numpy() == len(batches)
    assert len(batches) == len(list(dataset)) == len(list(dataset))


def test_no_batch_exceeds_the_budget_and_every_pair_comes_once(pairs):
    seen = []
    for inputs, labels in TokenBatches(pairs, 40, num_replicas=2).dataset():
        sentences = labels[:, 0] != 0
        assert max(tf.size(ids[sentences]) for ids in (inputs["source"], labels)) <= 40
        assert inputs["target"].shape == labels.shape
        assert inputs["source"].shape[0] == labels.shape[0]
        assert labels.shape[0] % 2 == 0
        assert tf.reduce_all(inputs["source"][:, 0] == labels[:, 0])
        seen.extend(first - 10 for first in labels[:, 0].numpy() if first)
    assert sorted(seen) == list(range(len(pairs)))


def test_each_iteration_is_the_next_epoch(pairs):
    batches = TokenBatches(pairs, 40, seed=3)
    dataset = batches.dataset()
    first, second = labels_of_an_epoch(dataset), labels_of_an_epoch(dataset)
    assert batches.epoch == 2
    assert first != second
    assert labels_of_an_epoch(TokenBatches(pairs, 40, seed=4).dataset()) != first


@pytest.mark.parametrize("steps", [2, 5, 7, 17])
def test_epochs_of_a_given_number_of_steps_continue_where_the_last_one_ended(pairs, steps):
    whole = TokenBatches(pairs, 60, seed=3)
    assert len(whole) == 7
    in_order = [batch for _ in range(6) for batch in labels_of_an_epoch(whole.dataset())]
    batches = TokenBatches(pairs, 60, seed=3, steps_per_epoch=steps)
    dataset = batches.dataset()
    assert len(batches) == dataset.cardinality().numpy() == steps
    first, second = labels_of_an_epoch(dataset), labels_of_an_epoch(dataset)
    assert first + second == in_order[: 2 * steps]
    assert batches.epoch == 2


@pytest.mark.parametrize("steps", [None, 5, 9])
def test_an_epoch_may_begin_at_any_step(pairs, steps):
    def batches():
        return TokenBatches(pairs, 60, seed=3, steps_per_epoch=steps)

    whole = batches()
    _, second, third = (labels_of_an_epoch(whole.dataset()) for _ in range(3))
    for step in range(len(whole)):
        resumed = batches()
        resumed.epoch, resumed.step = 1, step
        dataset = resumed.dataset()
        assert dataset.cardinality().numpy() == len(whole) - step
        assert labels_of_an_epoch(dataset) == second[step:]
        assert (resumed.epoch, resumed.step) == (2, 0)
        assert labels_of_an_epoch(resumed.dataset()) == third


def test_a_pass_is_planned_once_for_all_of_its_epochs(pairs, monkeypatch):
    planned = []
    plan_batches = pipeline.plan_batches

    def plan(*args, **options):
        planned.append(options["epoch"])
        return plan_batches(*args, **options)

    monkeypatch.setattr(pipeline, "plan_batches", plan)
    batches = TokenBatches(pairs, 60, steps_per_epoch=2)
    assert batches.passes == 2 / 7
    dataset = batches.dataset()
    for _ in range(7):  # Two passes of seven batches.
        labels_of_an_epoch(dataset)
    assert planned == [0, 1]


def test_weights_say_how_often_a_pass_has_a_pair(pairs):
    def passes(weights, number=3, **options):
        batches = TokenBatches(pairs, 40, seed=3, weights=weights, **options)
        dataset = batches.dataset()
        counts = []
        for _ in range(number):
            labels = np.concatenate([ids[:, 0] for _, ids in dataset])
            counts.append(np.bincount(labels[labels > 0] - 10, minlength=len(pairs)))
        return counts, batches

    (whole, *_), batches = passes([(20, 1), (10, 3), (30, 0)])
    assert whole.tolist() == [1] * 20 + [3] * 10 + [0] * 30
    lengths = np.array(SOURCE_LENGTHS) + TARGET_LENGTHS
    assert batches.tokens == lengths[:20].sum() + 3 * lengths[20:30].sum()

    parts, batches = passes([(40, 1), (20, 1.5)], number=6, steps_per_epoch=100)
    again, _ = passes([(40, 1), (20, 1.5)], number=6, steps_per_epoch=100, num_replicas=3)
    assert np.array_equal(parts, again)
    # Passes are put together in another way, so an epoch of many steps has all of them.
    once, extra = sum(parts)[:40], sum(parts)[40:]
    assert 1.4 < extra.mean() / once.mean() < 1.6
    first, second = (batches._members(number) for number in (0, 1))
    assert len(first) == len(second) == 70
    assert np.bincount(first).max() == 2
    assert first.tolist() != second.tolist()


def test_weights_of_one_change_nothing(pairs):
    plain = labels_of_an_epoch(TokenBatches(pairs, 40, seed=3).dataset())
    weighted = TokenBatches(pairs, 40, seed=3, weights=[(20, 1), (40, 1.0)])
    assert labels_of_an_epoch(weighted.dataset()) == plain


def test_tokens_count_an_epoch_without_padding(pairs):
    tokens = sum(SOURCE_LENGTHS) + sum(TARGET_LENGTHS)
    assert TokenBatches(pairs, 60).tokens == tokens
    assert TokenBatches(pairs, 60, steps_per_epoch=14).tokens == 2 * tokens


def test_peeking_at_the_first_batch_does_not_count_as_an_epoch(pairs):
    batches = TokenBatches(pairs, 10)
    dataset = batches.dataset()
    peeked = next(iter(dataset))[1].numpy().tolist()
    assert batches.epoch == 0
    assert labels_of_an_epoch(dataset)[0] == peeked


def test_fit_sees_the_epochs_in_order(pairs):
    seen = []

    def loss(labels, logits):
        seen.append(labels.numpy().astype(int).tolist())
        return keras.ops.mean(logits)

    batches, reference = (TokenBatches(pairs, 40, seed=5) for _ in range(2))
    model = one_weight_model()
    model.compile("sgd", loss=loss, run_eagerly=True)
    model.fit(batches.dataset(), epochs=2, verbose=0, shuffle=False)
    assert seen == [x for _ in range(2) for x in labels_of_an_epoch(reference.dataset())]
    assert batches.epoch == 2


# Replicas must exist before TensorFlow starts, so this runs in a process of its own.
MIRRORED = """
import json, sys
import keras, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from keras_transformer.data import TokenBatches
from tests.data.test_pipeline import (
    SOURCE_LENGTHS, TARGET_LENGTHS, one_weight_model, pairs_of_lengths
)

class TokenCount(keras.metrics.Sum):
    def update_state(self, labels, logits, sample_weight=None):
        super().update_state(keras.ops.cast(labels != 0, "float32"))

class Steps(keras.callbacks.Callback):
    seen = 0
    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1

steps = Steps()
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
batches = TokenBatches(pairs_of_lengths(SOURCE_LENGTHS, TARGET_LENGTHS), 40, num_replicas=2)
with strategy.scope():
    model = one_weight_model()
    model.compile("sgd", loss="mse", weighted_metrics=[TokenCount(name="tokens")])
validation = TokenBatches(batches.pairs, 40, num_replicas=2, shuffle=False)
history = model.fit(
    batches.dataset(), validation_data=validation.dataset(), epochs=2, verbose=0, callbacks=[steps]
)
print(json.dumps({
    "replicas": strategy.num_replicas_in_sync,
    "tokens": history.history["tokens"] + history.history["val_tokens"],
    "steps": steps.seen, "length": len(batches), "epoch": batches.epoch,
}))
"""


@pytest.mark.slow
def test_two_replicas_count_every_token_once_an_epoch():
    result = json.loads(run_python("-c", MIRRORED).stdout.splitlines()[-1])
    assert result["replicas"] == 2
    assert result["tokens"] == [sum(TARGET_LENGTHS)] * 4
    assert result["steps"] == 2 * result["length"]
    assert result["epoch"] == 2


def test_autotuning_is_off(pairs):
    # The end of `fit` would wait for its thread, for up to a minute.
    assert TokenBatches(pairs, 64).dataset().options().autotune.enabled is False


def test_weights_that_leave_no_pair_are_refused(pairs):
    with pytest.raises(ValueError, match="must leave pairs for a pass.*\\(60, 0\\)"):
        TokenBatches(pairs, 60, weights=[(60, 0)])
