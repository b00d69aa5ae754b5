"""The public API is what the `__all__`s list: documented, annotated, with examples that run."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The modules whose `__all__` is the public API.
PUBLIC = """
keras_transformer
keras_transformer.config
keras_transformer.data
keras_transformer.decoding
keras_transformer.evaluation
keras_transformer.export
keras_transformer.layers
keras_transformer.losses
keras_transformer.metrics
keras_transformer.model
keras_transformer.optimizers
keras_transformer.plots
keras_transformer.presets
keras_transformer.schedules
keras_transformer.text
keras_transformer.training
keras_transformer.translation
""".split()

# Their examples would take a trained model, files or a download: the documentation's pages have
# them. May only shrink.
WITHOUT_EXAMPLE: set[str] = set()


def public_names():
    for module in PUBLIC:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module}.{name}", value


NAMES = dict(public_names())
OBJECTS = {id(value): (name, value) for name, value in NAMES.items()}  # Each under one name.
public = pytest.mark.parametrize(
    "value", [value for _, value in OBJECTS.values()], ids=[name for name, _ in OBJECTS.values()]
)


def ours(function):
    return (getattr(function, "__module__", None) or "").startswith("keras_transformer")


def public_functions(value):
    """Yield the function, or the functions that a user calls of a class, that are written here."""
    if inspect.isfunction(value):
        yield value
        return
    for name, member in vars(value).items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if isinstance(member, property):
            member = member.fget
        public_name = not name.startswith("_") or name in ("__init__", "__call__")
        if public_name and inspect.isfunction(member) and ours(member):
            # A dataclass's own `__init__` has the annotations of its fields.
            if not (name == "__init__" and dataclasses.is_dataclass(value)):
                yield member


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_lists_what_it_offers(module):
    offered = importlib.import_module(module).__all__
    assert offered == sorted(offered)
    missing = [name for name in offered if not hasattr(importlib.import_module(module), name)]
    assert not missing


def test_every_package_is_public_or_internal():
    """A module without `__all__` promises nothing; one with it is in `PUBLIC`."""
    promising = set()
    for path in ROOT.glob("keras_transformer/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if "__all__" in assigned:
            parts = path.relative_to(ROOT).with_suffix("").parts
            promising.add(".".join(part for part in parts if part != "__init__"))
    assert promising == set(PUBLIC)


@public
def test_it_has_a_docstring(value):
    assert value.__doc__ and not value.__doc__.startswith(f"{value.__name__}("), "dataclass default"
    summary = value.__doc__.strip().splitlines()[0]
    assert summary.endswith("."), summary


@public
def test_it_is_annotated(value):
    missing = []
    for function in public_functions(value):
        signature = inspect.signature(function)
        for number, (name, parameter) in enumerate(signature.parameters.items()):
            if number == 0 and name in ("self", "cls"):
                continue
            if parameter.annotation is parameter.empty:
                missing.append(f"{function.__qualname__}({name})")
        if signature.return_annotation is signature.empty:
            missing.append(f"{function.__qualname__} -> ?")
    assert not missing


@pytest.mark.parametrize("name", [name for name, _ in OBJECTS.values()])
def test_it_has_an_example(name):
    value = NAMES[name]
    text = value.__doc__ or ""
    if value.__init__ is not object.__init__ and inspect.isclass(value):
        text += value.__init__.__doc__ or ""
    has_example = bool(doctest.DocTestParser().get_examples(text)) or re.search(r"```", text)
    assert bool(has_example) != (name in WITHOUT_EXAMPLE)
