"""A model of another program in our terms: vocabularies, weights, and the `Translator`."""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from keras_transformer.config import BOS_ID, DecodingConfig, TransformerConfig
from keras_transformer.model import Transformer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.foreign_vocabulary import Normalization, join_vocabulary
from keras_transformer.translation.saved import weight_place
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.memory import aligned_array, release_pages, shared_tensor, trim_memory

log = logging.getLogger(__name__)

_Config = TypeVar("_Config")

_NEVER = -100.0
"""The bias of logits that the other program lacks. Their probability, below e^-50, vanishes in
float32 sums, and the bias is small enough for label smoothing."""
_ROWS = 2**14
"""Rows that are read from a file at a time."""
_LINEARS = {
    "self_attention": ("query", "key", "value", "output"),
    "cross_attention": ("query", "key", "value", "output"),
    "feed_forward": ("inner", "outer"),
}
"""The linear layers of each sub-layer, each with a kernel and a bias."""


@dataclasses.dataclass(frozen=True)
class ForeignSide:
    """The vocabulary of one language in another program.

    >>> side = ForeignSide(b"", ["</s>", "<unk>", "▁a", "<pad>"], pad=3, unk=1, start=3, eos=0)
    >>> side.order, side.our_pieces
    ([3, 1, 3, 0, 2], ['<pad>', '<unk>', '<s>', '</s>', '▁a'])
    """

    spm: bytes
    """The SentencePiece model that splits text."""
    pieces: Sequence[str]
    """The vocabulary, by its ids."""
    unk: int
    """The id of unknown pieces."""
    eos: int
    """The id of the end."""
    pad: int | None = None
    """The id of padding, or None without one."""
    start: int | None = None
    """The id that the decoder starts from, or None if that is a vector of zeros."""
    languages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The piece of each language by its code, in a model of many languages."""
    silent: Sequence[str] = ()
    """Pieces that are no text, such as those of languages."""
    language_comes_last: bool = False
    """Whether the language of a source follows eos instead of preceding the text."""

    @property
    def adds_start(self) -> bool:
        """Whether our bos is an extra token: the other program starts from a token with a use."""
        return self.start in (None, self.pad, self.unk, self.eos)

    @property
    def language_codes(self) -> dict[int, str]:
        """The code of each language by its id."""
        codes = {piece: code for code, piece in self.languages.items()}
        return {i: codes[piece] for i, piece in enumerate(self.pieces) if piece in codes}

    @property
    def order(self) -> list[int | None]:
        """The other program's id for each of our ids; None if it has no such token."""
        special = [self.pad, self.unk, self.start, self.eos]
        return [*special, *(i for i in range(len(self.pieces)) if i not in special)]

    @property
    def our_pieces(self) -> list[str]:
        """The pieces in the order of our ids."""
        names = [None if i is None else self.pieces[i] for i in self.order]
        taken = set(self.pieces)
        names[0] = names[0] or _free("<pad>", taken)
        if self.adds_start:
            names[BOS_ID] = _free("<s>", taken)
        return [name for name in names if name is not None]

    def rows(self, matrix: np.ndarray, width: int) -> "Rows":
        """Return the rows of a matrix in the order of our ids, with zeros for other ids."""
        if matrix.shape != (len(self.pieces), width):
            raise ValueError(
                f"A matrix of embeddings must have {width:,} columns and a row for each piece of "
                f"its vocabulary, {len(self.pieces):,}, received shape {matrix.shape}. They belong "
                "to different models; restore both."
            )
        return Rows(matrix, np.array([-1 if i is None else i for i in self.order]))

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Return the bias of the logits in the order of our ids."""
        values = self.rows(bias.reshape(-1, 1), 1)[:][:, 0]
        values[[i for i, theirs in enumerate(self.order) if theirs is None]] = _NEVER
        if self.adds_start:
            values[BOS_ID] = _NEVER
        return values


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a matrix in another order, which are copied when they are taken.

    >>> Rows(np.arange(4).reshape(2, 2), np.array([1, -1, 0]))[:2]
    array([[2, 3],
           [0, 0]])
    """

    base: np.ndarray
    """The matrix, which may take a gigabyte."""
    order: np.ndarray
    """The number of each row in the matrix; -1 for zeros."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix with its rows in this order."""
        return (len(self.order), *self.base.shape[1:])

    def __getitem__(self, part: slice) -> np.ndarray:
        order = self.order[part]
        rows = self.base[order]
        rows[order < 0] = 0
        return rows


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"<{name}>"
    return name


