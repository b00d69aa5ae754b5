"""Decoding cells of `benchmarks.gpu`: the shipped model, and random weights next to peers."""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.gpu_worker import Prepared, Record
from keras_transformer.config import TransformerConfig

FORMS = {
    "ours": ("gpu", "float32"),
    "ours, bfloat16": ("gpu", "bfloat16"),
    "ours, portable": (None, "float32"),
}
"""Our exports: the device that XLA compiles the search for, if any, and the dtype of weights."""
TURN_SECONDS = 0.2


def load_form(form: str, translator: Any) -> Any:
    """Return a session with a translator's export, a `benchmarks.engine.SavedModel`."""
    from benchmarks.engine import SavedModel
    from keras_transformer.export.saved_model import write_graph
    from keras_transformer.translation.translator import Translator

    device, precision = FORMS[form]
    model = translator.model.with_dtype(precision)
    parts = translator.tokenizer, translator.target_tokenizer, translator.decoding
    with tempfile.TemporaryDirectory() as folder:
        write_graph(Translator(model, *parts, device is not None, device), Path(folder, "export"))
        return SavedModel(0, f"{folder}/export")


def serve(
    name: str, form: str, model: str, sentences: Sequence[str], batches: Sequence[int], folder: str
) -> Prepared:
    """Prepare the translations of an export, and write them to the folder as `name`.

    A run measures a batch size (size 1 for 50 sentences only), or compares the translations.
    """
    import tensorflow as tf

    from keras_transformer.translation.translator import Translator

    tf32 = os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"
    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    engine = load_form(form, Translator.load(model))
    texts = sorted(sentences, key=len)

    def translate(batch: int) -> list[str]:
        chosen = texts[:: max(1, len(texts) // 50)] if batch == 1 else texts
        parts = [chosen[i : i + batch] for i in range(0, len(chosen), batch)]
        return [text.decode() for part in parts for text in engine.translate(part)]

    def run(batch: int = 0, other: str = "") -> Record:
        if other:
            theirs = json.loads(Path(folder, other).read_text(encoding="utf-8"))
            differ = [pair for pair in zip(found, theirs, strict=True) if pair[0] != pair[1]]
            return {"of": len(found), "differ": len(differ), "such as": differ[:3]}
        start = time.perf_counter()
        count = len(translate(batch))
        return {"seconds": time.perf_counter() - start, "count": count}

    for batch in batches:
        translate(batch)
    found = translate(64)
    Path(folder, name).write_text(json.dumps(found), encoding="utf-8")
    return {}, run


@dataclass(frozen=True)
class Decoding:
    """What all engines do, each with random weights of the same sizes."""

    config: TransformerConfig
    vocabulary: str  # File of a SentencePiece model.
    beam: int
    length: int  # Tokens of each translation, with its end.
    device: str
    sources: Sequence[str]  # As many texts as the largest batch has.
    pieces: Sequence[Sequence[str]]  # Their tokens.


def decode(engine: str, task: Decoding, batches: Sequence[int]) -> Prepared:
    """Prepare an engine by one translation of each batch; a run repeats one of them."""
    library, _, dtype = engine.partition(", ")
    if library == "Hugging Face":
        translate = _hugging_face(task, dtype)
    else:
        translate = _ctranslate2(task) if library == "CTranslate2" else _ours(task, engine)
    for batch in batches:
        translate(batch)

    def run(batch: int) -> Record:
        start, count = time.perf_counter(), 0
        while not count or time.perf_counter() - start < TURN_SECONDS:
            translate(batch)
            count += 1
        seconds = (time.perf_counter() - start) / count
        return {"seconds": seconds, "count": batch * task.length}

    return {}, run


def _random_translator(task):
    import keras

    from benchmarks.decoding import fixed_length_search
    from keras_transformer import Transformer
    from keras_transformer.text import SentencePieceTokenizer
    from keras_transformer.translation.translator import Translator

    keras.utils.set_random_seed(1)
    tokenizer = SentencePieceTokenizer(Path(task.vocabulary).read_bytes())
    search = fixed_length_search(task.beam)
    search = replace(search, min_length=task.length - 1, max_length=task.length)
    return Translator(Transformer(task.config), tokenizer, decoding=search)


def _ours(task, form):
    engine = load_form(form, _random_translator(task))
    return lambda batch: engine.translate(task.sources[:batch])


def _hugging_face(task, dtype):
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    sizes, device = task.config, "cuda" if task.device == "gpu" else "cpu"
    config = MarianConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.d_model,
        encoder_layers=sizes.num_layers,
        decoder_layers=sizes.num_layers,
        encoder_attention_heads=sizes.num_heads,
        decoder_attention_heads=sizes.num_heads,
        encoder_ffn_dim=sizes.d_ff,
        decoder_ffn_dim=sizes.d_ff,
        max_position_embeddings=128,
        pad_token_id=1,
        eos_token_id=0,
        forced_eos_token_id=None,
        decoder_start_token_id=1,
        activation_function="relu",
    )
    model = MarianMTModel(config).to(device, getattr(torch, dtype)).eval()
    shape = len(task.pieces), len(task.pieces[0]) + 1
    ids = torch.randint(4, sizes.vocab_size, shape, device=device)
    options = {"num_beams": task.beam, "do_sample": False, "length_penalty": 0.0}
    options |= {"min_new_tokens": task.length, "max_new_tokens": task.length}

    @torch.inference_mode()
    def translate(batch):
        mask = torch.ones_like(ids[:batch])
        return model.generate(input_ids=ids[:batch], attention_mask=mask, **options).cpu()

    return translate


def _ctranslate2(task):
    import ctranslate2

    types = {"cuda": "float16", "cpu": "float32"}
    device = "cuda" if task.device == "gpu" else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        # Another process, so that this one has no TensorFlow.
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_export_ctranslate2, args=(task, f"{folder}/export"))
        process.start()
        process.join()
        translator = ctranslate2.Translator(
            f"{folder}/export", device=device, compute_type=types[device]
        )
    options = {"beam_size": task.beam, "length_penalty": 0.0, "disable_unk": True}
    options |= {"min_decoding_length": task.length - 1, "max_decoding_length": task.length}
    options |= {"suppress_sequences": [["<pad>"], ["<s>"]]}
    return lambda batch: translator.translate_batch(task.pieces[:batch], **options)


def _export_ctranslate2(task, path):
    import tensorflow as tf

    from keras_transformer.export import export_ctranslate2

    tf.config.set_visible_devices([], "GPU")
    export_ctranslate2(_random_translator(task), path)
