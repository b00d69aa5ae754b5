"""Export to a SavedModel that takes and returns strings."""

import copy
import dataclasses
import gc
import logging
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.config.record import ExportRecord
from keras_transformer.export.model_card import model_card
from keras_transformer.export.serving_files import batching_parameters, write_serving_files
from keras_transformer.export.signatures import describe_signatures, trace_signatures
from keras_transformer.export.warmup import replay, warmup_requests, write_warmup
from keras_transformer.text import SentencePieceTokenizer, Tokenizer
from keras_transformer.text.files import save_tokenizers
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.checksums import record_files
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.versions import HIGHEST, numbered_versions

log = logging.getLogger(__name__)

_ABANDONED_SECONDS = 24 * 60 * 60
"""After which a directory that an export was writing is one of a process that was killed."""
_PACKAGES = ("keras-transformer-mt", "keras", "tensorflow", "tensorflow-text")


def export_saved_model(
    translator: Translator, path: str | os.PathLike, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write a translator as the next version of a SavedModel, from text to text.

    The inputs of its signatures are strings [B], and B is the first axis of every output:

    - `serving_default`, from `text` to `translation`;
    - `translate`, of a model of many languages: from `text`, `source_language` and
      `target_language`, codes of `Translator.languages`, to `translation`. The other signatures
      translate between the languages of the translator's `decoding`, which must name both;
    - `translate_with_scores`, `n_best`, `score`, `attend` and `inspect`: the methods of
      `Translator`, with the same arguments and results (`attend` is `Translator.attention`);
    - `translate_document`, likewise, unless the results are trees;
    - `translate_with_terms`, likewise, if the vocabulary has placeholders among its user symbols,
      or `decoding.protect` is set; not with `decoding.prefix`.

    The version directory appears under its final name only when it is complete, so a running model
    server can watch `path`. It also contains:

    - assets.extra/tf_serving_warmup_requests: requests that the server runs when it loads the
      model. They have been run here, with fewer optimizers of the graph than TensorFlow Serving's.
    - assets.extra/export.json: how the model was made (`ExportRecord`), and README.md, a model
      card with the same content.
    - assets.extra/vocabulary.model, or source.model and target.model.
    - batching_params.pbtxt: for a server with --enable_per_model_batching_parameters.
    - SHA256SUMS: checksums of all files but README.md and batching_params.pbtxt, which may be
      edited. `load_saved_model` and `pipelines.serve` check them.

    path/serving contains configuration files for the server. Existing ones are kept.

    A translator with a compiled search becomes a model for servers started with
    --xla_cpu_compilation_enabled, which allows XLA on GPUs, too. Warm-up requests compile it, here
    and in the server, which takes minutes for a large model.

    Args:
        translator: The translator to export, with its decoding options.
        path: The model's directory, such as saved_models/NAME.
        facts: More entries for export.json and the model card by name, such as data, scores and
            the command: values that JSON can represent. A `description`, in Markdown, comes first
            in the card. The page of the server shows `languages` (codes, the source first),
            `license`, `attribution` and `examples` (sentences to try). An imported model brings its
            own license, attribution and languages.

    Returns:
        The directory of the new version: path/1, or one more than the highest number there.

    Raises:
        OSError: If `path` cannot be written to.

    Example:

    ```python
    translator = keras_transformer.Translator.load("runs/en_de")
    export_saved_model(translator, "saved_models/en_de", {"description": "English to German."})
    ```
    """
    path, translator = Path(path), translator.without_lora()
    for old in path.glob("writing-*/"):  # Of exports that were killed; others may be at work.
        if time.time() - old.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    temporary = path / f"writing-{uuid.uuid4().hex}"
    temporary.mkdir(parents=True)  # A path that cannot be written to fails before the work.
    try:
        signatures = write_graph(translator, temporary)
        requests = warmup_requests(translator, signatures)
        record = _record(translator, signatures, {**translator.origin, **(facts or {})})
        extra = record.write(temporary).parent
        write_warmup(extra / "tf_serving_warmup_requests", requests)
        tokenizers = translator.tokenizer, translator.target_tokenizer
        # Under the names that a training run looks for, if it starts from this model.
        save_tokenizers(extra, tokenizers, translator.model.config.has_joint_vocabulary)
        card = model_card(Path(os.path.abspath(path)).name, record)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        device = translator.device
        (temporary / "batching_params.pbtxt").write_text(
            batching_parameters(device), encoding="utf-8"
        )
        if translator.compiled:
            log.info("compiling the search for %d requests; this can take minutes", len(requests))
        del translator  # Frees the model, unless the caller holds it. The check loads it again.
        gc.collect()  # What was traced refers to itself.
        trim_memory()
        replay(temporary, requests)
        record_files(temporary, _files_to_keep(temporary))
        write_serving_files(path, device)
        return _publish(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_graph(translator: Translator, path: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """Write only the SavedModel itself.

    Args:
        translator: The translator to export.
        path: The directory of the SavedModel.

    Returns:
        What each signature does, and its inputs and outputs; see `describe_signatures`.

    Example:

    ```python
    write_graph(Translator.load("runs/en_de"), "saved_models/en_de/1")
    ```
    """
    translator = copy.copy(translator.without_lora())  # Whose graphs are not needed afterwards.
    if translator.compiled and translator.model.quantization_mode is None:
        translator = translator.with_prepared_weights()  # Faster, at the cost of memory.
    functions = trace_signatures(translator)
    serving = tf.Module()
    # TensorFlow's variables, because Keras variables would be restored as zeros. All weights are
    # saved, because a training run may start from the export: a compiled search uses prepared
    # copies of some instead.
    variables = [weight.value for weight in translator.model.weights]
    variables += [variable for function in functions.values() for variable in function.variables]
    serving.weights = list({variable.ref(): variable for variable in variables}.values())
    tf.saved_model.save(serving, str(path), signatures=functions)
    return describe_signatures(functions)


def _record(
    translator: Translator, signatures: Mapping[str, Any], facts: Mapping[str, Any]
) -> ExportRecord:
    model, source, target = translator.model, translator.tokenizer, translator.target_tokenizer
    installed = {package.name: package.version for package in metadata.distributions()}
    return ExportRecord(
        facts=facts,
        signatures=signatures,
        compiled=translator.compiled,
        device=translator.device if translator.compiled else "any",
        precision=_precision(model),
        parameters=model.count_params(),
        vocabulary={
            "tokenizer": type(source).__name__,
            "target_tokenizer": type(target).__name__,
            "source": source.vocab_size,
            "target": target.vocab_size,
            "shared": source is target,
            **_text_facts(source),
            **({"languages": translator.languages} if translator.languages else {}),
        },
        model=dataclasses.asdict(model.config),
        decoding=dataclasses.asdict(translator.decoding),
        versions={name: installed[name] for name in _PACKAGES if name in installed},
    )


def _text_facts(source: Tokenizer) -> dict[str, Any]:
    if not isinstance(source, SentencePieceTokenizer):
        return {}
    facts = {"normalization": source.normalization, "user_symbols": len(source.user_symbols)}
    return {name: fact for name, fact in facts.items() if fact not in ("nfkc", 0)}


def _precision(model):
    name = model.dtype_policy.name
    return name if model.quantization_mode is None else f"int8_from_{name}"


def _files_to_keep(version: Path) -> list[str]:
    """Return the files of a version that should not be edited."""
    files = [path for path in version.rglob("*") if path.is_file()]
    names = {path.relative_to(version).as_posix() for path in files}
    return sorted(names - {"README.md", "batching_params.pbtxt"})


def _publish(temporary: Path, path: Path) -> Path:
    """Rename a directory to the next version, even if other exports do the same."""
    while True:
        number = 1 + max(numbered_versions(path), default=0)
        if number > HIGHEST:
            raise ValueError(f"{path} has the highest version, {HIGHEST}. Rename it.")
        final = path / str(number)
        try:
            return temporary.rename(final)
        except OSError:
            if not final.exists():  # Otherwise another export was faster.
                raise
