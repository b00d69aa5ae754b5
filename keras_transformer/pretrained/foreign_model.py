"""Convert a model of another program to a `Translator`."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.config import BOS_ID, DecodingConfig, TransformerConfig
from keras_transformer.model import Transformer
from keras_transformer.text import SentencePieceTokenizer, join_vocabulary
from keras_transformer.text.foreign_vocabulary import Normalization
from keras_transformer.translation.saved import weight_place
from keras_transformer.translation.translator import Translator

_NEVER = -100.0
"""The bias of logits that the other program does not have. Their probability, below e^-50, is no
part of any sum in float32, and it is small enough for label smoothing."""


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

    @property
    def adds_start(self) -> bool:
        """Whether our bos is a token more: the other program starts from one that has a use."""
        return self.start in (None, self.pad, self.unk, self.eos)

    @property
    def order(self) -> list[int | None]:
        """For each of our ids the other program's id, or None for one that it does not have."""
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

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Return the rows of a matrix in the order of our ids, with zeros for other ids."""
        if len(matrix) != len(self.pieces):
            raise ValueError(
                "A matrix of the model must have a row for each piece of its vocabulary, "
                f"{len(self.pieces):,}, received {len(matrix):,}. They belong to different models; "
                "restore both."
            )
        order = [len(matrix) if i is None else i for i in self.order]
        padded = np.concatenate([matrix, np.zeros_like(matrix[:1])])
        return padded[order]

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Return the bias of the logits in the order of our ids."""
        values = self.rows(bias.reshape(-1, 1))[:, 0]
        values[[i for i, theirs in enumerate(self.order) if theirs is None]] = _NEVER
        if self.adds_start:
            values[BOS_ID] = _NEVER
        return values


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"<{name}>"
    return name


@dataclasses.dataclass(frozen=True)
class ForeignModel:
    """A model of another program, in terms of ours."""

    config: TransformerConfig
    """Our sizes, with those of the vocabularies after the change of ids."""
    decoding: DecodingConfig
    """The search that the other program would do."""
    source: ForeignSide
    """The vocabulary of the source."""
    target: ForeignSide
    """The vocabulary of the target."""
    weights: Mapping[str, np.ndarray]
    """Weights by their path in a `Transformer`, such as
    "encoder/layer_0/self_attention/query_kernel"."""

    def to_translator(self, normalization: Normalization = "none") -> Translator:
        """Return a translator with these weights.

        Args:
            normalization: What is done to text first; see `ForeignVocabulary`.
        """
        model = Transformer(self.config, dtype="float32")
        for weight in model.weights:
            path = weight_place(weight.path)
            value = self.weights[path]
            # Marian's vectors are matrices of one row.
            if value.size != np.prod(weight.shape) or value.shape[-1] != weight.shape[-1]:
                raise ValueError(
                    f"{path} must have shape {tuple(weight.shape)}, received {value.shape}. The "
                    "weights and the configuration belong to different models; restore both."
                )
            weight.assign(np.reshape(value, weight.shape))
        source, target = (
            SentencePieceTokenizer(join_vocabulary(side.spm, side.our_pieces, normalization))
            for side in (self.source, self.target)
        )
        return Translator(model, source, target, self.decoding)


def read_spm(path: Path) -> tuple[bytes, list[str]]:
    """Read a SentencePiece model, and return it with its pieces.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If it is damaged.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as schema

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. It splits text into pieces; restore it.")
    model = path.read_bytes()
    try:
        pieces = [piece.piece for piece in schema.ModelProto.FromString(model).pieces]
    except DecodeError as error:
        raise ValueError(
            f"{path} is not a SentencePiece model, or is damaged. Restore it."
        ) from error
    return model, pieces


def vocabulary_sizes(source: ForeignSide, target: ForeignSide) -> dict[str, int | None]:
    """Return the sizes of a `TransformerConfig` for vocabularies, shared if they are equal."""
    is_shared = source.order == target.order and source.pieces == target.pieces
    return {
        "vocab_size": len(source.order),
        "target_vocab_size": None if is_shared else len(target.order),
    }
