"""Decoding cells of `benchmarks.gpu`: the shipped model, and random weights next to peers."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu_worker import Prepared, Record

TURN_SECONDS = 0.2


def write_form(form: str, translator: Any, path: Path) -> None:
    """Write a translator's graph, as one of `FORMS`."""
    from keras_transformer.export.saved_model import write_graph
    from keras_transformer.translation.translator import Translator

    is_compiled, precision = FORMS[form]
    model = translator.model.with_dtype(precision)
    parts = translator.tokenizer, translator.target_tokenizer, translator.decoding
    write_graph(Translator(model, *parts, is_compiled), path)


FORMS = {
    "ours, portable": (False, "float32"),
    "ours": (True, "float32"),
    "ours, bfloat16": (True, "bfloat16"),
}
"""Exports: whether for a GPU, and the dtype of the weights."""


def serve(
    form: str, model: str, sentences: Sequence[str], batches: Sequence[int], tf32: bool = True
) -> Prepared:
    """Prepare an export of a saved translator and its translations; a run measures a batch size.

    Args:
        form: A key of `FORMS`.
        model: Directory of the SavedModel.
        sentences: The sentences.
        batches: Batch sizes to measure.
        tf32: Whether products in float32 may have TF32's precision.
    """
    import tensorflow as tf

    from benchmarks.engine import SavedModel
    from keras_transformer.translation.translator import Translator

    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    with tempfile.TemporaryDirectory() as folder:
        write_form(form, Translator.load(model), Path(folder) / "export")
        engine = SavedModel(0, f"{folder}/export")
    by_length = sorted(sentences, key=len)

    def translate(batch: int, texts: Sequence[str] = by_length) -> list[str]:
        parts = (list(texts[i : i + batch]) for i in range(0, len(texts), batch))
        return [text.decode() for part in parts for text in engine.translate(part)]

    def run(batch: int) -> Record:
        texts = by_length[:: max(1, len(by_length) // 50)][:50] if batch == 1 else by_length
        seconds = []
        for part in [[text] for text in texts] if batch == 1 else [texts]:
            start = time.perf_counter()
            translate(batch, part)
            seconds.append(time.perf_counter() - start)
        return {"seconds": sorted(seconds)[len(seconds) // 2], "sentences": len(part)}

    facts = {"strings": translate(64), "gpus": len(tf.config.list_physical_devices("GPU"))}
    return facts | warm_up(run, [{"batch": batch} for batch in batches]), run


def timed(translate: Callable[[], object], tokens: int) -> Record:
    """Repeat a translation for a moment, and return its tokens and mean seconds."""
    start, count = time.perf_counter(), 0
    while not count or time.perf_counter() - start < TURN_SECONDS:
        translate()
        count += 1
    return {"seconds": (time.perf_counter() - start) / count, "tokens": tokens}


def warm_up(run: Callable[..., Record], commands: Sequence[Record]) -> Record:
    """Run each command once; where some fail, their next run says why."""
    facts = {}
    for command in commands:
        start = time.perf_counter()
        try:
            run(**command)
        except Exception:
            if command is commands[-1] and not facts:
                raise
            continue
        facts["-".join(map(str, command.values()))] = round(time.perf_counter() - start, 1)
    return {"warm_up": facts}


def random_translator(model: str, vocabulary: str, beam: int, length: int) -> Any:
    """Return a translator with random weights, for translations of exactly `length` tokens."""
    import keras

    from benchmarks.decoding import fixed_length_search
    from keras_transformer import Transformer
    from keras_transformer.text import SentencePieceTokenizer
    from keras_transformer.translation.translator import Translator

    keras.utils.set_random_seed(1)
    tokenizer = SentencePieceTokenizer(Path(vocabulary).read_bytes())
    weights = Transformer.from_size(model, vocab_size=tokenizer.vocab_size)
    search = fixed_length_search(beam)
    search = replace(search, min_length=length - 1, max_length=length)
    return Translator(weights, tokenizer, decoding=search)


def decode(
    form: str,
    model: str,
    vocabulary: str,
    beam: int,
    length: int,
    sources: Sequence[str],
    batches: Sequence[int],
) -> Prepared:
    """Prepare an export with random weights; a run translates a batch of texts."""
    from benchmarks.engine import SavedModel

    with tempfile.TemporaryDirectory() as folder:
        translator = random_translator(model, vocabulary, beam, length)
        write_form(form, translator, Path(folder) / "export")
        engine = SavedModel(0, f"{folder}/export")

    def run(batch: int) -> Record:
        texts = list(sources[:batch])
        return timed(lambda: engine.translate(texts), batch * length)

    return warm_up(run, [{"batch": batch} for batch in batches]), run


def hugging_face(
    model: str,
    vocab_size: int,
    length: int,
    rows: Sequence[Sequence[int]],
    commands: Sequence[Record],
    device: str,
) -> Prepared:
    """Prepare `MarianMTModel`s of the same sizes; a run translates a batch of ids."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from keras_transformer.presets import PRESETS

    sizes, device = PRESETS[model].model, "cuda" if device == "gpu" else "cpu"
    torch.manual_seed(0)
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", sizes.num_layers),
            ("attention_heads", sizes.num_heads),
            ("ffn_dim", sizes.d_ff),
        )
    }
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=sizes.d_model,
        **sides,
        max_position_embeddings=128,
        pad_token_id=1,
        eos_token_id=0,
        forced_eos_token_id=None,
        decoder_start_token_id=1,
        activation_function="relu",
    )
    dtypes = {command["dtype"] for command in commands}
    models = {d: MarianMTModel(config).to(device, getattr(torch, d)).eval() for d in dtypes}
    ids = torch.tensor(rows, device=device)

    def run(dtype: str, beam: int, batch: int, engine: str = "") -> Record:
        options = {"num_beams": beam, "do_sample": False, "length_penalty": 0.0}
        options |= {"min_new_tokens": length, "max_new_tokens": length}
        source = ids[:batch]
        mask = torch.ones_like(source)

        def translate():
            with torch.inference_mode():
                models[dtype].generate(input_ids=source, attention_mask=mask, **options).cpu()

        return timed(translate, batch * length)

    return warm_up(run, commands), run


def ctranslate2(
    model: str,
    vocabulary: str,
    length: int,
    pieces: Sequence[Sequence[str]],
    commands: Sequence[Record],
    device: str,
) -> Prepared:
    """Prepare CTranslate2 with random weights; a run translates a batch of tokens."""
    import ctranslate2 as library

    on_gpu = device == "gpu"
    with tempfile.TemporaryDirectory() as folder:
        # Another process, so that this one has no TensorFlow.
        command = [sys.executable, "-m", "benchmarks.gpu_decoding", model, vocabulary]
        subprocess.run(
            [*command, f"{folder}/export"],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
            stdout=sys.stderr,
            check=True,
        )
        translator = library.Translator(
            f"{folder}/export",
            device="cuda" if on_gpu else "cpu",
            compute_type="float16" if on_gpu else "float32",
        )

    def run(beam: int, batch: int) -> Record:
        tokens = [list(row) for row in pieces[:batch]]
        return timed(
            lambda: translator.translate_batch(
                tokens,
                beam_size=beam,
                length_penalty=0.0,
                min_decoding_length=length - 1,
                max_decoding_length=length,
                disable_unk=True,
                suppress_sequences=[["<pad>"], ["<s>"]],
            ),
            batch * length,
        )

    return {"version": library.__version__, **warm_up(run, commands)}, run


def main() -> None:
    from keras_transformer.export import export_ctranslate2

    model, vocabulary, path = sys.argv[1:]
    export_ctranslate2(random_translator(model, vocabulary, 1, 20), path)


if __name__ == "__main__":
    main()
