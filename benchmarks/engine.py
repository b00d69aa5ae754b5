"""A process that runs one engine of `benchmarks.decoding`, so that engines share nothing.

It reads a task and then commands from standard input, one line of JSON each, and answers each with
a line:

    {"engine", "threads", "options", "batches"} -> null, once the engine is loaded and warm
    "run" -> {"seconds", "other_cores"} for all batches in sequence
    "end" -> {"peak_memory", "version", "tokens", "texts"}

This file must also run in Python 3.10, which OpenNMT-tf needs.
"""

import functools
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Stopwatch, peak_memory

PAD_ID, BOS_ID = 0, 2


class SavedModel:
    """An exported model in a session, as in the model server: from texts to texts."""

    def __init__(self, threads: int, path: str):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the tokenizer's ops

        self.version = f"TensorFlow {tf.__version__}"
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
        )
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        with self._session.graph.as_default():
            self._signatures = tf.compat.v1.saved_model.load(
                self._session, ["serve"], path
            ).signature_def

    def translate(self, texts: Sequence[str]) -> Any:
        return self._run("serving_default", "translation", texts)

    def describe(self, texts: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """Return the tokens of the translations, and the translations."""
        rows = self._run("attend", "target_tokens", texts)
        tokens = [[token.decode() for token in row if token] for row in rows]
        return tokens, [text.decode() for text in self.translate(texts)]

    def _run(self, signature, output, texts):
        signature = self._signatures[signature]
        fetch, feed = signature.outputs[output].name, signature.inputs["text"].name
        return self._session.run(fetch, {feed: texts})


class CTranslate2:
    """A model of `export_ctranslate2`: from tokens to tokens."""

    def __init__(
        self,
        threads: int,
        path: str,
        compute_type: str = "float32",
        prefix: str | None = None,
        **options: Any,
    ):
        import ctranslate2

        self.version = f"CTranslate2 {ctranslate2.__version__}"
        self._prefix, self._options = prefix, options
        self._translator = ctranslate2.Translator(
            path, compute_type=compute_type, inter_threads=1, intra_threads=threads
        )

    def translate(self, tokens: Sequence[Sequence[str]]) -> Any:
        prefix = {} if self._prefix is None else {"target_prefix": len(tokens) * [[self._prefix]]}
        return self._translator.translate_batch(tokens, **prefix, **self._options)

    def describe(self, tokens: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
        """Return the tokens of the translations, and no texts."""
        return [result.hypotheses[0] for result in self.translate(tokens)], []


class HuggingFace:
    """A model in PyTorch: from texts to texts, of a given number of tokens."""

    def __init__(
        self, threads: int, path: str, beam_size: int, length: int, languages: Sequence[str] = ()
    ):
        import torch
        import transformers

        self.version = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
        torch.set_num_threads(threads)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        classes = transformers.AutoModelForSeq2SeqLM
        self._model = classes.from_pretrained(path, dtype=torch.float32)
        self._options = {"num_beams": beam_size, "length_penalty": 0.0, "do_sample": False}
        # No eos before the last token, which may be any.
        self._options |= {"min_new_tokens": length - 1, "max_new_tokens": length}
        if languages:
            self._tokenizer.src_lang, target = languages
            target = self._tokenizer.convert_tokens_to_ids(target)
            self._options["forced_bos_token_id"] = target

    def translate(self, texts: Sequence[str]) -> Any:
        return self._tokenizer.batch_decode(self._generate(texts), skip_special_tokens=True)

    def describe(self, texts: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """Return the tokens of the translations, and the translations."""
        rows = self._generate(texts)[:, 1:]  # The decoder starts from padding.
        tokens = [self._tokenizer.convert_ids_to_tokens(row) for row in rows]
        return tokens, self.translate(texts)

    def _generate(self, texts):
        batch = self._tokenizer(texts, return_tensors="pt", padding=True)
        return self._model.generate(**batch, **self._options)


class Peer:
    """Another library's search with random weights, from padded ids [B, S] to tokens."""

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
ENGINES = {"SavedModel": SavedModel, "CTranslate2": CTranslate2, "Hugging Face": HuggingFace} | {
    name: functools.partial(Peer, build) for name, build in PEERS.items()
}


def main() -> None:
    task = json.loads(sys.stdin.readline())
    engine = ENGINES[task["engine"]](task["threads"], **task["options"])
    batches = task["batches"]
    for batch in batches:
        engine.translate(batch)
    _answer(None)
    for command in map(json.loads, sys.stdin):
        if command == "run":
            with Stopwatch() as watch:
                for batch in batches:
                    engine.translate(batch)
            _answer({"seconds": watch.seconds, "other_cores": watch.other_cores})
        else:
            result = {"peak_memory": peak_memory(), "version": engine.version}
            tokens, texts = zip(*map(engine.describe, batches), strict=True)
            _answer(result | {"tokens": sum(tokens, []), "texts": sum(texts, [])})


def _answer(message) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
