"""Options that greedy search, beam search and sampling share."""

import dataclasses
from collections.abc import Sequence
from typing import TypedDict

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.decoding.search import Rule, Select, Stages


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of every search, which takes them as keyword arguments of the same names.

    Attributes:
        rules: Change the logits of the next token, one after the other; see `Rule`.
        stages: Run the search in a graph of fixed shapes, as XLA needs; see `Stages`.
        select: Drop finished sentences while others go on; see `Select`. Not used with `stages`.
        bos_id: The id that `step` receives first.
        eos_id: The id that ends a translation.
        pad_id: The id that fills the positions after the end.

    >>> SearchOptions(eos_id=1).eos_id
    1
    """

    rules: Sequence[Rule] = ()
    stages: Stages | None = None
    select: Select | None = None
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID
    pad_id: int = PAD_ID


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` as keyword arguments, for type checkers."""

    rules: Sequence[Rule]
    stages: Stages | None
    select: Select | None
    bos_id: int
    eos_id: int
    pad_id: int
