"""Options that all configuration classes share."""

import functools
from typing import Any, TypeVar

import pydantic
from pydantic import ConfigDict, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic.fields import FieldInfo

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
"""Unknown fields are errors, numbers are finite, and the docstring below a field is the help of its
option."""

_LARGEST = 2**31 - 1  # Of int32, the type of ids. Seeds may be larger.


def plain_value(
    cls: type, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    """Validate a field; unlike pydantic, refuse booleans and huge integers for numbers.

    Raises:
        ValueError: If the value is not valid.
    """
    field: FieldInfo = vars(cls)["__pydantic_fields__"][info.field_name]
    items = value if isinstance(value, list) else [value]
    if field.annotation is not bool and any(isinstance(item, bool) for item in items):
        raise ValueError(
            f"must not be a boolean, received {value!r}; in YAML, put yes, no, on and off in quotes"
        )
    valid = validate(value)
    if isinstance(valid, int) and valid > _LARGEST and info.field_name != "seed":
        raise ValueError(f"must be at most {_LARGEST:,}, received {valid}")
    return valid


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
