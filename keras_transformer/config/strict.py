"""Options that all configuration classes share."""

import functools
from typing import TypeVar

import pydantic
from pydantic import ConfigDict
from pydantic.fields import FieldInfo

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""Unknown fields are errors, and the docstring below a field is the help of its option."""

Config = TypeVar("Config", bound=type)


def describe_fields(cls: Config) -> Config:
    """Add the description of each field of a pydantic dataclass to what `help` shows of it."""
    fields: dict[str, FieldInfo] = vars(cls)["__pydantic_fields__"]
    described = {name: " ".join((info.description or "").split()) for name, info in fields.items()}
    lines = [f"    {name}: {description}" for name, description in described.items()]
    cls.__doc__ = "\n".join([(cls.__doc__ or "").rstrip(), "", "Args:", *lines, ""])
    return cls


def raise_plainly(cls: Config) -> Config:
    """Make the constructor of a configuration report mistakes in one plain line."""
    constructor = vars(cls)["__init__"]

    @functools.wraps(constructor)
    def __init__(self: object, *args: object, **kwargs: object) -> None:
        try:
            constructor(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            mistakes = "; ".join(map(_in_words, error.errors()))
            raise ValueError(f"{cls.__name__}: {mistakes}.") from None

    type.__setattr__(cls, "__init__", __init__)
    return cls


def _in_words(mistake):
    name = ".".join(map(str, mistake["loc"]))
    match mistake["type"]:
        case "missing":
            return f"{name} is missing"
        case "unexpected_keyword_argument":
            return f"{name} is not an option"
        case "value_error":
            return ": ".join(filter(None, [name, str(mistake["ctx"]["error"])]))
    rule = mistake["msg"].removeprefix("Input should be ")
    return f"{name} must be {rule}, received {mistake['input']!r}"
