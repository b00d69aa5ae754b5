"""How beam search differs between the paper, Marian and Hugging Face's Transformers."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Style:
    """Rules in which beam searches differ, and which decide what translation wins.

    >>> STYLES["paper"].at_limit
    'cut'
    """

    penalty: Literal["wu", "power"]
    """The length penalty; see `length_penalty`."""
    candidates: Literal["all", "best", "open"]
    """Which of the 2N best continuations of N beams count: those that end may be any of them (all),
    or only the N best (best); or only as many as there are translations to finish count at all, so
    that the beam shrinks with each one that is finished (open)."""
    bound: Literal["exact", "estimate"]
    """When a sentence stops early: when no live beam can change its result (exact), or when the
    best one would not at its present length (estimate)."""
    at_limit: Literal["cut", "compete", "eos"]
    """What happens to unfinished beams at the maximum length: they follow the finished translations
    (cut), compete with them (compete), or are forced to end, at no cost, and compete (eos)."""


STYLES = {
    "paper": Style("wu", "all", "exact", "cut"),
    "marian": Style("power", "open", "exact", "compete"),
    "transformers": Style("power", "best", "estimate", "eos"),
}
"""The styles by the names of `DecodingConfig.style`."""


def get_style(name: str) -> Style:
    """Return the style with this name.

    Raises:
        ValueError: If there is none.
    """
    if name not in STYLES:
        raise ValueError(f"style must be one of {', '.join(STYLES)}, received {name!r}.")
    return STYLES[name]
