"""The base of layers whose kernels may have LoRA or int8."""

from typing import Any, ClassVar

from keras_transformer.layers.adaptable import Adaptable
from keras_transformer.layers.adapter import Adapter, check_lora, check_quantization
from keras_transformer.layers.initial import part_seeds


class KernelLayer(Adaptable):
    """Have kernels that may be fine-tuned with LoRA or quantized to int8.

    A subclass creates its kernels with `add_kernel` and reads them with `kernel`.
    """

    kernel_names: ClassVar[tuple[str, ...]]
    """Attributes that hold the kernels, float [D, U], in the order of their creation."""
    kind: ClassVar[str]
    """What LoRA calls the layer when it chooses layers of a model."""
    scaled_axis: ClassVar[int] = 0
    """The axis of the kernels over which the scale of int8 is constant."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.adapter = Adapter(
            self.scaled_axis, dtype=self.dtype_policy, name=f"{self.name}_adapter"
        )
        self.adapter.attach(self)

    def kernel_layers(self) -> dict[str, "KernelLayer"]:
        return {"": self}

    def add_kernel(self, name: str, shape: tuple[int, int], initializer: Any) -> Any:
        """Create a kernel [D, U] while the layer is built; return None if it is int8."""
        adapter = self.adapter
        if adapter.is_int8:
            adapter.add_int8(name, shape)
            return None
        kernel = self.add_weight(shape=shape, initializer=initializer, name=name)
        if adapter.lora_rank is not None:
            adapter.add_lora(name, shape)
            kernel.trainable = False
        return kernel

    def kernel(self, name: str) -> Any:
        """Return a kernel as the layer uses it, with LoRA or from int8.

        Args:
            name: The attribute, one of `kernel_names`.

        Returns:
            float [D, U].
        """
        return self.adapter.kernel(name, getattr(self, name))

    def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
        """Freeze the kernels, and train low-rank matrices that are added to them.

        A kernel W [D, U] becomes W + lora_alpha / rank * A B, with A [D, rank] and B [rank, U]
        ([Hu et al., 2021](https://arxiv.org/abs/2106.09685)). B starts at zero, so the layer's
        outputs stay the same at first. Biases remain trainable.

        Args:
            rank: The rank of A B.
            lora_alpha: The factor of A B, before it is divided by the rank; `rank` by default.

        Raises:
            ValueError: If `rank` is below 1, or the layer isn't built, or has LoRA or int8
                already.

        >>> from keras import ops
        >>> from keras_transformer.layers import FeedForward
        >>> layer = FeedForward(d_model=4, d_ff=16)
        >>> _ = layer(ops.ones((2, 4)))
        >>> layer.enable_lora(rank=2)
        >>> [tuple(weight.shape) for weight in layer.trainable_weights]
        [(16,), (4,), (4, 2), (2, 16), (16, 2), (2, 4)]
        """
        check_lora(self, rank)
        self.adapter.enable_lora(rank, lora_alpha, getattr(self, "_seeds", part_seeds(None)))

    def merge_lora(self) -> None:
        """Add A B to the kernels, remove A and B, and unfreeze what `enable_lora` froze.

        Outputs stay the same. Does nothing without LoRA.
        """
        if self.adapter.lora_rank is not None:
            self.adapter.merge_lora()

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Replace the kernels by int8 values, with one float32 scale per output.

        Biases stay as they are, and products are computed in the compute dtype. The layer's
        kernels cannot be trained any more.

        Args:
            mode: `"int8"`.
            type_check: Not used: it is part of the method's signature in Keras.
            config: A `keras.quantizers.Int8QuantizationConfig` without a weight quantizer. Its
                activation quantizer is not used.

        Raises:
            ValueError: If the mode is another one, or the layer isn't built, or has LoRA or int8
                already.

        >>> from keras import ops
        >>> from keras_transformer.layers import FeedForward
        >>> layer = FeedForward(d_model=4, d_ff=16, use_bias=False)
        >>> _ = layer(ops.ones((2, 4)))
        >>> layer.quantize("int8")
        >>> [weight.dtype for weight in layer.weights]
        ['int8', 'float32', 'int8', 'float32']
        """
        check_quantization(self, mode, config)
        self.adapter.quantize(mode, config=config)
