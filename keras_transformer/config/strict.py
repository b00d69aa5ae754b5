"""Options that all configuration classes share."""

from typing import TypeVar

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
