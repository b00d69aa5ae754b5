"""Trainers for benchmarks: ours, and those of other libraries on the same batches.

Each is set up with sizes, batches and a precision, then makes one pass per call. What this module
imports at its start needs no TensorFlow: `benchmarks.gpu` trains with JAX too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_transformer.config import BOS_ID, PAD_ID, TransformerConfig

Batch = tuple[np.ndarray, np.ndarray]
"""Source and labels, int32 [B, S] and [B, T]."""
Pass = Callable[[], float]
"""Make one optimizer step per batch, and return the mean loss."""
LEARNING_RATE = 1e-4
LONGEST = 256
"""Largest number of positions."""


def save_batches(batches: Sequence[Batch], path: Path) -> None:
    """Write batches to a file for the trainers' processes."""
    arrays = {}
    for i, (source, labels) in enumerate(batches):
        arrays |= {f"source{i}": source, f"labels{i}": labels}
    np.savez(path, **arrays)


def load_batches(path: str) -> list[Batch]:
    """Read what `save_batches` wrote."""
    with np.load(path) as file:
        return [(file[f"source{i}"], file[f"labels{i}"]) for i in range(len(file.files) // 2)]


def make_step(name: str, case: tuple[TransformerConfig, str, str]) -> Pass:
    """Return one pass over the batches by the trainer of this name.

    Args:
        name: A key of `TRAINERS`, with or without `PREPARED` at the end.
        case: The model's sizes, the Keras dtype policy, and the file of `save_batches`.
    """
    from keras_transformer.training import prepare_cpu
    from keras_transformer.training.devices import keep_freed_memory

    config, precision, path = case
    trainer, is_prepared = name.removesuffix(PREPARED), name.endswith(PREPARED)
    options = {}
    if is_prepared and trainer == "ours":
        options["parts"] = prepare_cpu()
    elif is_prepared:
        keep_freed_memory()  # With one thread per operation, a peer's step would use one core.
    return TRAINERS[trainer](config, load_batches(path), precision, **options)


def ours(
    config: TransformerConfig,
    batches: Sequence[Batch],
    precision: str,
    parts: int = 1,
    jit_compile: bool = False,
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
    model.compile(adam, LabelSmoothedCrossEntropy(0.1), jit_compile=jit_compile)
    return _fit(model, lambda source, decoder: {"source": source, "target": decoder}, batches)


def ours_on_jax(config: TransformerConfig, batches: Sequence[Batch], precision: str) -> Pass:
    """Train as `ours`, on the JAX backend and without TensorFlow."""
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


def of_pytorch(
    config: TransformerConfig,
    batches: Sequence[Batch],
    precision: str,
    device: str = "cpu",
    compiled: bool = False,
) -> Pass:
    """Train `torch.nn.Transformer` in a minimal loop with the fused Adam.

    Args:
        config: Sizes of the model.
        batches: Batches of one pass.
        precision: A Keras dtype policy; "mixed_bfloat16" is PyTorch's autocast.
        device: Name of the device.
        compiled: Whether `torch.compile` compiles forward and backward pass.
    """
    import torch
    from torch.nn import functional

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")  # As JAX and TensorFlow on a GPU.
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
    embedding, transformer = embedding.to(device), transformer.to(device)
    dropout = torch.nn.Dropout(config.dropout)
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(LONGEST)[:, None] * frequencies
    positions = torch.cat([angles.sin(), angles.cos()], 1).to(device)
    parameters = [*embedding.parameters(), *transformer.parameters()]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    tensors = [[torch.from_numpy(ids).long().to(device) for ids in batch] for batch in batches]

    def embed(ids):
        return dropout(embedding(ids) * math.sqrt(width) + positions[: ids.shape[1]])

    def loss_of(source, labels):
        decoder = functional.pad(labels[:, :-1], (1, 0), value=BOS_ID)
        padding = source == PAD_ID
        later = torch.ones(labels.shape[1], labels.shape[1], dtype=torch.bool, device=device)
        with torch.autocast(device, torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            hidden = transformer(
                embed(source),
                embed(decoder),
                tgt_mask=later.triu(1),
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

    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)

    def one_pass():
        losses = []
        for batch in tensors:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return float(torch.stack(losses).mean())  # Waits for the device once, as Keras does.

    return one_pass


TRAINERS = {"ours": ours, "KerasHub": of_keras_hub, "PyTorch": of_pytorch}
PREPARED = ", prepared"
"""Suffix of trainers whose process calls `prepare_cpu`, or the part of it that helps peers."""
