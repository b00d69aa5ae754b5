"""A process that runs one engine of `benchmarks.decoding`, so that engines share nothing.

It reads a task and then commands from standard input, one line of JSON each, and answers each with
a line:

    {"engine", "threads", "options", "batches"} -> null, once the engine is loaded and warm
    "run" -> {"seconds", "other_cores"} for all batches in sequence
    "end" -> {"peak_memory", "version", "tokens", "texts"}
"""

import functools
import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import Stopwatch, peak_memory
from benchmarks.peers import PEERS, Peer


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

    def __init__(self, threads: int, path: str, **options: Any):
        import ctranslate2

        self.version = f"CTranslate2 {ctranslate2.__version__}"
        self._options = options
        self._translator = ctranslate2.Translator(
            path, compute_type="float32", inter_threads=1, intra_threads=threads
        )

    def translate(self, tokens: Sequence[Sequence[str]]) -> Any:
        return self._translator.translate_batch(tokens, **self._options)

    def describe(self, tokens: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
        """Return the tokens of the translations, and no texts."""
        return [result.hypotheses[0] for result in self.translate(tokens)], []


class HuggingFace:
    """A `MarianMTModel` in PyTorch: from texts to texts, of a given number of tokens."""

    def __init__(self, threads: int, path: str, beam_size: int, length: int):
        import torch
        import transformers

        self.version = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
        torch.set_num_threads(threads)
        self._tokenizer = transformers.MarianTokenizer.from_pretrained(path)
        self._model = transformers.MarianMTModel.from_pretrained(path)
        self._options = {"num_beams": beam_size, "length_penalty": 0.0, "do_sample": False}
        # No eos before the last token, which may be any.
        self._options |= {"min_new_tokens": length - 1, "max_new_tokens": length}

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
