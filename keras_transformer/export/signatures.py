"""The signatures of an exported model: the translator's methods."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_transformer.translation.translator import Translator

_DOCUMENT = "translate_document"
"""The signature of models whose results are texts, and its method."""
METHODS = {
    "translate_with_scores": "translate_with_scores",
    _DOCUMENT: _DOCUMENT,
    "n_best": "n_best",
    "score": "score",
    "attend": "attention",
    "inspect": "inspect",
}
"""The method of `Translator` behind each signature other than `serving_default`."""
_WITH_TERMS = "translate_with_terms"
"""The signature of models that protect spans, and its method."""


def trace_signatures(translator: Translator) -> dict[str, Any]:
    """Return the concrete function of each signature, `serving_default` first."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def serving_default(text):
        return {"translation": translator.translate(text)}

    @tf.function(input_signature=translator.translate_between.input_signature, autograph=False)
    def translate(text, source_language, target_language):
        languages = source_language, target_language
        return {"translation": translator.translate_between(text, *languages)}

    functions = {"serving_default": serving_default}
    if translator.languages and not translator.decoding.protect:
        functions["translate"] = translate
    methods = METHODS | ({_WITH_TERMS: _WITH_TERMS} if translator.protects else {})
    if translator.makes_trees:
        methods.pop(_DOCUMENT, None)
    functions |= {name: getattr(translator, method) for name, method in methods.items()}
    return {name: function.get_concrete_function() for name, function in functions.items()}


def describe_signatures(signatures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Describe signatures in values that JSON can represent.

    Args:
        signatures: The concrete functions, as `trace_signatures` returns them.

    Returns:
        For each signature, what it `does`, and the type and shape of its `inputs` and `outputs`
        by name.
    """
    methods = {
        "serving_default": "translate",
        "translate": "translate_between",
        **METHODS,
        _WITH_TERMS: _WITH_TERMS,
    }
    return {
        name: {
            "does": getattr(Translator, methods[name]).__doc__.split("\n")[0],
            "inputs": {spec.name: _kind(spec) for spec in function.structured_input_signature[0]},
            "outputs": {key: _kind(spec) for key, spec in function.structured_outputs.items()},
        }
        for name, function in signatures.items()
    }


def _kind(spec: tf.TensorSpec) -> str:
    """Return the type and the shape, with -1 for a size that is not fixed."""
    sizes = [-1 if size is None else size for size in spec.shape]
    return f"{spec.dtype.name} {sizes}"
