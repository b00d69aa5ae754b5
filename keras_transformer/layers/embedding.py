"""Token embeddings, which also serve as the linear map before the softmax (Section 3.4)."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.layers import fast
from keras_transformer.layers.adaptation import KernelLayer
from keras_transformer.layers.feed_forward import linear
from keras_transformer.layers.initial import serialized_initializer
from keras_transformer.utils.backends import check_ids, fuses_formulas

_maps_vectors = ContextVar("maps_vectors", default=False)
"""Whether the call that asks for a mask maps vectors to logits."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(KernelLayer):
    """Embed token ids, scaled by sqrt(D), or map vectors back to logits (Section 3.4).

    To tie the embeddings to the softmax, call the same layer at both ends of a model.

    Args:
        vocab_size: V, the number of tokens.
        d_model: D, the width.
        scale: What rows are multiplied by; sqrt(D) by default, as in the paper.
        mask_zero: Whether the id 0 is padding, so that the vectors have an implicit Keras mask.
        embeddings_initializer: The initializer of the rows; by default normal with a standard
            deviation of 1 / sqrt(D).

    Call arguments:
        inputs: int [...], ids; with `reverse`, float [..., D]. An id out of range is an error; a
            function that JAX compiles returns NaN there, and XLA of TensorFlow takes the last row.
        reverse: Whether to map vectors to logits.
        training: Whether a TensorFlow graph checks the ids.

    Returns:
        float [..., D]; with `reverse`, float32 logits [..., V], of a product in the layer's
        compute dtype.

    Raises:
        ValueError: If a size is below 1, or an id is out of range or not a whole number.

    >>> embedding = TokenEmbedding(vocab_size=11, d_model=4)
    >>> vectors = embedding(ops.array([[1, 2, 3]]))
    >>> tuple(vectors.shape), tuple(embedding(vectors, reverse=True).shape)
    ((1, 3, 4), (1, 3, 11))
    """

    kernel_names = ("embeddings",)
    kind = "embedding"
    scaled_axis = 1  # A row is an output of the map to logits, too.

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        scale: float | None = None,
        mask_zero: bool = False,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, size in (("vocab_size", vocab_size), ("d_model", d_model)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.scale = d_model**0.5 if scale is None else scale
        self.mask_zero = mask_zero
        self.embeddings_initializer = embeddings_initializer
        self.supports_masking = True
        self.autocast = False  # bfloat16 can't represent many ids.

    def build(self, input_shape: Any = None) -> None:
        initializer = self.embeddings_initializer
        if initializer is None:
            # Scaled by sqrt(D), these have unit variance. As the last layer, they give unit logits.
            initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.embeddings = self.add_kernel(
            "embeddings", (self.vocab_size, self.d_model), keras.initializers.get(initializer)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Keras gives `compute_mask` the inputs only, which may be floats for ids too.
        token = _maps_vectors.set(bool(kwargs.get("reverse", False)))
        try:
            return super().__call__(*args, **kwargs)
        finally:
            _maps_vectors.reset(token)

    def call(self, inputs: Any, reverse: bool = False, training: bool | None = None) -> Any:
        if reverse:
            kernel = ops.transpose(ops.cast(self.kernel("embeddings"), inputs.dtype))
            return ops.cast(linear(inputs, kernel), "float32")
        size = self.vocab_size
        inputs = check_ids(inputs, size, f"Ids must be from 0 to {size - 1}", bool(training))
        if keras.backend.standardize_dtype(inputs.dtype) != "int64":
            # For several replicas, Keras builds a model with the mean of their ids.
            inputs = ops.cast(inputs, "int32")
        inputs = ops.where(inputs < 0, size, inputs)  # Not counted from the end.
        if fuses_formulas():
            return self.embed(lambda matrix: fast.take_rows(matrix, inputs, self.compute_dtype))
        return self.embed(lambda matrix: ops.take(matrix, inputs, axis=0))

    def embed(self, take: Callable[[Any], Any]) -> Any:
        """Return rows of the embeddings the way `call` does: in the compute dtype, scaled.

        Args:
            take: `take(matrix) -> rows`, the same rows of any matrix, from [V, U] to [..., U].

        Returns:
            float [..., D].
        """
        vectors = ops.cast(self.kernel("embeddings", take), self.compute_dtype)
        return ops.multiply(vectors, ops.cast(self.scale, vectors.dtype))

    def compute_output_spec(
        self, inputs: Any, reverse: bool = False, training: bool | None = None
    ) -> Any:
        if reverse:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocab_size), dtype="float32")
        return keras.KerasTensor((*inputs.shape, self.d_model), dtype=self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.d_model)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if not self.mask_zero or _maps_vectors.get():
            return previous_mask
        return ops.not_equal(inputs, PAD_ID)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "scale": self.scale,
            "mask_zero": self.mask_zero,
            "embeddings_initializer": None
            if self.embeddings_initializer is None
            else serialized_initializer(self.embeddings_initializer),
        }
