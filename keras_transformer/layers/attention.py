"""Scaled dot-product and multi-head attention (Section 3.2)."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.adaptation import KernelLayer
from keras_transformer.layers.alternatives import COMPATIBILITIES
from keras_transformer.layers.feed_forward import linear
from keras_transformer.layers.initial import part_seeds, serialized_initializer
from keras_transformer.layers.masks import MASKED, as_attention_mask, causal_mask
from keras_transformer.layers.residual import Dropout


def attention(
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    dropout: Callable[[Any], Any] = lambda weights: weights,
    score: Callable[[Any, Any], Any] | None = None,
) -> tuple[Any, Any]:
    """Return softmax(q k / sqrt(K)) v and the softmax (Section 3.2.1, eq. 1).

    Masking and softmax are in float32, the products in the inputs' dtype.

    Args:
        query: float [B, H, T, K].
        key: float [B, H, S, K].
        value: float [B, H, S, V].
        attention_mask: bool [B, T, S] or [B, 1, S], True where a query may attend to a key.
        dropout: A function applied to the weights before they meet the values.
        score: What to compute instead of q k / sqrt(K), a function from query and key to scores
            [B, H, T, S].

    Returns:
        The outputs [B, H, T, V], and the weights [B, H, T, S] before dropout.

    >>> query, value = ops.zeros((1, 1, 1, 4)), ops.ones((1, 1, 2, 3))
    >>> outputs, weights = attention(query, ops.ones((1, 1, 2, 4)), value)
    >>> ops.convert_to_numpy(weights).tolist()
    [[[[0.5, 0.5]]]]
    """
    if score is None:
        scaled = ops.multiply(query, ops.cast(query.shape[-1] ** -0.5, query.dtype))
        scores = ops.einsum("bhtk,bhsk->bhts", scaled, key)
    else:
        scores = score(query, key)
    scores = ops.cast(scores, "float32")
    if attention_mask is not None:
        scores = ops.where(ops.expand_dims(attention_mask, 1), scores, MASKED)
    # Keras warns about a softmax over a single key.
    weights = ops.softmax(scores) if scores.shape[-1] != 1 else ops.ones_like(scores)
    attended = dropout(ops.cast(weights, value.dtype))
    return ops.einsum("bhts,bhsv->bhtv", attended, value), weights


def split_heads(inputs: Any, num_heads: int) -> Any:
    """Return the heads [B, H, T, K] of a projection [B, T, H * K].

    >>> tuple(split_heads(ops.ones((2, 5, 12)), num_heads=3).shape)
    (2, 3, 5, 4)
    """
    _, length, width = ops.shape(inputs)
    # tf2onnx needs -1 for an unknown batch; in a reshape of no elements it could be any number.
    batch = -1 if inputs.shape[0] is None else inputs.shape[0]
    heads = ops.reshape(inputs, (batch, length, num_heads, width // num_heads))
    return ops.transpose(heads, (0, 2, 1, 3))


def join_heads(heads: Any) -> Any:
    """Return the heads [B, H, T, K] side by side, [B, T, H * K].

    >>> tuple(join_heads(ops.ones((2, 3, 5, 4))).shape)
    (2, 5, 12)
    """
    _, num_heads, length, size = ops.shape(heads)
    batch = -1 if heads.shape[0] is None else heads.shape[0]
    return ops.reshape(ops.transpose(heads, (0, 2, 1, 3)), (batch, length, num_heads * size))


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
        query_mask, value_mask, key_mask: The implicit Keras masks of the inputs, bool [B, T] and
            [B, S], which Keras fills in. All masks apply together: a masked query attends to no
            key, and no query to a masked value or key.

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
        names = ("scaled_dot", *COMPATIBILITIES)
        if compatibility not in names:
            raise ValueError(
                f"compatibility must be one of {', '.join(map(repr, names))}, "
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
        self._share_trainable()
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        keys, values = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.query_kernel, self.query_bias = self.add_linear("query", query_shape[-1], keys)
        self.key_kernel, self.key_bias = self.add_linear("key", key_shape[-1], keys)
        self.value_kernel, self.value_bias = self.add_linear("value", value_shape[-1], values)
        self.output_kernel, self.output_bias = self.add_linear("output", values, query_shape[-1])
        self.compatibility_weights = []
        if self.compatibility != "scaled_dot":
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
        for name, inputs in (("query", query), ("value", value), ("key", key)):
            if len(inputs.shape) != 3:
                raise ValueError(
                    f"{name} must be [B, length, width], received shape {tuple(inputs.shape)}."
                )
        implicit = (query_mask, 2), (value_mask, 1), (key_mask, 1)
        masks = [ops.expand_dims(each, axis) for each, axis in implicit if each is not None]
        if attention_mask is not None:
            masks.insert(0, as_attention_mask(attention_mask))
        if use_causal_mask:
            masks.append(causal_mask(ops.shape(query)[1], ops.shape(key)[1]))
        mask = functools.reduce(ops.logical_and, masks) if masks else None

        queries = linear(query, self.kernel("query_kernel"), self.query_bias)
        keys = linear(key, self.kernel("key_kernel"), self.key_bias)
        values = linear(value, self.kernel("value_kernel"), self.value_bias)
        queries, keys, values = (split_heads(x, self.num_heads) for x in (queries, keys, values))

        outputs, weights = attention(
            queries,
            keys,
            values,
            mask,
            dropout=lambda weights: self.weights_dropout(weights, training=training),
            score=None if self.compatibility == "scaled_dot" else self._score,
        )
        outputs = linear(join_heads(outputs), self.kernel("output_kernel"), self.output_bias)

        if mask is not None:  # A query that may attend to no key gets 0.
            has_key = ops.any(mask, axis=-1, keepdims=True)
            outputs = ops.multiply(outputs, ops.cast(has_key, outputs.dtype))
            weights = ops.multiply(weights, ops.cast(ops.expand_dims(has_key, 1), "float32"))
        return (outputs, weights) if return_attention_scores else outputs

    def _score(self, query, key):
        """Return another `compatibility` of each query and key, [B, H, T, S]."""
        weights = (ops.cast(weight, query.dtype) for weight in self.compatibility_weights)
        return COMPATIBILITIES[self.compatibility].score(query, key, *weights)

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
