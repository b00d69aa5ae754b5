"""Scaled dot-product and multi-head attention (Section 3.2)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.compatibility import ALTERNATIVES, Compatibility
from keras_transformer.layers.cpu_kernels import (
    heads_matmul,
    join_heads,
    join_step_heads,
    linear,
    softmax,
    split_heads,
    step_softmax,
)
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial import initializer_for, part_seeds, serialized_initializer
from keras_transformer.layers.kernel_layer import KernelLayer
from keras_transformer.layers.masks import (
    MASKED,
    as_attention_mask,
    causal_mask,
    explicit_or_implicit,
)


def scaled_dot(query: Any, key: Any) -> Any:
    """Return q k / sqrt(K) for each query and key, [B, H, T, S] (Section 3.2.1, eq. 1).

    Args:
        query: float [B, H, T, K].
        key: float [B, H, S, K].

    >>> scores = scaled_dot(ops.ones((1, 1, 1, 4)), ops.ones((1, 1, 1, 4)))
    >>> ops.convert_to_numpy(scores).tolist()
    [[[[2.0]]]]
    """
    scaled = ops.multiply(query, ops.cast(query.shape[-1] ** -0.5, query.dtype))
    return heads_matmul(scaled, key, transpose_b=True)


COMPATIBILITIES = {"scaled_dot": Compatibility(scaled_dot), **ALTERNATIVES}
"""By the names that `MultiHeadAttention` accepts."""


def attention(
    scores: Any,
    value: Any,
    attention_mask: Any = None,
    dropout: Callable[[Any], Any] = lambda weights: weights,
) -> tuple[Any, Any]:
    """Return softmax(scores) V and the softmax (Section 3.2.1, eq. 1).

    Masking and softmax are in float32, the product in the values' dtype.

    Args:
        scores: float [B, H, T, S], the compatibility of each query and key.
        value: float [B, H, S, V].
        attention_mask: bool [B, T, S] or [B, 1, S], True where a query may attend to a key.
        dropout: A function applied to the weights before they meet the values.

    Returns:
        The outputs [B, H, T, V], and the weights [B, H, T, S] before dropout.

    Raises:
        ValueError: If the mask isn't boolean or doesn't have three axes.

    >>> outputs, weights = attention(ops.zeros((1, 1, 1, 2)), ops.ones((1, 1, 2, 3)))
    >>> ops.convert_to_numpy(weights).tolist()
    [[[[0.5, 0.5]]]]
    """
    scores = ops.cast(scores, "float32")
    attention_mask = as_attention_mask(attention_mask)
    if attention_mask is not None:
        scores = ops.where(ops.expand_dims(attention_mask, 1), scores, MASKED)
    weights = softmax(scores)
    return heads_matmul(dropout(ops.cast(weights, value.dtype)), value), weights


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(KernelLayer):
    """Attend with several heads, each in its own projection of the inputs (Section 3.2.2).

    Arguments and calls are those of `keras.layers.MultiHeadAttention`, as far as the paper's layer
    needs them, plus `compatibility`. Where a query may attend to no key, its output is exactly 0.

    Args:
        num_heads: H, the number of heads.
        key_dim: K, the size of a head's queries and keys.
        value_dim: The size of a head's values; `key_dim` by default.
        dropout: The dropout rate of the attention weights.
        use_bias: Whether the projections add a bias. The paper's don't.
        kernel_initializer: The initializer of the projections.
        seed: Seed of the projections and the dropout.
        compatibility: How a head scores a query q and a key k: `"scaled_dot"`, the paper's
            q k / sqrt(K); `"dot"`, q k; `"general"`, q W k; `"additive"`, v tanh(W q + U k); or
            `"concat"`, v tanh(W [q; k]), with weights W, U and v per head. The last two need memory
            for T * S * K numbers per head, the others for T * S.

    Call arguments:
        query: float [B, T, D].
        value: float [B, S, D'].
        key: float [B, S, D'']; `value` by default.
        attention_mask: bool [B, T, S] or [B, 1, S], True where a query may attend to a key.
        return_attention_scores: Whether to also return the weights [B, H, T, S].
        use_causal_mask: Whether to keep positions from attending to later ones. The queries are
            the last T of the S positions of the keys.
        training: Whether dropout applies.
        query_mask, value_mask, key_mask: The implicit Keras masks of the inputs, which Keras fills
            in. Without an `attention_mask`, no query attends to a masked value or key.

    Returns:
        float [B, T, D], or a pair with the weights.

    Raises:
        ValueError: If a size is below 1, `compatibility` is unknown, or a mask isn't boolean.

    Reference: [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), Section 3.2.

    >>> layer = MultiHeadAttention(num_heads=4, key_dim=8)
    >>> tuple(layer(ops.ones((2, 5, 16)), ops.ones((2, 7, 12))).shape)
    (2, 5, 16)
    """

    kernel_names = ("query_kernel", "key_kernel", "value_kernel", "output_kernel")
    kind = "attention"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        compatibility: str = "scaled_dot",
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if compatibility not in COMPATIBILITIES:
            raise ValueError(
                f"compatibility must be one of {', '.join(map(repr, COMPATIBILITIES))}, "
                f"received {compatibility!r}."
            )
        value_dim = key_dim if value_dim is None else value_dim
        for name, size in (
            ("num_heads", num_heads),
            ("key_dim", key_dim),
            ("value_dim", value_dim),
        ):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.compatibility = compatibility
        self.kernel_initializer = kernel_initializer
        self.seed = seed
        self._seeds = part_seeds(seed)
        self.weights_dropout = Dropout(
            dropout, next(self._seeds), dtype=self.dtype_policy, name="weights_dropout"
        )
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
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

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        training: bool | None = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
    ) -> Any:
        key = value if key is None else key
        if query is value and key is value:
            queries, keys, values = self.project_self(query)
        else:
            queries = self.project_query(query)
            keys, values = self.project_memory(value, key)
        padding = value_mask if key_mask is None else key_mask
        if value_mask is not None and key_mask is not None:
            padding = ops.logical_and(value_mask, key_mask)
        mask = explicit_or_implicit(attention_mask, padding)
        if use_causal_mask:
            causal = causal_mask(ops.shape(queries)[2], ops.shape(keys)[2])
            mask = causal if mask is None else ops.logical_and(mask, causal)
        outputs, weights = self._attend(queries, keys, values, mask, training)
        return (outputs, weights) if return_attention_scores else outputs

    def _attend(self, query, key, value, mask, training):
        """Return the output [B, T, D] and the weights [B, H, T, S] for projected heads."""
        outputs, weights = attention(
            self._score(query, key),
            value,
            mask,
            dropout=lambda weights: self.weights_dropout(weights, training=training),
        )
        outputs = linear(join_heads(outputs), self.kernel("output_kernel"), self.output_bias)
        if mask is None:
            return outputs, weights
        has_key = ops.any(mask, axis=-1, keepdims=True)
        outputs = ops.multiply(outputs, ops.cast(has_key, outputs.dtype))
        return outputs, ops.multiply(weights, ops.cast(ops.expand_dims(has_key, 1), "float32"))

    def attend_step(self, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        """Return the output of a step of a search as rows, without dropout.

        The output of a query with no key to attend to is finite and meaningless.

        Args:
            query: float [B, H, T, K], projected heads with a static T.
            key: float [B, H, S, K].
            value: float [B, H, S, V].
            bias: float32 [B, T, S] or [B, 1, S], the `mask_bias` of a mask.

        Returns:
            float [B * T, D].
        """
        scores = ops.cast(self._score(query, key), "float32")
        if bias is not None:
            scores = scores + ops.expand_dims(bias, 1)
        outputs = heads_matmul(ops.cast(step_softmax(scores), value.dtype), value)
        return linear(join_step_heads(outputs), self.kernel("output_kernel"), self.output_bias)

    def project_self(self, inputs: Any, length: Any = None, joined: Any = None) -> Sequence[Any]:
        """Return the heads of query, key and value of one sequence, in one matrix product.

        Args:
            inputs: float [B, T, D], or [B * T, D] with `length`.
            length: T.
            joined: The result of `join_projections`; computed here by default.

        Returns:
            Queries, keys and values, float [B, H, T, K] each.
        """
        return self._project(inputs, ("query", "key", "value"), length, joined)

    def project_query(self, query: Any, length: Any = None) -> Any:
        """Return the heads [B, H, T, K] of a query [B, T, D] or, with `length`, [B * T, D]."""
        return self._project(query, ("query",), length)[0]

    def project_memory(self, value: Any, key: Any = None) -> Sequence[Any]:
        """Return the heads of key and value, [B, H, S, K] each; `key` is `value` by default."""
        if key is None or key is value:
            return self._project(value, ("key", "value"))
        return self._project(key, ("key",))[0], self._project(value, ("value",))[0]

    def join_projections(self, names: Sequence[str] = ("query", "key", "value")) -> tuple[Any, Any]:
        """Return the kernels of these projections side by side, and the biases or None."""
        kernels = [self.kernel(f"{name}_kernel") for name in names]
        biases = [getattr(self, f"{name}_bias") for name in names]
        if len(names) == 1:
            return kernels[0], biases[0]
        return ops.concatenate(kernels, axis=1), ops.concatenate(biases) if self.use_bias else None

    def _project(self, inputs, names, length=None, joined=None):
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        outputs = linear(inputs, *(joined or self.join_projections(names)))
        parts = [outputs]
        if len(names) > 1:
            # In a graph, a split into equal parts is one operation, and any other is eight.
            ends = [keys, 2 * keys][: len(names) - 1]
            parts = ops.split(outputs, len(names) if keys == values else ends, axis=-1)
        return [split_heads(part, self.num_heads, length) for part in parts]

    def _score(self, query, key):
        weights = (ops.cast(weight, query.dtype) for weight in self.compatibility_weights)
        return COMPATIBILITIES[self.compatibility].score(query, key, *weights)

    def _add_projection(self, name, inputs, outputs):
        initializer = initializer_for(self.kernel_initializer, next(self._seeds))
        kernel = self.add_kernel(f"{name}_kernel", (inputs, outputs), initializer)
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(shape=(outputs,), initializer="zeros", name=f"{name}_bias")

    def _add_compatibility_weight(self, name, inputs, outputs):
        # Glorot's limit for one head: the initializer would mistake the heads for a kernel axis.
        limit = (6 / (inputs + outputs)) ** 0.5
        return self.add_weight(
            shape=(self.num_heads, inputs, outputs),
            initializer=keras.initializers.RandomUniform(-limit, limit, next(self._seeds)),
            name=f"compatibility_{name}",
        )

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Traced, because `return_attention_scores` adds an output.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> Any:
        return query_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "compatibility": self.compatibility,
            "kernel_initializer": serialized_initializer(self.kernel_initializer),
            "seed": self.seed,
        }
