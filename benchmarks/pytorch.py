"""Training of `torch.nn.Transformer`, for `benchmarks.training` and `benchmarks.accelerator`."""

import math
from collections.abc import Callable, Sequence

from benchmarks.batches import Batch
from keras_transformer.config import BOS_ID, PAD_ID, TransformerConfig

Pass = Callable[[], float]
"""Make one optimizer step per batch, and return the mean loss."""
LEARNING_RATE = 1e-4
LONGEST = 256
"""Largest number of positions."""


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
