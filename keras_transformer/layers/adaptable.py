"""The bases of layers and models that contain kernels with LoRA or int8."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_transformer.layers.adapter import check_lora, check_quantization


class Adaptable(keras.layers.Layer):
    """Contain layers with kernels, and keep what LoRA and int8 did to them in the configuration."""

    def _kernel_parts(self):
        """Return the parts that have or contain kernels by name. A part may have two names."""
        return {}

    def kernel_layers(self) -> dict[str, Any]:
        """Return the `KernelLayer`s inside the layer, each once, by their path in it."""
        found: dict[int, tuple[str, Any]] = {}
        for name, part in self._kernel_parts().items():
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
        is_int8 = any(layer.adapter.is_int8 for layer in self.kernel_layers().values())
        return "int8" if is_int8 else None

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """Do what `call` does. Keras calls this method of layers with a `quantization_mode`."""
        return self.call(*args, **kwargs)

    def restore_adaptation(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Give a new layer the LoRA and int8 of another one, with other values.

        Args:
            states: The entry `adaptation` of the other one's `get_config()`.
        """
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
        return {**super().get_config(), **({"adaptation": states} if states else {})}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        config = dict(config)
        states = config.pop("adaptation", {})
        layer = super().from_config(config)
        layer.restore_adaptation(states)
        return layer


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
        chosen = [layer for layer in layers if layer.kind in targets]
        for layer in chosen:
            check_lora(layer, rank)  # A mistake leaves the model as it is.
        for layer in chosen:
            layer.enable_lora(rank, lora_alpha)
        self._freeze()
        self._forget_functions()

    def merge_lora(self) -> None:
        """Add the low-rank matrices of LoRA to the kernels, and remove them.

        Outputs stay the same. The weights that `enable_lora` froze are trainable again, once the
        model has been compiled. Does nothing without LoRA.
        """
        for layer in self.kernel_layers().values():
            layer.merge_lora()
        for weight in self.weights:
            if id(weight) in self._frozen_by_lora:
                weight.trainable = True
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


def _is_chosen(layer, filters):
    if filters is None:
        return True
    if callable(filters):
        return filters(layer)
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