def vocabulary_sizes(source: ForeignSide, target: ForeignSide) -> dict[str, int | None]:
    """Return the sizes of a `TransformerConfig` for vocabularies, shared if they are equal."""
    is_shared = source.order == target.order and source.pieces == target.pieces
    return {
        "vocab_size": len(source.order),
        "target_vocab_size": None if is_shared else len(target.order),
    }


class LayerWeight(NamedTuple):
    """A weight of an encoder or decoder layer with biases.

    >>> LayerWeight("decoder", 2, "cross_attention", "gamma").path
    'decoder/layer_2/cross_attention_residual/layer_norm/gamma'
    """

    stack: str
    """"encoder" or "decoder"."""
    layer: int
    """Number of the layer, from 0."""
    part: str
    """Sub-layer: "self_attention", "cross_attention" or "feed_forward"."""
    name: str
    """Name of the weight, such as "query_kernel"; "gamma" and "beta" are the normalization's."""

    @property
    def path(self) -> str:
        """Path of the weight in a `Transformer`."""
        is_norm = self.name in ("gamma", "beta")
        part = f"{self.part}_residual/layer_norm" if is_norm else self.part
        return f"{self.stack}/layer_{self.layer}/{part}/{self.name}"

    def shape(self, config: TransformerConfig) -> tuple[int, ...]:
        """Return the shape of the weight in a model whose heads share the D elements.

        >>> config = TransformerConfig(vocab_size=9, d_model=64, d_ff=128)
        >>> LayerWeight("decoder", 2, "feed_forward", "inner_kernel").shape(config)
        (64, 128)
        """
        d_model = config.d_model
        d_ff = config.d_ff if self.stack == "encoder" else config.decoder_inner_size
        sizes = {"inner": (d_model, d_ff), "outer": (d_ff, d_model)}
        module, _, kind = self.name.rpartition("_")
        inputs, outputs = sizes.get(module, (d_model, d_model))
        return (inputs, outputs) if kind == "kernel" else (outputs,)


def layer_weights(config: TransformerConfig) -> Iterator[LayerWeight]:
    """Yield all weights of the layers of a model.

    >>> config = TransformerConfig(vocab_size=9, num_layers=2, num_decoder_layers=1)
    >>> len(list(layer_weights(config)))
    58
    """
    for stack, depth in (("encoder", config.num_layers), ("decoder", config.decoder_layers)):
        for layer in range(depth):
            for part, linears in _LINEARS.items():
                if (stack, part) != ("encoder", "cross_attention"):
                    names = [f"{name}_{kind}" for name in linears for kind in ("kernel", "bias")]
                    for name in (*names, "gamma", "beta"):
                        yield LayerWeight(stack, layer, part, name)


def validated(path: Path, make: Callable[[], _Config]) -> _Config:
    """Return the configuration that `make` returns for the options of a file.

    Raises:
        ValueError: If it is invalid; the message names the file.
    """
    try:
        return make()
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be imported: {one_line(error)}. Change the option, or restore the file."
        ) from error


def check_search(
    path: Path, problems: Mapping[str, str], known: Iterable[str], ignore: Collection[str]
) -> None:
    """Check that the options of a search can be imported, or may be left out.

    Args:
        path: The file that describes the search.
        problems: What is required of each option that has another value.
        known: The options that may be ignored.
        ignore: The options that may be left out.

    Raises:
        ValueError: If an option has no counterpart and is not ignored, or another is ignored.
    """
    if unknown := sorted({*ignore} - {*known}):
        raise ValueError(
            f"--ignore (`ignore` in Python) takes search options that cannot be imported, received "
            f"{', '.join(unknown)}, which {path.name} does not have as such. Leave it out, or "
            f"correct it: {', '.join(sorted(known))}."
        )
    texts = {name: f"{name} {rule}" for name, rule in problems.items()}
    if ignored := [text for name, text in texts.items() if name in ignore]:
        log.warning(
            "%s: left out, so translations may differ from the other program's: %s",
            path,
            "; ".join(ignored),
        )
    if refused := [name for name in texts if name not in ignore]:
        raise ValueError(
            f"{path} has search options that cannot be imported: "
            f"{'; '.join(texts[name] for name in refused)}. Change them, or leave them out with "
            f"--ignore {' '.join(refused)} (`ignore` in Python); translations may then differ from "
            "the other program's."
        )


