"""A toy language, a tokenizer, a model with random weights, and a small training run."""

import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import EOS_ID, DecodingConfig, ExperimentConfig
from keras_transformer.export import export_saved_model
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from keras_transformer.training import train
from keras_transformer.translation.translator import Translator
from tests.helpers.shared import shared

ROOT = Path(__file__).parents[2]

WORDS = {
    "one": "eins",
    "two": "zwei",
    "red": "rot",
    "blue": "blau",
    "dog": "Hund",
    "cat": "Katze",
    "sun": "Sonne",
    "moon": "Mond",
    "big": "groß",
    "old": "alt",
    "sees": "sieht",
    "runs": "läuft",
}

ODD = [
    "",
    " ",
    "\t\n \u3000",
    "one",
    "😀 🐕\u200d🦺",
    "Ω≈ç√ 漢字 кот ﬁ",
    "one\x00two\x07\x1b[31m",
    "\u202eright to left\u2028next",
    "a" * 700,
    "one two " * 200,
    "e\u0301" * 9,
    "\U0010ffff",
]
"""Unusual strings that users may send."""

NO_UTF8 = [b"\xff", b"one \xc3", b"\xed\xa0\x80 two", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"]
"""Invalid UTF-8, which only a graph can receive."""


def toy_pairs(count, seed=1):
    """Return distinct sentences of 3 to 6 words, with their words translated and reversed."""
    choose = random.Random(seed)
    sources = {}
    while len(sources) < count:
        words = tuple(choose.choices(list(WORDS), k=choose.randint(3, 6)))
        sources[words] = None
    return [(" ".join(words), " ".join(WORDS[w] for w in words[::-1])) for words in sources]


def toy_sentences(count, seed=1):
    return [source for source, _ in toy_pairs(count, seed)]


@functools.cache
def tiny_tokenizer(vocab_size=380, sides=(0, 1)):
    """Return a tokenizer for which each word of the toy language is one subword."""
    lines = [pair[side] for side in sides for pair in toy_pairs(200)]
    return SentencePieceTokenizer(train_sentencepiece(lines, vocab_size))


@functools.cache
def languages_tokenizer(comes_last=False):
    """Return the tokenizer of a model of three languages, like those that are imported."""
    own, codes = tiny_tokenizer(), ["eng_Latn", "deu_Latn", "zho_Hans"]
    pieces = [*own.id_to_piece(range(own.vocab_size)), *codes]
    languages = {"languages": dict(zip(codes, codes, strict=True)), "silent": codes}
    joined = join_vocabulary(own.model, pieces, **languages, language_comes_last=comes_last)
    return SentencePieceTokenizer(joined)


def tiny_model(vocab_size=380, target_vocab_size=None, num_layers=2, **options):
    """Return a model whose random weights distinguish sentences and end some translations."""
    config = TransformerConfig(
        vocab_size=vocab_size,
        target_vocab_size=target_vocab_size,
        num_layers=num_layers,
        d_model=12,
        d_ff=20,
        num_heads=3,
        key_dim=5,
        share_embeddings="none",
        **options,
    )
    model = Transformer(config)
    normal = np.random.default_rng(2).normal
    for weight in model.trainable_weights:
        if weight.name == "embeddings":
            value = normal(scale=config.d_model**-0.5, size=weight.shape)
        elif len(weight.shape) > 1:
            value = normal(scale=weight.shape[0] ** -0.5, size=weight.shape)
        else:
            value = weight.numpy() + normal(scale=0.2, size=weight.shape)
        weight.assign(value)
    output = 3 * model.output_embedding.embeddings.numpy()
    output[EOS_ID] *= 1.7
    output[4:260] *= 0.4  # Bytes, which rarely form valid text.
    model.output_embedding.embeddings.assign(output)
    return model


@functools.cache
def tiny_translator(num_layers=2, **decoding):
    model = tiny_model(num_layers=num_layers)
    return Translator(model, tiny_tokenizer(), decoding=DecodingConfig(**decoding))


def write_toy_text(directory, train=400, validation=20):
    """Write train.source, train.target and so on, and return the data configuration."""
    pairs, data = toy_pairs(train + validation), toy_data(directory)
    for split, part in (("train", pairs[:train]), ("validation", pairs[train:])):
        for side, name in enumerate(("source", "target")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            Path(data[f"{split}_{name}"]).write_text(text, encoding="utf-8")
    return data


def toy_data(directory):
    """Return the data configuration of the text that `write_toy_text` writes."""
    return {
        f"{split}_{side}": str(Path(directory) / f"{split}.{side}")
        for split in ("train", "validation")
        for side in ("source", "target")
    }


def toy_experiment(data, model=None, **training):
    """Return an experiment that takes seconds; `model` and `training` override its fields."""
    return ExperimentConfig.from_dict(
        {
            "model": {
                "vocab_size": 380,
                "num_layers": 1,
                "d_model": 32,
                "d_ff": 48,
                "num_heads": 2,
                **(model or {}),
            },
            "data": data,
            "training": {
                "epochs": 3,
                "batch_tokens": 60,
                "warmup_steps": 1,  # A run may have a single step.
                "learning_rate_scale": 0.03,
                "average_checkpoints": 2,
                **training,
            },
            "decoding": {"beam_size": 2, "length_penalty": 1.0},
        }
    )


TOY_RECIPE = {
    "warmup_steps": 80,
    "learning_rate_scale": 0.5,  # With 1 the loss of the third epoch may rise.
}


def toy_run():
    """Train for three epochs, once for all processes.

    Returns:
        A directory of the `text`; the run, `training`; and some translations of the translator that
        `train` returned, returned.json. Tests must not change it.
    """

    def make(folder):
        (folder / "text").mkdir()
        config = toy_experiment(write_toy_text(folder / "text"), **TOY_RECIPE)
        translations = train(config, folder / "training")(toy_sentences(30, seed=9))
        (folder / "returned.json").write_text(json.dumps(translations), encoding="utf-8")

    return shared("toy", make)


@functools.cache
def toy_training():
    """Return the directory of a run of three epochs, and its translator.

    Tests of a process share them and must not change them.
    """
    directory = shutil.copytree(toy_run() / "training", Path(_directory().name) / "training")
    return directory, Translator.load(directory)


@functools.cache
def _directory():
    return tempfile.TemporaryDirectory()  # Removed when the process ends.


def export_quickly(translator, path, facts=None, methods=None):
    """Export `serving_default` alone, or also others, with warm-up requests that do not run."""
    with (
        mock.patch("keras_transformer.export.signatures.METHODS", methods or {}),
        mock.patch("keras_transformer.export.saved_model.replay"),
    ):
        return export_saved_model(translator, path, facts)


def saved_graph(version):
    """Return a SavedModel's `nodes`, including those of `functions`, and its `signatures`."""
    content = (version / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for f in functions for node in f.node_def)]
    return SimpleNamespace(nodes=nodes, functions=functions, signatures=graph.signature_def)


def run_python(*arguments, root=ROOT, **options):
    """Run Python with `root` on its path, and return the process, which must succeed."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL")
    }
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    environment |= {"PYTHONPATH": str(root)} if root else {}
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        **options,
    )
    assert process.returncode == 0, process.stderr
    return process
