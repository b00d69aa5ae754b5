"""LoRA and int8: other forms of a layer's kernels; and which parts of a layer are frozen.

A layer with kernels reads them by `kernel`, which returns the weight itself as long as there is no
LoRA and no int8. That call is all that the paper's layers know of this module.
"""

import contextlib
import gc
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_transformer.layers.initial import initializer_for, part_seeds
from keras_transformer.utils.memory import WeightStore


class Adaptable(keras.layers.Layer):
    """Contain layers with kernels, and keep their LoRA, int8 and freezing in the configuration."""

    kernel_parts: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold parts with kernels: a layer, or a list of layers with names."""

    def kernel_layers(self) -> dict[str, "KernelLayer"]:
        """Return the `KernelLayer`s inside the layer, each once, by their path in it."""
        if isinstance(self, KernelLayer):
            return {"": self}
        found: dict[int, tuple[str, KernelLayer]] = {}
        for attribute in self.kernel_parts:
            held = getattr(self, attribute)
            is_list = isinstance(held, list)
            parts = {each.name: each for each in held} if is_list else {attribute: held}
            for name, part in parts.items():
                for path, layer in part.kernel_layers().items():
                    found.setdefault(id(layer), (f"{name}/{path}".rstrip("/"), layer))
        return dict(found.values())

    @property
    def has_lora(self) -> bool:
        """Whether a kernel has low-rank matrices of LoRA."""
        return any(layer.adapter.lora_rank for layer in self.kernel_layers().values())

    @property
    def kernel_version(self) -> int:
        """A number that changes when LoRA or int8 gives a layer other kernels."""
        return sum(layer.adapter.version for layer in self.kernel_layers().values())

    @property
    def quantization_mode(self) -> str | None:
        """`"int8"` if a kernel is int8, else None."""
        if isinstance(self, KernelLayer):
            return "int8" if self.adapter.is_int8 else None
        for name in self.kernel_parts:
            held = getattr(self, name)
            for part in held if isinstance(held, list) else [held]:
                if part.quantization_mode is not None:
                    return part.quantization_mode
        return None

    def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
        """Freeze all kernels, and train low-rank matrices that are added to them.

        Biases and normalizations remain trainable.

        Args:
            rank: The rank of the added matrices; see `MultiHeadAttention.enable_lora`.
            lora_alpha: Their factor, before it is divided by the rank; `rank` by default.

        Raises:
            ValueError: If `rank` is below 1, or a layer isn't built, or has LoRA or int8 already.

        >>> from keras_transformer.layers import EncoderLayer
        >>> layer = EncoderLayer(d_model=4, d_ff=16, num_heads=2)
        >>> layer.build((None, None, 4))
        >>> layer.enable_lora(rank=2)
        >>> layer.has_lora
        True
        """
        add_lora(list(self.kernel_layers().values()), rank, lora_alpha)

    def merge_lora(self) -> None:
        """Add the low-rank matrices of LoRA to the kernels, and remove them; outputs stay the same.

        Does nothing without LoRA.
        """
        for layer in self.kernel_layers().values():
            layer.merge_lora()

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """Do what `call` does. Keras calls this method of layers with a `quantization_mode`."""
        return self.call(*args, **kwargs)

    def restore_adaptation(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Give a new layer the LoRA, int8 and frozen parts of another one, with other values.

        Args:
            states: The entry `adaptation` of the other one's `get_config()`.
        """
        self._share_trainable()  # Also with layers that a subclass has added.
        # Before LoRA, which freezes more.
        trainable = states.get("trainable", {})
        for path, _, part in self._parts():
            if path in trainable:
                part.trainable = trainable[path]
        for path, layer in self.kernel_layers().items():
            if path not in states:
                continue
            if not layer.built:
                layer.adapter.plan(**states[path])
            elif "quantization_mode" in states[path]:
                layer.quantize(states[path]["quantization_mode"])
            else:
                layer.enable_lora(states[path]["lora_rank"], states[path]["lora_alpha"])

    def get_config(self) -> dict[str, Any]:
        layers = self.kernel_layers().items()
        states = {path: layer.adapter.state for path, layer in layers if layer.adapter.state}
        parts = self._parts()
        # What Keras's setter, which sets a layer and all of its parts, would not restore.
        trainable = {p: x.trainable for p, outer, x in parts if x.trainable != outer.trainable}
        if trainable:
            states["trainable"] = trainable
        return {**super().get_config(), **({"adaptation": states} if states else {})}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        config = dict(config)
        states = config.pop("adaptation", {})
        layer = super().from_config(config)
        layer.restore_adaptation(states)
        return layer

    def _share_trainable(self) -> None:
        """Freeze the layers inside a frozen one, which did not exist when Keras froze it."""
        if not self.trainable:
            for _, _, part in self._parts():
                part.trainable = False

    def _parts(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield path, holder and layer of each layer inside this one, once and from outside in.

        A model yields the variables that it holds itself, too.
        """
        return _layers_in(self, "", {id(self)})


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
            self.scaled_axis,
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name=f"{self.name}_adapter",
        )
        self.adapter.attach(self)
        self._was_trainable: dict[str, bool] = {}

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

    def add_linear(self, name: str, inputs: int, outputs: int) -> tuple[Any, Any]:
        """Create the kernel of a linear map, and its bias if the layer has biases, else None."""
        initializer = initializer_for(self.kernel_initializer, next(self._seeds))
        kernel = self.add_kernel(f"{name}_kernel", (inputs, outputs), initializer)
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(shape=(outputs,), initializer="zeros", name=f"{name}_bias")

    def save_own_variables(self, store: Any) -> None:
        """Save the weights as Keras does, but into a file with fewer copies of them."""
        super().save_own_variables(self._with_few_copies(store))

    def load_own_variables(self, store: Any) -> None:
        """Load the weights as Keras does, but from a file with fewer copies of them."""
        super().load_own_variables(self._with_few_copies(store))

    def _with_few_copies(self, store: Any) -> Any:
        is_file = not isinstance(store, dict) and keras.backend.backend() == "tensorflow"
        return WeightStore(store) if is_file else store

    def kernel(self, name: str, take: Callable[[Any], Any] | None = None) -> Any:
        """Return a kernel as the layer uses it, with LoRA or from int8.

        Args:
            name: The attribute, one of `kernel_names`.
            take: A function that takes some rows of any matrix, so that only these are computed;
                all rows by default.

        Returns:
            float [D, U], or the rows of it; the weight itself without LoRA and int8.
        """
        weight = getattr(self, name)
        if self.adapter.is_used:
            return self.adapter.kernel(name, weight, take or (lambda matrix: matrix))
        return weight if take is None else take(weight)

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
        self.adapter.plan(rank, float(rank if lora_alpha is None else lora_alpha))
        seeds = getattr(self, "_seeds", part_seeds(None))
        for name in self.kernel_names:
            kernel = getattr(self, name)
            self.adapter.add_lora(name, kernel.shape, next(seeds))
            self._was_trainable[name] = kernel.trainable
            kernel.trainable = False

    def merge_lora(self) -> None:
        """Add A B to the kernels, remove A and B, and unfreeze what `enable_lora` froze.

        Outputs stay the same. Does nothing without LoRA.
        """
        if self.adapter.lora_rank is None:
            return
        for name in self.kernel_names:
            kernel = getattr(self, name)
            kernel.assign(self.kernel(name))
            kernel.trainable = self._was_trainable.pop(name, True) and self.trainable
            # Functions that were traced before go on adding A B.
            b = getattr(self.adapter, f"{name}_lora_b")
            b.assign(ops.zeros(b.shape))
            for part in "ab":
                _remove(self.adapter, f"{name}_lora_{part}")
        self.adapter.plan()

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


class Adapter(keras.layers.Layer):
    """Hold what replaces or changes the kernels of one layer, the owner.

    It has no weights until LoRA or int8 is chosen: then a kernel W [D, U] becomes

    - W + alpha / rank * A B, with A [D, rank] and B [rank, U] in float32, or
    - Q * scale, with int8 Q [D, U] and one float32 scale per output, [1, U].

    It is a layer because Keras quantizes only layers without sublayers. The owner has dropout, so
    this layer is what `keras.Model.quantize` finds.

    Args:
        scaled_axis: The axis of the kernels over which a scale is constant.
    """

    def __init__(self, scaled_axis: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.scaled_axis = scaled_axis
        self.owner: Callable[[], Any] = lambda: None
        self.version = 0
        self.plan()
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
        self.is_used = self.is_int8 or lora_rank is not None
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

    def kernel(self, name: str, base: Any, take: Callable[[Any], Any]) -> Any:
        """Return what `KernelLayer.kernel` does, with LoRA or from int8; `base` is the weight."""
        if self.is_int8:
            values = ops.cast(take(getattr(self, f"{name}_int8")), "float32")
            kernel = ops.multiply(values, take(getattr(self, f"{name}_scale")))
            return ops.cast(kernel, self.compute_dtype)
        a, b = (getattr(self, f"{name}_lora_{part}") for part in "ab")
        factor = self.lora_alpha / a.shape[1]  # alpha / rank
        added = ops.multiply(ops.matmul(take(a), b), factor)
        return ops.add(ops.cast(take(base), "float32"), added)

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


class AdaptableModel(Adaptable):
    """Choose LoRA or int8 for the layers of a model."""

    _frozen_by_lora: frozenset[int] = frozenset()

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        targets: Sequence[str] = ("attention",),
    ) -> None:
        """Freeze the model, and train low-rank matrices that are added to its kernels.

        Compile the model afterwards. Exports contain the sums, like any model. For a part of the
        model, call `enable_lora` of its layers.

        Args:
            rank: The rank of the added matrices; see `MultiHeadAttention.enable_lora`.
            lora_alpha: Their factor, before it is divided by the rank; `rank` by default.
            targets: Which kernels: `"attention"`, the projections of all attentions;
                `"feed_forward"`; `"embedding"`, the token embeddings.

        Raises:
            ValueError: If `rank` is below 1, a target is unknown, or a layer has LoRA or int8
                already.

        Reference: [Hu et al., 2021](https://arxiv.org/abs/2106.09685).

        >>> from keras_transformer import Transformer
        >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
        >>> model.enable_lora(rank=2)
        >>> sum(weight.shape[0] * weight.shape[1] for weight in model.trainable_weights)
        6144
        """
        layers = self.kernel_layers().values()
        kinds = list(dict.fromkeys(layer.kind for layer in layers))
        if isinstance(targets, str) or not targets or not set(targets) <= set(kinds):
            raise ValueError(
                f"targets must be a list of {', '.join(map(repr, kinds))}, received {targets!r}."
            )
        add_lora([layer for layer in layers if layer.kind in targets], rank, lora_alpha)
        self._freeze()
        self._forget_functions()

    def merge_lora(self) -> None:
        """Add the low-rank matrices of LoRA to the kernels, and remove them.

        Outputs stay the same. The weights that `enable_lora` froze are trainable again, once the
        model has been compiled. Does nothing without LoRA.
        """
        super().merge_lora()
        # Layers may have been frozen since, and those inside others come after them.
        trainable = {id(weight): self.trainable for weight in self.weights}
        for _, _, layer in super()._parts():
            trainable |= {id(weight): layer.trainable for weight in layer.weights}
        for weight in self.weights:
            if id(weight) in self._frozen_by_lora:
                weight.trainable = trainable[id(weight)]
        self._frozen_by_lora = frozenset()
        self._forget_functions()

    def quantize(
        self, mode: str | None = None, config: Any = None, filters: Any = None, **kwargs: Any
    ) -> None:
        """Replace kernels and embeddings by int8 values, with one float32 scale per output.

        Products are computed in the model's compute dtype. The model cannot be trained any more.

        Args:
            mode: `"int8"`.
            config: See `MultiHeadAttention.quantize`.
            filters: Which layers: a regular expression or a list of them, found in a layer's name
                such as `"cross_attention"` or `"source_embedding"`, or a function of the layer; all
                by default.
            **kwargs: Not used: they are part of the method's signature in Keras.

        Raises:
            ValueError: If the mode is another one, no layer is chosen, or a layer has LoRA or int8
                already.

        >>> from keras_transformer import Transformer
        >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
        >>> model.quantize("int8")
        >>> model.quantization_mode
        'int8'
        """
        mode = config.mode if mode is None and config is not None else mode
        layers = [each for each in self.kernel_layers().values() if each.built]
        chosen = [layer for layer in layers if _is_chosen(layer, filters)]
        if not chosen:
            names = sorted({layer.name for layer in layers})
            raise ValueError(f"filters must match one of {names}, received {filters!r}.")
        for layer in chosen:
            check_quantization(layer, mode, config)  # A mistake leaves the model as it is.
        for layer in chosen:
            layer.quantize(mode, config=config)
        self._forget_functions()

    def restore_adaptation(self, states: Mapping[str, Any]) -> None:
        super().restore_adaptation(states)
        if states.get("is_frozen"):
            self._freeze()

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self._frozen_by_lora:
            config.setdefault("adaptation", {})["is_frozen"] = True
        return config

    def _parts(self):
        yield from super()._parts()
        for name, held in vars(self).items():
            if isinstance(held, keras.Variable) and id(held) not in self._frozen_by_lora:
                yield name, self, held

    def _freeze(self):
        """Freeze all weights but those of LoRA."""
        layers = self.kernel_layers().values()
        trained = {id(weight) for layer in layers for weight in layer.adapter.weights}
        frozen = [w for w in self.weights if w.trainable and id(w) not in trained]
        for weight in frozen:
            weight.trainable = False
        # Keras would track a list of weights.
        self._frozen_by_lora |= frozenset(map(id, frozen))

    def _forget_functions(self):
        self.train_function = self.test_function = self.predict_function = None


def _layers_in(layer, path, seen):
    """Yield what `Adaptable._parts` does; Keras lists the layers in models only."""
    attributes = dict(vars(layer))
    if keras.backend.backend() == "torch":  # PyTorch keeps them elsewhere.
        attributes |= dict(layer.named_children())
    for attribute, held in attributes.items():
        is_list = isinstance(held, list)
        for number, part in enumerate(held if is_list else [held]):
            is_new = isinstance(part, keras.layers.Layer) and id(part) not in seen
            if not is_new or attribute.startswith("_"):  # Keras's own lists.
                continue
            seen.add(id(part))
            name = f"{path}{attribute}{f'/{number}' if is_list else ''}"
            yield name, layer, part
            yield from _layers_in(part, f"{name}/", seen)


def _remove(layer, name):
    """Delete a weight. Keras then collects garbage, which takes long unless objects are frozen."""
    gc.freeze()
    try:
        delattr(layer, name)
    finally:
        gc.unfreeze()


def add_lora(layers: Sequence[KernelLayer], rank: int, lora_alpha: float | None) -> None:
    """Enable LoRA in layers; a mistake leaves all of them as they are."""
    # A decoder without memory has a cross-attention without kernels.
    layers = [layer for layer in layers if layer.built] or layers
    for layer in layers:
        check_lora(layer, rank)
    for layer in layers:
        layer.enable_lora(rank, lora_alpha)


def check_lora(layer: KernelLayer, rank: int) -> None:
    """Raise a ValueError unless a layer can get LoRA of this rank."""
    if rank < 1:
        raise ValueError(f"rank must be at least 1, received {rank}.")
    if not layer.built:
        raise ValueError(f"Layer {layer.name!r} has no kernels yet. Build it before LoRA.")
    if state := layer.adapter.state:
        raise ValueError(f"Layer {layer.name!r} has {state} already; LoRA needs plain kernels.")


def check_quantization(layer: KernelLayer, mode: str | None, config: Any = None) -> None:
    """Raise a ValueError unless a layer can be quantized in this way."""
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


def _is_chosen(layer, filters):
    if filters is None:
        return True
    if callable(filters):
        return filters(layer)
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
