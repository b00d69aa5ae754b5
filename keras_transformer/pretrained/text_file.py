"""YAML from files that may be damaged or made to do harm."""

from typing import Any

import yaml

from keras_transformer.utils.errors import one_line

_LONGEST_YAML = 100_000
"""Characters; PyYAML reads about 100,000 a second."""
_DEEPEST_YAML = 20


def parse_yaml(text: bytes, name: str) -> dict[str, Any]:
    """Return the mapping of a YAML text in UTF-8.

    Args:
        text: The text. Aliases, which can make a short text endless, are refused.
        name: What it is, for error messages.

    Raises:
        ValueError: If the text is damaged, too long or too deep, or holds anything else.

    >>> parse_yaml(b"beam-size: 6", "decoder.yml")
    {'beam-size': 6}
    """
    if len(text) > _LONGEST_YAML:
        raise ValueError(f"{name} must have at most {_LONGEST_YAML:,} bytes, has {len(text):,}.")
    try:
        decoded, depth = text.decode("utf-8"), 0
        for event in yaml.parse(decoded, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST_YAML or isinstance(event, yaml.AliasEvent):
                raise ValueError("it has aliases, or is nested too deeply")
        values = yaml.safe_load(decoded)
    except MemoryError:
        raise
    except Exception as error:  # PyYAML raises errors of any type for values with tags.
        raise ValueError(
            f"{name} is not YAML, or is damaged: {one_line(error)}. Restore it."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} must hold options by name, received {type(values).__name__}.")
    return values
