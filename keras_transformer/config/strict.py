"""Options that all configuration classes share."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform

import pydantic
from pydantic import ConfigDict, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic.dataclasses import dataclass
from pydantic.fields import Field, FieldInfo

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
"""Unknown fields are errors, numbers are finite, and the docstring below a field is the help of its
option."""

_LARGEST = 2**31 - 1  # Of int32, the type of ids. Seeds may be larger.


def _plain_value(
    cls: type, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    """Validate a field; unlike pydantic, refuse booleans and huge integers for numbers."""
    field: FieldInfo = vars(cls)["__pydantic_fields__"][info.field_name]
    items = value if isinstance(value, list) else [value]
    if field.annotation not in (bool, bool | None) and any(
        isinstance(item, bool) for item in items
    ):
        is_text = any(kind in str(field.annotation) for kind in ("str", "Literal"))
        remedy = "; in YAML, quote yes, no, on and off" if is_text else ""
        raise ValueError(f"must not be a boolean, received {value!r}{remedy}")
    valid = validate(value)
    if isinstance(valid, int) and valid > _LARGEST and info.field_name != "seed":
        raise ValueError(f"must be at most {_LARGEST:,}, received {valid}")
    return valid


Config = TypeVar("Config", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def configuration(kw_only: bool = True) -> Callable[[Config], Config]:
    """Return a decorator that makes a class a pydantic dataclass, frozen and strict.

    The help of the class describes each field, and its constructor reports all mistakes in one
    plain line.

    Args:
        kw_only: Whether fields are keyword arguments only.
    """

    def make(cls: Any) -> Any:
        cls._plain = pydantic.field_validator("*", mode="wrap")(_plain_value)
        cls = dataclass(frozen=True, kw_only=kw_only, config=STRICT)(cls)
        fields: dict[str, FieldInfo] = vars(cls)["__pydantic_fields__"]
        texts = {name: " ".join((info.description or "").split()) for name, info in fields.items()}
        lines = [f"    {name}: {text}" for name, text in texts.items()]
        cls.__doc__ = "\n".join([(cls.__doc__ or "").rstrip(), "", "Args:", *lines, ""])
        constructor = cls.__init__

        @functools.wraps(constructor)
        def __init__(self: object, *args: object, **kwargs: object) -> None:
            named = {} if kw_only else dict(zip(fields, args, strict=False))  # Mistakes have names.
            try:
                constructor(self, *args[len(named) :], **named, **kwargs)
            except pydantic.ValidationError as error:
                mistakes = "; ".join(map(describe_mistake, error.errors()))
                raise ValueError(f"{cls.__name__}: {mistakes}.") from None

        cls.__init__ = __init__
        return cls

    return make


def describe_mistake(mistake: Mapping[str, Any]) -> str:
    """Return one of the errors of a `pydantic.ValidationError` in one line."""
    name = ".".join(map(str, mistake["loc"]))
    kind, rule, received = mistake["type"], mistake["msg"], f"received {mistake['input']!r:.80}"
    if kind == "missing":
        return f"{name} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{name} is not an option"
    if kind == "value_error":  # One of ours, which says what was received.
        rule = str(mistake["ctx"]["error"])
        return f"{name}{' ' if rule.startswith('must ') else ': '}{rule}".lstrip(": ")
    if kind == "int_parsing_size":
        rule = f"at most {_LARGEST:,}"
    return f"{name} must be {rule.removeprefix('Input should be ')}, {received}"
