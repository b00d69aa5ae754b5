"""Trainers for `benchmarks.training`: ours, and those of other libraries on the same batches.

Each is set up with sizes, batches and a precision, then makes one pass per call.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.batches import Batch, load_batches
from benchmarks.pytorch import LEARNING_RATE, LONGEST, Pass, of_pytorch
from keras_transformer.config import BOS_ID, PAD_ID, TransformerConfig
from keras_transformer.training import prepare_cpu
from keras_transformer.training.devices import keep_freed_memory


def make_step(name: str, case: tuple[TransformerConfig, str, str]) -> Pass:
    """Return one pass over the batches by the trainer of this name.

    Args:
        name: A key of `TRAINERS`, with or without `PREPARED` at the end.
        case: The model's sizes, the Keras dtype policy, and the file of `save_batches`.
    """
    config, precision, path = case
    trainer, is_prepared = name.removesuffix(PREPARED), name.endswith(PREPARED)
    options = {}
    if is_prepared and trainer == "ours":
        options["parts"] = prepare_cpu()
    elif is_prepared:
        keep_freed_memory()  # With one thread per operation, a peer's step would use one core.
    return TRAINERS[trainer](config, load_batches(path), precision, **options)


def ours(
    config: TransformerConfig, batches: Sequence[Batch], precision: str, parts: int = 1
) -> Pass:
    """Train with `model.fit` and our model, loss and optimizer, with the dropout of every peer."""
    import keras

    from keras_transformer.losses import LabelSmoothedCrossEntropy
    from keras_transformer.optimizers import FusedAdam
    from keras_transformer.training import TrainingTransformer

    keras.utils.set_random_seed(1)
    rates = {"attention_dropout": config.dropout, "ffn_dropout": config.dropout}
    model = TrainingTransformer(replace(config, **rates), parts=parts, dtype=precision)
    adam = FusedAdam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, LabelSmoothedCrossEntropy(0.1), jit_compile=False)
    return _fit(model, lambda source, decoder: {"source": source, "target": decoder}, batches)


def of_keras_hub(config: TransformerConfig, batches: Sequence[Batch], precision: str) -> Pass:
    """Train KerasHub's layers in a functional model, as in keras.io's translation example."""
    import keras
    import keras_hub

    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_global_policy(precision)
    layers = keras_hub.layers
    embedding = layers.TokenAndPositionEmbedding(
        config.vocab_size, LONGEST, config.d_model, tie_weights=True, mask_zero=True
    )
    sizes = {"intermediate_dim": config.d_ff, "num_heads": config.num_heads}
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    memory = embedding(source)
    for _ in range(config.num_layers):
        memory = layers.TransformerEncoder(**sizes, dropout=config.dropout)(memory)
    hidden = embedding(target)
    for _ in range(config.num_layers):
        hidden = layers.TransformerDecoder(**sizes, dropout=config.dropout)(hidden, memory)
    model = keras.Model([source, target], embedding.token_embedding(hidden, reverse=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PAD_ID)
    adam = keras.optimizers.Adam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, loss, jit_compile=False)
    return _fit(model, lambda source, decoder: (source, decoder), batches)


def _fit(model, make_inputs, batches):
    """Return a pass of `model.fit` over batches in memory."""
    import tensorflow as tf

    def elements():
        for source, labels in batches:
            decoder = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=BOS_ID)
            yield make_inputs(source, decoder), labels

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(
        elements, output_signature=(make_inputs(ids, ids), ids)
    )
    options = tf.data.Options()
    options.autotune.enabled = False  # Its thread may keep the end of fit waiting.
    dataset = dataset.cache().prefetch(2).with_options(options)
    return lambda: model.fit(dataset, epochs=1, shuffle=False, verbose=0).history["loss"][0]


TRAINERS = {"ours": ours, "KerasHub": of_keras_hub, "PyTorch": of_pytorch}
PREPARED = ", prepared"
"""Suffix of trainers whose process calls `prepare_cpu`, or the part of it that helps peers."""
