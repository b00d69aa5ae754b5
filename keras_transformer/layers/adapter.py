"""LoRA and int8: other forms of a layer's kernels, kept apart from the layer's own code."""

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
from keras import ops

# By the adapter's identity and the kernel's name. Two threads may trace the same layers.
_READY: ContextVar[Mapping[tuple[int, str], Any]] = ContextVar(
    "ready kernels", default=MappingProxyType({})
)


class Adapter(keras.layers.Layer):
    """Hold what replaces or changes the kernels of one layer, the owner.

    It has no weights until LoRA or int8 is chosen: then a kernel W [D, U] becomes

    - W + alpha / rank * A B, with A [D, rank] and B [rank, U] in float32
      ([Hu et al., 2021](https://arxiv.org/abs/2106.09685)), or
    - Q * scale, with int8 Q [D, U] and one float32 scale per output, [1, U].

    Keras quantizes layers without sublayers only. The owner has dropout, so this layer is what
    `keras.Model.quantize` finds.

    Args:
        scaled_axis: The axis of the kernels over which a scale is constant.
    """

    def __init__(self, scaled_axis: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.scaled_axis = scaled_axis
        self.owner: Callable[[], Any] = lambda: None
        self.lora_rank: int | None = None
        self.lora_alpha: float = 1.0
        self.is_int8 = False
        self._was_trainable: dict[str, bool] = {}
        self.version = 0
        # Keras locks a layer that it builds, and these weights come later.
        self.built = True

    def attach(self, owner: Any) -> None:
        """Set the layer whose kernels these are, by a reference that Keras doesn't track."""
        self.owner = weakref.ref(owner)

    @property
    def state(self) -> dict[str, Any]:
        """The arguments of `plan` that lead to the same weights; empty without LoRA and int8."""
        if self.is_int8:
            return {"quantization_mode": "int8"}
        if self.lora_rank is not None:
            return {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        return {}

    def plan(
        self,
        lora_rank: int | None = None,
        lora_alpha: float = 1.0,
        quantization_mode: str | None = None,
    ) -> None:
        """Choose LoRA, int8 or neither. For an owner that isn't built, this is all to do."""
        self.lora_rank, self.lora_alpha = lora_rank, lora_alpha
        self.is_int8 = quantization_mode == "int8"
        self.version += 1

    def add_lora(self, name: str, shape: Any, seed: int | None = None) -> None:
        """Add A and B for one of the owner's kernels [D, U]; A B starts at zero."""
        for part, size, initializer in (
            ("a", (shape[0], self.lora_rank), keras.initializers.HeUniform(seed)),
            ("b", (self.lora_rank, shape[1]), "zeros"),
        ):
            self._add(f"{name}_lora_{part}", size, initializer, "float32", trainable=True)

    def add_int8(self, name: str, shape: Any) -> None:
        """Add Q and its scale for one of the owner's kernels."""
        sizes = [1 if axis == self.scaled_axis else size for axis, size in enumerate(shape)]
        self._add(f"{name}_int8", shape, "zeros", "int8", trainable=False)
        self._add(f"{name}_scale", sizes, "ones", "float32", trainable=False)

    def _add(self, name, shape, initializer, dtype, trainable):
        owner = self.owner()
        with contextlib.ExitStack() as scopes:
            if owner.built:  # Otherwise the scopes of its path are open.
                for part in owner.path.split("/"):
                    scopes.enter_context(keras.name_scope(part))
            weight = self.add_weight(
                shape, initializer, dtype, trainable=trainable, autocast=False, name=name
            )
        setattr(self, name, weight)

    def kernel(self, name: str, base: Any) -> Any:
        """Return what the owner multiplies with.

        Args:
            name: The kernel's attribute in the owner.
            base: The owner's weight of that name; None with int8.

        Returns:
            float [D, U]; `base` itself without LoRA and int8.
        """
        if (ready := _READY.get().get((id(self), name))) is not None:
            return ready
        if self.is_int8:
            values = ops.cast(getattr(self, f"{name}_int8"), "float32")
            kernel = ops.multiply(values, getattr(self, f"{name}_scale"))
            return ops.cast(kernel, self.compute_dtype)
        return (
            base if self.lora_rank is None else ops.add(ops.cast(base, "float32"), self._ab(name))
        )

    def rows(self, name: str, base: Any, take: Callable[[Any], Any]) -> Any:
        """Return `take(kernel)`, rows of a kernel, without computing the others.

        Args:
            name: The kernel's attribute in the owner.
            base: The owner's weight of that name; None with int8.
            take: A function that takes the same rows of any matrix.
        """
        if self.is_int8:
            values = ops.cast(take(getattr(self, f"{name}_int8")), "float32")
            return ops.multiply(values, take(getattr(self, f"{name}_scale")))
        if self.lora_rank is None:
            return take(base)
        return ops.add(ops.cast(take(base), "float32"), self._ab(name, take))

    def _ab(self, name, take=lambda a: a):
        a, b = (getattr(self, f"{name}_lora_{part}") for part in "ab")
        return ops.multiply(ops.matmul(take(a), b), self.lora_alpha / self.lora_rank)

    def enable_lora(self, rank: int, lora_alpha: float | None, seeds: Iterator[int | None]) -> None:
        """Add A and B for every kernel of the owner, and freeze the kernels."""
        self.plan(rank, float(rank if lora_alpha is None else lora_alpha))
        for name in self.owner().kernel_names:
            base = getattr(self.owner(), name)
            self.add_lora(name, base.shape, next(seeds))
            self._was_trainable[name] = base.trainable
            base.trainable = False

    def merge_lora(self) -> None:
        """Add A B to every kernel, remove A and B, and unfreeze what `enable_lora` froze."""
        for name in self.owner().kernel_names:
            base = getattr(self.owner(), name)
            base.assign(self.kernel(name, base))
            base.trainable = self._was_trainable.pop(name, True)
            for part in "ab":
                _remove(self, f"{name}_lora_{part}")
        self.plan()

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Replace every kernel of the owner by int8; see `KernelLayer.quantize`."""
        owner = self.owner()
        if not owner.built:  # Such as the cross-attention of a decoder-only stack.
            return
        check_quantization(owner, mode, config)
        quantizer = keras.quantizers.AbsMaxQuantizer()
        for name in owner.kernel_names:
            base = getattr(owner, name)
            values, per_unit = quantizer(base, axis=self.scaled_axis, to_numpy=True)
            self.add_int8(name, base.shape)
            getattr(self, f"{name}_int8").assign(values)
            getattr(self, f"{name}_scale").assign(1 / ops.convert_to_numpy(per_unit))
            _remove(owner, name)
            setattr(owner, name, None)
        self.plan(quantization_mode="int8")


def _remove(layer, name):
    """Delete a weight. Keras then collects garbage, which takes long unless objects are frozen."""
    gc.freeze()
    try:
        delattr(layer, name)
    finally:
        gc.unfreeze()


def check_lora(layer: Any, rank: int) -> None:
    """Check that a layer can get LoRA.

    Raises:
        ValueError: If `rank` is below 1, or the layer isn't built, or has LoRA or int8 already.
    """
    if rank < 1:
        raise ValueError(f"rank must be at least 1, received {rank}.")
    if not layer.built:
        raise ValueError(f"Layer {layer.name!r} has no kernels yet. Build it before LoRA.")
    if state := layer.adapter.state:
        raise ValueError(f"Layer {layer.name!r} has {state} already; LoRA needs plain kernels.")


def check_quantization(layer: Any, mode: str | None, config: Any = None) -> None:
    """Check that a layer can be quantized.

    Raises:
        ValueError: If the mode isn't int8, there is a weight quantizer, or the layer isn't built,
            or has LoRA or int8 already.
    """
    if not layer.built:
        raise ValueError(f"Layer {layer.name!r} has no kernels yet. Build it, then quantize it.")
    if mode != "int8":
        raise ValueError(
            f"Layer {layer.name!r} can be quantized to 'int8', received {mode!r}. "
            "Use quantize('int8')."
        )
    if config is not None and config.weight_quantizer is not None:
        raise ValueError(
            f"Layer {layer.name!r} is quantized with one scale per output, received the weight "
            f"quantizer {config.weight_quantizer!r}. Use quantize('int8') without a quantizer."
        )
    if state := layer.adapter.state:
        reason, remedy = "is int8 already", "Build another one"
        if "lora_rank" in state:
            reason, remedy = "has LoRA weights", "Call merge_lora() first"
        raise ValueError(f"Layer {layer.name!r} {reason} and cannot be quantized. {remedy}.")


class ReadyKernel(NamedTuple):
    """A kernel that LoRA or int8 has computed.

    Attributes:
        adapter: The `Adapter` that computed it.
        name: The kernel's attribute in the owner.
        value: float [D, U].
    """

    adapter: Adapter
    name: str
    value: Any


def ready_kernels(layers: Iterable[Any]) -> list[ReadyKernel]:
    """Compute the kernels of layers once, for a loop that uses them many times.

    Args:
        layers: Layers with kernels.

    Returns:
        The kernels with LoRA or int8; the others need no computation.
    """
    return [
        ReadyKernel(layer.adapter, name, layer.kernel(name))
        for layer in layers
        if layer.adapter.state
        for name in layer.kernel_names
    ]


@contextlib.contextmanager
def use_kernels(kernels: Iterable[ReadyKernel]) -> Iterator[None]:
    """Make layers use kernels that are ready, within this context."""
    ready = {(id(adapter), name): value for adapter, name, value in kernels}
    token = _READY.set({**_READY.get(), **ready})
    try:
        yield
    finally:
        _READY.reset(token)
