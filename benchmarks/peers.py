"""Engines of other libraries for `benchmarks.engine`, with random weights and our sizes.

They translate ids, and generate a given number of tokens for every sentence. This file must also
run in Python 3.10, which OpenNMT-tf needs.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAD_ID, BOS_ID = 0, 2


class Peer:
    """A library's search in a `tf.function`, from padded ids [B, S] to tokens [B, length]."""

    def __init__(self, build: Callable[..., tuple[str, Any]], threads: int, **options: Any):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.random.set_seed(1)
        self.version, search = build(**options)
        self._search = tf.function(search, [tf.TensorSpec([None, None], tf.int32)])

    def translate(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        ids = np.full((len(rows), max(map(len, rows))), PAD_ID, "int32")
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return self._search(ids).numpy()

    def describe(self, rows: Sequence[Sequence[int]]) -> tuple[list[list[str]], list[str]]:
        """Return the tokens, as meaningless numbers, and no texts."""
        return self.translate(rows).astype(str).tolist(), []


def keras_hub_search(
    *,
    vocab_size: int,
    num_layers: int,
    d_model: int,
    d_ff: int,
    num_heads: int,
    beam_size: int,
    length: int,
) -> tuple[str, Any]:
    """Return the version and a search of KerasHub: its layers with caches, and its samplers."""
    import keras_hub
    import tensorflow as tf

    version = f"KerasHub {keras_hub.__version__}"
    layers, samplers = keras_hub.layers, keras_hub.samplers
    sampler = samplers.BeamSampler(beam_size) if beam_size > 1 else samplers.GreedySampler()
    embedding = layers.TokenAndPositionEmbedding(vocab_size, 256, d_model, tie_weights=True)
    encoder = [layers.TransformerEncoder(d_ff, num_heads) for _ in range(num_layers)]
    decoder = [layers.TransformerDecoder(d_ff, num_heads) for _ in range(num_layers)]

    def search(source):
        rows, columns = tf.unstack(tf.shape(source))
        mask = source != PAD_ID
        memory = embedding(source)
        for layer in encoder:
            memory = layer(memory, padding_mask=mask)

        def empty_cache(positions):
            return tf.zeros([rows, 2, positions, num_heads, d_model // num_heads])

        # The keys and values of the encoder's output are the same in each step.
        crossed = []
        for layer in decoder:
            *_, cache = layer(
                tf.zeros([rows, 1, d_model]),
                memory,
                encoder_padding_mask=mask,
                self_attention_cache=empty_cache(length),
                self_attention_cache_update_index=0,
                cross_attention_cache=empty_cache(columns),
                cross_attention_cache_update_index=0,
            )
            crossed.append(tf.repeat(cache, beam_size, axis=0))
        memory, mask = (tf.repeat(x, beam_size, axis=0) for x in (memory, mask))

        def next_logits(prompt, cache, index):
            hidden = embedding(prompt[:, index - 1 : index], start_index=index - 1)
            caches = []
            for i, layer in enumerate(decoder):
                hidden, updated, _ = layer(
                    hidden,
                    memory,
                    encoder_padding_mask=mask,
                    self_attention_cache=cache[:, i],
                    self_attention_cache_update_index=index - 1,
                    cross_attention_cache=crossed[i],
                )
                caches.append(updated)
            logits = embedding.token_embedding(hidden, reverse=True)[:, 0]
            return logits, None, tf.stack(caches, axis=1)

        prompt = tf.pad(tf.fill([rows, 1], BOS_ID), [[0, 0], [0, length]])
        cache = tf.stack([empty_cache(length)] * num_layers, axis=1)
        return sampler(next_logits, prompt, cache=cache, index=1)[:, 1:]

    search(tf.ones([1, 1], tf.int32))  # Creates the weights outside of a tf.function.
    return version, search


def opennmt_search(
    *,
    vocab_size: int,
    num_layers: int,
    d_model: int,
    d_ff: int,
    num_heads: int,
    beam_size: int,
    length: int,
) -> tuple[str, Any]:
    """Return the version and a search of OpenNMT-tf: its Transformer and dynamic decoding."""
    import opennmt
    import tensorflow as tf

    version = f"OpenNMT-tf {opennmt.__version__} on TensorFlow {tf.__version__}"
    model = opennmt.models.Transformer(
        num_layers=num_layers,
        num_units=d_model,
        num_heads=num_heads,
        ffn_inner_dim=d_ff,
        pre_norm=False,
        output_layer_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocabulary"
        words = ["<blank>", "<s>", "</s>", *(f"w{i}" for i in range(vocab_size - 4))]
        vocabulary.write_text("\n".join(words) + "\n")  # <unk> is added to it.
        files = {f"{side}_vocabulary": str(vocabulary) for side in ("source", "target")}
        limits = dict.fromkeys(("maximum_decoding_length", "minimum_decoding_length"), length)
        model.initialize(files, params={"beam_width": beam_size, **limits})
    model.create_variables()

    def search(source):
        lengths = tf.reduce_sum(tf.cast(source != PAD_ID, tf.int32), axis=1)
        found = model.infer({"ids": tf.cast(source, tf.int64), "length": lengths})
        return found["tokens"][:, 0]

    return version, search


PEERS = {"KerasHub": keras_hub_search, "OpenNMT-tf": opennmt_search}