def take_layers(
    theirs: dict[str, np.ndarray],
    config: TransformerConfig,
    name_of: Callable[[LayerWeight], str],
    origin: Path,
    *,
    are_transposed: bool = False,
) -> dict[str, np.ndarray]:
    """Take the weights of the layers out of another program's, and return them by our paths.

    Args:
        theirs: The weights by the other program's names; those that are taken are removed.
        config: The sizes of the model.
        name_of: The other program's name of a weight.
        origin: Where they come from, for the error message.
        are_transposed: Whether the other program's kernels are [outputs, inputs].

    Raises:
        ValueError: If weights are missing, or have other shapes.
    """
    names = map(name_of, layer_weights(config))
    _check_present((name for name in names if name not in theirs), origin)
    taken = {}
    for weight in layer_weights(config):
        if are_transposed and weight.name.endswith("_kernel"):
            theirs[name_of(weight)] = theirs[name_of(weight)].T
        taken[weight.path] = take_weight(theirs, name_of(weight), origin, weight.shape(config))
    return taken


def take_weight(
    theirs: dict[str, np.ndarray], name: str, origin: Path, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """Take a weight out of another program's.

    Raises:
        ValueError: If it is missing, or has another shape than a given one.
    """
    _check_present([name] if name not in theirs else [], origin)
    value = theirs.pop(name)
    # Marian's vectors are matrices of one row.
    if shape is not None and value.shape != shape and value.shape != (1, *shape):
        raise ValueError(
            f"{name} in {origin} must have shape {shape}, received {value.shape}. The weights and "
            "the configuration belong to different models; restore both."
        )
    return value if shape is None else value.reshape(shape)


def _check_present(missing: Iterable[str], origin: Path) -> None:
    if names := ", ".join(itertools.islice(missing, 5)):
        raise ValueError(
            f"{origin} lacks the weights {names}. They are damaged, or belong to another model "
            "than the configuration; restore both."
        )


def check_all_taken(theirs: Mapping[str, np.ndarray], origin: Path) -> None:
    """Check that each of another program's weights has a place in our model.

    Raises:
        ValueError: If some are left over.
    """
    if theirs:
        raise ValueError(
            f"{origin} cannot be imported: it has the weights {', '.join(list(theirs)[:5])}, which "
            "belong to another kind of model. Choose a model without them."
        )


@dataclasses.dataclass(frozen=True)
class ForeignModel:
    """A model of another program, in terms of ours."""

    config: TransformerConfig
    """Our sizes; the vocabularies have their sizes after ids are reordered."""
    decoding: DecodingConfig
    """The search that the other program would do."""
    source: ForeignSide
    """The vocabulary of the source."""
    target: ForeignSide
    """The vocabulary of the target."""
    weights: dict[str, np.ndarray | Rows]
    """Weights by their path in a `Transformer`, such as
    "encoder/layer_0/self_attention/query_kernel"."""
    languages: Sequence[Any] = ()
    """The codes of source and target, if the files name them."""

    def to_translator(self, normalization: Normalization = "none") -> Translator:
        """Return a translator with these weights, which are given up one by one to save memory.

        Args:
            normalization: What is done to text first; see `ForeignVocabulary`.

        Raises:
            ValueError: If a weight has another shape, or a vocabulary is damaged.
        """
        for value in self.weights.values():
            release_pages(value)
        model = Transformer(self.config, dtype="float32")
        for weight in model.weights:
            place = weight_place(weight.path)
            value = self.weights.pop(place)
            if value.shape != tuple(weight.shape):
                raise ValueError(
                    f"{place} must have shape {tuple(weight.shape)}, received {value.shape}. "
                    "The weights and the configuration belong to different models; restore both."
                )
            _fill(weight.value, value)
            trim_memory()
        source = _tokenizer("source", self.source, normalization)
        target = _tokenizer("target", self.target, normalization)
        return Translator(model, source, target, self.decoding)


def _fill(variable: tf.Variable, value: np.ndarray | Rows) -> None:
    """Fill a variable with values of its shape that are read from a file part by part."""

    def assign(tensor):
        if isinstance(variable, tf.distribute.DistributedValues):
            if tensor.shape == variable.shape:
                variable.assign(tensor)
            return
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tensor, validate_shape=False)

    assign(tf.zeros([0], variable.dtype))  # Frees the values before, which may take a gigabyte.
    array = aligned_array(value.shape, variable.dtype.as_numpy_dtype)
    for start in range(0, value.shape[0], _ROWS):
        part = slice(start, start + _ROWS)
        array[part] = value[part]
        release_pages(value)
    assign(shared_tensor(array))


def _tokenizer(
    name: str, side: ForeignSide, normalization: Normalization
) -> SentencePieceTokenizer:
    try:
        joined = join_vocabulary(
            side.spm,
            side.our_pieces,
            normalization,
            languages=side.languages,
            language_comes_last=side.language_comes_last,
            silent=side.silent,
        )
        return SentencePieceTokenizer(joined)
    except ValueError as error:
        raise ValueError(f"The vocabulary of the {name} is damaged: {error}") from error
