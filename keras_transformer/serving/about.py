"""What the page says about a model: facts of its export, and its card."""

import contextlib
from pathlib import Path
from typing import Any

from keras_transformer.config.record import ExportRecord

_CARD = "README.md"
_MOST_CHARACTERS = 200_000
_MOST = 1e15  # No number of a model is larger.


def about(version: Path) -> dict[str, Any]:
    """Return what a version directory says about its model.

    Args:
        version: The directory. It may lack the files, or the files may be damaged: the page is
            not the place to say so.

    Returns:
        `version`, `description`, `facts` (pairs of a name and a value), `card`,
        `max_source_length`, and `makes_trees` of a parser, as far as they are known.
    """
    known: dict[str, Any] = {"version": version.name}
    with contextlib.suppress(OSError, RecursionError, ValueError):
        record = ExportRecord.read(version)
        known["description"] = _text(record.facts.get("description") or "")
        length = record.decoding.get("max_source_length")
        if isinstance(length, int) and _number(length, "{}"):
            known["max_source_length"] = length
        if record.vocabulary.get("target_tokenizer") == "TreeTokenizer":
            known["makes_trees"] = True
        known["facts"] = _facts(record)
    with contextlib.suppress(OSError):
        with (version / _CARD).open(encoding="utf-8", errors="replace") as file:
            known["card"] = file.read(_MOST_CHARACTERS)
    return known


def _facts(record: ExportRecord) -> list[tuple[str, str]]:
    """Return the facts that a user of a translator asks for first.

    >>> _facts(ExportRecord(parameters=2_342_912, decoding={"beam_size": 5}))
    [('Parameters', '2,342,912'), ('Weights', 'float32'), ('Beam size', '5')]
    """
    scores, model = record.facts.get("scores"), record.model
    scores = scores if isinstance(scores, dict) else {}
    layers = model.get("num_layers")
    sizes = [_number(record.vocabulary.get(side), "{:,}") for side in ("source", "target")]
    facts = {
        "F1": _number(scores.get("f1"), "{:.1f}"),
        "BLEU": _number(scores.get("bleu"), "{:.1f}"),
        "chrF": _number(scores.get("chrf"), "{:.1f}"),
        "Scored on": _number(scores.get("sentences"), "{:,} sentences"),
        "Parameters": _number(record.parameters or None, "{:,}"),
        "Encoder layers": _number(layers, "{}"),
        "Decoder layers": _number(model.get("num_decoder_layers") or layers, "{}"),
        "Heads": _number(model.get("num_heads"), "{}"),
        "Width": _number(model.get("d_model"), "{:,}"),
        "Vocabulary": " and ".join(dict.fromkeys(filter(None, sizes))),
        "Weights": _text(record.precision),
        "Beam size": _number(record.decoding.get("beam_size"), "{}"),
        "Longest text": _number(record.decoding.get("max_source_length"), "{:,} tokens"),
    }
    return [(name, value) for name, value in facts.items() if value]


def _number(value: Any, pattern: str) -> str:
    """Return a number as text; "" for anything else, such as infinity or NaN.

    >>> [_number(value, "{:,}") for value in (1234, "5", True, float("nan"), 10**400)]
    ['1,234', '', '', '', '']
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return pattern.format(value) if is_number and abs(value) < _MOST else ""


def _text(value: Any) -> str:
    """Return a value as text that UTF-8 can represent."""
    return str(value).encode("utf-8", "replace").decode("utf-8")
