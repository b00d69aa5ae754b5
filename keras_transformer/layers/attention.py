"""Multi-head attention (Section 3.2.2)."""

import keras
from keras import ops

from keras_transformer.layers.compatibility import COMPATIBILITIES
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.linear import linear
from keras_transformer.layers.masks import MASKED, causal_mask
from keras_transformer.layers.step_attention import product, softmax


def attention(scores, value, attention_mask=None, dropout=None):
    """Return softmax(scores) V and the softmax (Section 3.2.1, eq. 1).

    Masking and softmax are float32; the product is in the values' type.

    Args:
        scores: float [B, H, T, S], from a function of `compatibility`.
        value: float [B, H, S, V].
        attention_mask: bool [B, T, S] or [B, 1, S], True where a query may attend.
        dropout: a function applied to the weights before they meet the values.

    Returns:
        The outputs [B, H, T, V], and the weights [B, H, T, S] before dropout.

    Raises:
        ValueError: the mask has not three axes.
    """
    if attention_mask is not None and len(attention_mask.shape) != 3:
        raise ValueError(
            "attention_mask must be [B, T, S] or [B, 1, S], received shape "
            f"{tuple(attention_mask.shape)}. Give a mask that all sentences share as [1, T, S]."
        )
    scores = ops.cast(scores, "float32")
    if attention_mask is not None:
        scores = ops.where(ops.expand_dims(attention_mask, 1), scores, MASKED)
    # Keras warns of a softmax over a single key.
    if scores.shape[-1] == 1:
        weights = ops.ones_like(scores)
    else:
        weights = softmax(scores) if scores.shape[0] == 1 else ops.softmax(scores)
    dropped = ops.cast(weights, value.dtype)
    if dropout is not None:
        dropped = dropout(dropped)
    return product(dropped, value), weights


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Attention of several heads, each in its own projection of the inputs (Section 3.2.2).

    Arguments and calls are those of `keras.layers.MultiHeadAttention`, as far as the paper's layer
    needs them, and `compatibility`. Masks are explicit: implicit Keras masks are neither read nor
    written. Where a query may attend to no key, its output is exactly 0.

    Args:
        num_heads: H, the number of heads.
        key_dim: K, the size of a head's queries and keys.
        value_dim: the size of a head's values; `key_dim` by default.
        dropout: the rate on the attention weights.
        use_bias: whether the projections add a bias. The paper's do not.
        compatibility: how a query q and a key k of a head make a score: "scaled_dot", the paper's
            q k / sqrt(K); "dot", q k; "general", q W k; "additive", v tanh(W q + U k); or "concat",
            v tanh(W [q; k]). W, U and v are the head's own. The last two need memory that grows
            with T * S * K, where the others need T * S.

    Call arguments:
        query: float [B, T, D].
        value: float [B, S, D'].
        key: float [B, S, D'']; `value` by default.
        attention_mask: bool [B, T, S] or [B, 1, S], True where a query may attend to a key.
        return_attention_scores: whether to return the weights [B, H, T, S] too.
        use_causal_mask: whether a position must not attend to later ones; the queries are the last
            T of the S positions of the keys.
        training: whether dropout applies.

    Returns:
        float [B, T, D], or a pair with the weights.

    >>> layer = MultiHeadAttention(num_heads=4, key_dim=8)
    >>> tuple(layer(ops.ones((2, 5, 16)), ops.ones((2, 7, 12))).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        compatibility: str = "scaled_dot",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if compatibility not in COMPATIBILITIES:
            raise ValueError(
                f"compatibility must be one of {', '.join(map(repr, COMPATIBILITIES))}, "
                f"received {compatibility!r}."
            )
        for name, size in (
            ("num_heads", num_heads),
            ("key_dim", key_dim),
            ("value_dim", value_dim),
        ):
            if size is not None and size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.compatibility = compatibility
        self.weights_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape, value_shape=None, key_shape=None):
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.query_kernel, self.query_bias = self._add_projection("query", query_shape[-1], keys)
        self.key_kernel, self.key_bias = self._add_projection("key", key_shape[-1], keys)
        self.value_kernel, self.value_bias = self._add_projection("value", value_shape[-1], values)
        self.output_kernel, self.output_bias = self._add_projection(
            "output", values, query_shape[-1]
        )
        shapes = COMPATIBILITIES[self.compatibility].weight_shapes(self.key_dim)
        self.compatibility_weights = [
            self._add_compatibility_weight(name, *shape) for name, shape in shapes.items()
        ]

    def _add_projection(self, name, inputs, outputs):
        kernel = self.add_weight(
            shape=(inputs, outputs), initializer="glorot_uniform", name=f"{name}_kernel"
        )
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(shape=(outputs,), initializer="zeros", name=f"{name}_bias")

    def _add_compatibility_weight(self, name, inputs, outputs):
        # Glorot's limit for a head: the initialiser would take the axis of heads for a kernel's.
        limit = (6 / (inputs + outputs)) ** 0.5
        return self.add_weight(
            shape=(self.num_heads, inputs, outputs),
            initializer=keras.initializers.RandomUniform(-limit, limit),
            name=f"compatibility_{name}",
        )

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        key = value if key is None else key
        if query is value and key is value:
            heads = self.project_self(query)
        else:
            heads = (self.project_query(query), *self.project_memory(value, key))
        outputs, weights = self.attend(*heads, attention_mask, use_causal_mask, training)
        return (outputs, weights) if return_attention_scores else outputs

    def project_self(self, inputs, length=None, joined=None):
        """Return the heads of query, key and value of one sequence, in one matrix product.

        Args:
            inputs: float [B, T, D], or [B * T, D] with `length`.
            length: T.
            joined: what `join_projections` returned; by default it is computed here.
        """
        names = ("query", "key", "value")
        return self._project(inputs, names, length, joined)

    def project_query(self, query, length=None):
        """Return the heads [B, H, T, K] of a query [B, T, D] or, with `length`, [B * T, D]."""
        return self._project(query, ("query",), length)[0]

    def project_memory(self, value, key=None):
        """Return the heads of key and value, [B, H, S, K] each; `key` is `value` by default."""
        if key is None or key is value:
            return self._project(value, ("key", "value"))
        return self._project(key, ("key",))[0], self._project(value, ("value",))[0]

    def join_projections(self, names=("query", "key", "value")):
        """Return the kernels of these projections side by side, and the biases, or None."""
        kernels, biases = (
            [getattr(self, f"{name}_{kind}") for name in names] for kind in ("kernel", "bias")
        )
        if len(names) == 1:
            return kernels[0], biases[0]
        return ops.concatenate(kernels, axis=1), ops.concatenate(biases) if self.use_bias else None

    def _project(self, inputs, names, length=None, joined=None):
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        outputs = linear(inputs, *(joined or self.join_projections(names)))
        parts = [outputs]
        if len(names) > 1:
            # In a graph a split into equal parts is one operation, and any other is eight.
            ends = [keys, 2 * keys][: len(names) - 1]
            parts = ops.split(outputs, len(names) if keys == values else ends, axis=-1)
        return [self._split_heads(part, length) for part in parts]

    def attend(self, query, key, value, attention_mask=None, use_causal_mask=False, training=None):
        """Return the layer's output [B, T, D] and weights [B, H, T, S] from projected heads.

        With `use_causal_mask` the queries are the last T of the S positions of the keys.
        """
        mask = attention_mask
        if use_causal_mask:
            causal = causal_mask(ops.shape(query)[2], ops.shape(key)[2])
            mask = causal if mask is None else ops.logical_and(mask, causal)
        outputs, weights = attention(
            self._score(query, key),
            value,
            mask,
            dropout=lambda weights: self.weights_dropout(weights, training=training),
        )
        outputs = linear(self._join_heads(outputs), self.output_kernel, self.output_bias)
        if mask is None:
            return outputs, weights
        has_key = ops.any(mask, axis=-1, keepdims=True)
        outputs = ops.multiply(outputs, ops.cast(has_key, outputs.dtype))
        return outputs, ops.multiply(weights, ops.cast(ops.expand_dims(has_key, 1), "float32"))

    def attend_rows(self, query, key, value, bias=None):
        """Return the layer's output as rows [B * T, D], as a step of a search wants it.

        There is no dropout. T is static. The outputs of a query without a key to attend to are
        finite, and mean nothing.

        Args:
            query, key, value: projected heads.
            bias: float32 [B, T, S] or [B, 1, S], the `mask_bias` of a mask: to add it takes a tenth
                of the time of a selection, and where there is a key the softmax is the same.
        """
        scores = ops.cast(self._score(query, key), "float32")
        if bias is not None:
            scores = scores + ops.expand_dims(bias, 1)
        outputs = product(ops.cast(softmax(scores), value.dtype), value)
        if outputs.shape[2] != 1:
            outputs = self._join_heads(outputs, is_step=True)
        rows = ops.reshape(outputs, (-1, self.num_heads * self.value_dim))
        return linear(rows, self.output_kernel, self.output_bias)

    def _score(self, query, key):
        weights = (ops.cast(weight, query.dtype) for weight in self.compatibility_weights)
        return COMPATIBILITIES[self.compatibility].score(query, key, *weights)

    def _split_heads(self, inputs, length=None):
        size = inputs.shape[-1] // self.num_heads
        if isinstance(length, int) and length == 1:  # Nothing is to be moved.
            return ops.reshape(inputs, (-1, self.num_heads, 1, size))
        if length is not None:
            inputs = ops.reshape(inputs, (-1, length, inputs.shape[-1]))
        if length is not None or inputs.shape[0] == 1:
            # In a search, to copy each head takes less time than to transpose them.
            return ops.stack(ops.split(inputs, self.num_heads, axis=-1), axis=1)
        heads = ops.reshape(inputs, (-1, ops.shape(inputs)[1], self.num_heads, size))
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, heads, is_step=False):
        if is_step or heads.shape[0] == 1:
            return ops.concatenate(ops.unstack(heads, self.num_heads, axis=1), axis=-1)
        length, size = ops.shape(heads)[2], self.num_heads * heads.shape[-1]
        return ops.reshape(ops.transpose(heads, (0, 2, 1, 3)), (-1, length, size))

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        outputs = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        shape = (query.shape[0], self.num_heads, query.shape[1], value.shape[1])
        return outputs, keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "compatibility": self.compatibility,
        }
