"""Export to a SavedModel that takes and returns strings."""

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.export.model_card import export_facts, model_card
from keras_transformer.export.serving_files import BATCHING, write_serving_files
from keras_transformer.export.signatures import describe_signatures, trace_signatures
from keras_transformer.export.warmup import replay, warmup_requests, write_warmup
from keras_transformer.text import save_tokenizers
from keras_transformer.translation.translator import Translator


def export_saved_model(
    translator: Translator, path: str | os.PathLike, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write a translator as the next version of a SavedModel, from text to text.

    Its signatures have strings [B] as inputs and B as the first axis of every output:

    - `serving_default`, from `text` to `translation`;
    - `translate_with_scores`, `n_best`, `score` and `attend`, which are the `Translator`'s methods
      with the same arguments and results.

    The directory of the version appears under its final name only when it is whole, so that a
    running model server can watch `path`. It holds besides:

    - assets.extra/tf_serving_warmup_requests, which the server runs when it loads the model, and
      which have been run here in the same way;
    - assets.extra/export.json, how it was made, and README.md, the same as a model card;
    - assets.extra/vocabulary.model, or source.model and target.model;
    - batching_params.pbtxt, for a server with --enable_per_model_batching_parameters.

    In path/serving are the server's configuration files, of which those that exist are kept.

    A translator with a compiled search becomes a model for servers that are started with
    --xla_cpu_compilation_enabled. It is compiled by the warm-up, here and in the server, which
    takes minutes for a large model.

    Args:
        translator: what to export, with its search.
        path: the model's directory, such as saved_models/NAME.
        facts: what else export.json and the model card shall say, such as data, scores and the
            command, by name: texts, numbers, or mappings, as JSON has them. A `description`, in
            Markdown, comes first in the card.

    Returns:
        The directory of the new version: path/1, or one more than the highest there is.
    """
    path = Path(path)
    temporary = path / f"writing-{uuid.uuid4().hex}"
    try:
        signatures = write_graph(translator, temporary)
        facts = {**(facts or {}), **export_facts(translator, signatures)}
        requests = warmup_requests(translator, signatures)
        replay(temporary, requests)
        extra = temporary / "assets.extra"
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", requests)
        tokenizers = translator.tokenizer, translator.target_tokenizer
        # As a training looks for them that starts from here, unless it would lose the target's.
        joint = translator.model.config.has_joint_vocabulary
        save_tokenizers(extra, tokenizers, joint and tokenizers[0].model == tokenizers[1].model)
        texts = {
            extra / "export.json": json.dumps(facts, indent=2) + "\n",
            temporary / "README.md": model_card(Path(os.path.abspath(path)).name, facts),
            temporary / "batching_params.pbtxt": BATCHING,
        }
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
        write_serving_files(path)
        return _publish(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_graph(translator: Translator, path: str | os.PathLike) -> dict[str, dict]:
    """Write no more than the SavedModel itself, and return what its signatures take and give."""
    if translator.compiled:  # For speed, also where it takes memory.
        translator = translator.keep_kernels()
    functions = trace_signatures(translator)
    serving = tf.Module()
    # These are TensorFlow's own variables: of the Keras ones that hold them no value is restored.
    # A compiled search uses kept kernels in place of some, but trainings start from all.
    variables = [weight.value for weight in translator.model.weights]
    variables += [variable for function in functions.values() for variable in function.variables]
    serving.weights = list({variable.ref(): variable for variable in variables}.values())
    tf.saved_model.save(serving, str(path), signatures=functions)
    return describe_signatures(functions)


def _publish(temporary: Path, path: Path) -> Path:
    """Rename a directory to the next version, also while other exports do the same."""
    while True:
        versions = [int(child.name) for child in path.iterdir() if child.name.isdecimal()]
        final = path / str(1 + max(versions, default=0))
        try:
            return temporary.rename(final)
        except OSError:
            if not final.exists():  # Otherwise another export was faster.
                raise
