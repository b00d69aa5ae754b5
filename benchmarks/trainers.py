"""Trainers for `benchmarks.training`: ours, and those of other libraries on the same batches.

Each takes sizes, batches and a precision, and returns a function that makes a step of the optimizer
on every batch, once, and returns the mean of the losses.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.config import (
    BOS_ID,
    PAD_ID,
    DataConfig,
    ExperimentConfig,
    TrainingConfig,
    TransformerConfig,
)

Batch = tuple[np.ndarray, np.ndarray]
"""Source and labels, int32 [B, S] and [B, T]."""
LEARNING_RATE = 1e-4
LONGEST = 256
"""Positions that learned encodings have room for."""


def save_batches(batches: Sequence[Batch], path: Path) -> None:
    """Write batches to a file for the processes of the trainers."""
    arrays = {}
    for i, (source, labels) in enumerate(batches):
        arrays |= {f"source{i}": source, f"labels{i}": labels}
    np.savez(path, **arrays)


def load_batches(path: str) -> list[Batch]:
    """Read what `save_batches` wrote."""
    with np.load(path) as file:
        return [(file[f"source{i}"], file[f"labels{i}"]) for i in range(len(file.files) // 2)]


def make_step(name: str, case: tuple[TransformerConfig, str, str]) -> Callable[[], float]:
    """Return one pass over the batches by the trainer of this name.

    Args:
        name: a key of `TRAINERS`.
        case: the model's sizes, the precision as Keras names it, and the file of `save_batches`.
    """
    config, precision, path = case
    return TRAINERS[name](config, load_batches(path), precision)


def ours(config, batches, precision):
    """`model.fit` on a model, loss and optimizer of ours, in a process prepared as `train` does."""
    from keras_transformer.training import keep_freed_memory

    keep_freed_memory()
    return _ours(config, batches, precision)


def _ours(config, batches, precision):
    import tensorflow as tf

    from keras_transformer.training.run import compiled_model

    recipe = TrainingConfig(warmup_steps=1000, precision=precision)  # About 1e-4 at step 50.
    experiment = ExperimentConfig(model=config, data=_NO_TEXT, training=recipe)
    model = compiled_model(experiment, tf.distribute.get_strategy())
    return _fit(model, lambda source, decoder: {"source": source, "target": decoder}, batches)


def keras_hub(config, batches, precision):
    """KerasHub's layers in a functional model, as keras.io's example of translation has them."""
    import keras
    import keras_hub

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
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PAD_ID),
        jit_compile=False,
    )
    return _fit(model, lambda source, decoder: (source, decoder), batches)


def keras_hub_memory_kept(config, batches, precision):
    """KerasHub in a process whose C library was told what ours is."""
    from keras_transformer.training import keep_freed_memory

    keep_freed_memory()
    return keras_hub(config, batches, precision)


def pytorch(config, batches, precision):
    """`torch.nn.Transformer`, in a loop of the fewest lines, with the fused Adam."""
    import torch
    from torch.nn import functional

    torch.manual_seed(1)
    width = config.d_model
    embedding = torch.nn.Embedding(config.vocab_size, width, padding_idx=PAD_ID)
    torch.nn.init.normal_(embedding.weight, 0, width**-0.5)
    transformer = torch.nn.Transformer(
        width,
        config.num_heads,
        config.num_layers,
        config.num_layers,
        config.d_ff,
        config.dropout,
        batch_first=True,
    )
    dropout = torch.nn.Dropout(config.dropout)
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(LONGEST)[:, None] * frequencies
    positions = torch.cat([angles.sin(), angles.cos()], 1)
    parameters = [*embedding.parameters(), *transformer.parameters()]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    tensors = [[torch.from_numpy(ids).long() for ids in batch] for batch in batches]

    def embed(ids):
        return dropout(embedding(ids) * math.sqrt(width) + positions[: ids.shape[1]])

    def loss_of(source, labels):
        decoder = functional.pad(labels[:, :-1], (1, 0), value=BOS_ID)
        padding = source == PAD_ID
        later = torch.ones(labels.shape[1], labels.shape[1], dtype=torch.bool).triu(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            hidden = transformer(
                embed(source),
                embed(decoder),
                tgt_mask=later,
                src_key_padding_mask=padding,
                memory_key_padding_mask=padding,
                tgt_is_causal=True,
            )
            logits = functional.linear(hidden, embedding.weight)
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            labels.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=0.1,
        )

    def one_pass():
        losses = []
        for batch in tensors:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*batch)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return float(np.mean(losses))

    return one_pass


def _fit(model, make_inputs, batches):
    """Return a pass of `model.fit` over batches that are in memory."""
    import tensorflow as tf

    def elements():
        for source, labels in batches:
            decoder = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=BOS_ID)
            yield make_inputs(source, decoder), labels

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(
        elements, output_signature=(make_inputs(ids, ids), ids)
    )
    dataset = dataset.cache().prefetch(2)
    return lambda: model.fit(dataset, epochs=1, shuffle=False, verbose=0).history["loss"][0]


_NO_TEXT = DataConfig(
    train_source="-", train_target="-", validation_source="-", validation_target="-"
)
TRAINERS = {
    "ours": ours,
    "ours, memory given back": _ours,
    "KerasHub": keras_hub,
    "KerasHub, memory kept": keras_hub_memory_kept,
    "PyTorch": pytorch,
}
"""By the name in the table."""
