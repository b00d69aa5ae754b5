"""A model whose answers a person can check, for the page of the server."""

import tensorflow as tf

_STRINGS = tf.TensorSpec([None], tf.string, name="text")
_TERMS, _PROTECT = (tf.TensorSpec([None], tf.string, name=name) for name in ("terms", "protect"))
_LANGUAGES = [
    tf.TensorSpec([None], tf.string, name=f"{side}_language") for side in ("source", "target")
]
_SCORES = tf.constant([-0.25, -1.5, -1e9])
_CANDIDATES = ("▁perhaps", None, "ing", "</s>", "▁<b>")
"""The candidates of every step; None is the token that is chosen."""
_PROBABILITIES = (0.5, 0.25, 0.0625, 0.04, 0.0004)


class Parrot(tf.Module):
    """Translates into capitals, with attention from each word to its own, or to all evenly."""

    @tf.function(input_signature=[_STRINGS])
    def translate(self, text):
        return {"translation": tf.strings.upper(text, encoding="utf-8")}

    @tf.function(input_signature=[_STRINGS, *_LANGUAGES])
    def between(self, text, source_language, target_language):
        return {"translation": tf.strings.join([source_language, target_language, text], " ")}

    @tf.function(input_signature=[_STRINGS])
    def n_best(self, text):
        best = self.translate(text)["translation"]
        rows = tf.stack([best, text, tf.fill(tf.shape(text), "")], axis=1)
        return {"translations": rows, "scores": tf.zeros_like(rows, tf.float32) + _SCORES}

    @tf.function(input_signature=[_STRINGS, _TERMS, _PROTECT])
    def translate_with_terms(self, text, terms, protect):
        """Keep the text, and say what else was asked for."""
        asked = tf.strings.regex_replace(tf.strings.join([terms, protect], "|"), "\\s", "_")
        return {"translation": tf.strings.join([text, asked], " ")}

    @tf.function(input_signature=[_STRINGS])
    def translate_document(self, text):
        return {"translation": tf.strings.join([text, "(divided)"], " ")}

    @tf.function(input_signature=[_STRINGS])
    def attend(self, text):
        """Three layers: to the own word, to all, to the own word."""
        tokens = self._tokens(text)
        own, even = _own_and_even(tokens["source_tokens"])
        return {**tokens, "attention": tf.stack([own, even, own], axis=1)}

    @tf.function(input_signature=[_STRINGS])
    def inspect(self, text):
        """Two layers of two heads: to the own word and to all; then the other way round."""
        tokens = self._tokens(text)
        own, even = _own_and_even(tokens["source_tokens"])
        weights = tf.stack([tf.stack([own, even], 1), tf.stack([even, own], 1)], 1)
        read = tf.linalg.band_part(weights, -1, 0)  # A word has read those before it.
        target = tokens["target_tokens"]
        candidates = [
            target if each is None else tf.fill(tf.shape(target), each) for each in _CANDIDATES
        ]
        chances = tf.zeros_like(target, tf.float32)[..., tf.newaxis] + tf.constant(_PROBABILITIES)
        return {
            **tokens,
            "encoder_attention": weights,
            "cross_attention": weights,
            "decoder_attention": read / tf.reduce_sum(read, axis=-1, keepdims=True),
            "probabilities": chances[..., _CANDIDATES.index(None)],
            "candidates": tf.stack(candidates, axis=-1),
            "candidate_probabilities": chances,
        }

    def _tokens(self, text):
        translation = self.translate(text)["translation"]
        return {"source_tokens": _split(text), "target_tokens": _split(translation)}

    def save(self, path, *signatures):
        """Write the model with `serving_default` and the given signatures.

        `between` is the signature `translate`.
        """
        names = {"between": "translate"}
        functions = {names.get(name, name): getattr(self, name) for name in signatures}
        tf.saved_model.save(self, str(path), {"serving_default": self.translate, **functions})


def _split(texts):
    marked = tf.strings.regex_replace(texts, r"(\S+)", "▁\\1")
    parts = tf.strings.regex_replace(marked, r"(?i)(ing|\.)\b|([.])", " \\1\\2")
    return tf.strings.split(tf.strings.join([parts, " </s>"])).to_tensor("")


def _own_and_even(tokens):
    own = tf.eye(tf.shape(tokens)[1], batch_shape=[tf.shape(tokens)[0]])
    return own, tf.ones_like(own) / tf.cast(tf.shape(tokens)[1], tf.float32)
