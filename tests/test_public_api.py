"""The public API is what the `__all__`s list: documented, annotated, with examples that run."""

import ast
import dataclasses
import doctest
import importlib.util
import inspect
import re
import runpy
import sys
import typing
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

# The modules whose `__all__` is the public API.
PUBLIC = """
keras_transformer
keras_transformer.config
keras_transformer.data
keras_transformer.decoding
keras_transformer.evaluation
keras_transformer.export
keras_transformer.keras_hub
keras_transformer.layers
keras_transformer.losses
keras_transformer.metrics
keras_transformer.model
keras_transformer.optimizers
keras_transformer.plots
keras_transformer.presets
keras_transformer.pretrained
keras_transformer.schedules
keras_transformer.text
keras_transformer.training
keras_transformer.translation
keras_transformer.trees
""".split()
MOST_NAMES = 120
"""The most names in all `__all__`s together. Lower it when names go; it must not rise."""
OPTIONAL = {"keras_transformer.keras_hub": "keras_hub"}  # What a module cannot do without.
IMPORTABLE = [
    name for name in PUBLIC if name not in OPTIONAL or importlib.util.find_spec(OPTIONAL[name])
]

# The examples of these need a trained model or a download, or change the whole process. They are
# not run as doctests; the pages of the documentation, which run, use the same functions. The list
# may only shrink.
WITHOUT_DOCTEST = {
    "keras_transformer.data.read_tfds",
    "keras_transformer.export.LoadedTranslator",
    "keras_transformer.export.export_saved_model",
    "keras_transformer.export.load_saved_model",
    "keras_transformer.plots.sentence_attention",
    "keras_transformer.pretrained.import_model",
    "keras_transformer.pretrained.save_hugging_face",
    "keras_transformer.training.dry_run",
    "keras_transformer.training.prepare_cpu",
    "keras_transformer.training.train",
    "keras_transformer.training.train_on_jax",
}


def public_names():
    for module in IMPORTABLE:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            value = getattr(importlib.import_module(module), name)
            if ours(value) and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{module}.{name}", value


def ours(value):
    return (getattr(value, "__module__", None) or "").startswith("keras_transformer")


NAMES = dict(public_names())
OBJECTS = {id(value): (name, value) for name, value in NAMES.items()}  # Each under one name.
public = pytest.mark.parametrize(
    "value", [value for _, value in OBJECTS.values()], ids=[name for name, _ in OBJECTS.values()]
)


def public_functions(value):
    """Yield the function, or the functions that a user calls of a class, that are written here."""
    if inspect.isfunction(value):
        yield value
        return
    inherited = [vars(kind) for kind in reversed(value.__mro__) if ours(kind)]
    for name, member in {k: v for members in inherited for k, v in members.items()}.items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if isinstance(member, property):
            member = member.fget
        public_name = not name.startswith("_") or name in ("__init__", "__call__")
        if public_name and inspect.isfunction(member) and ours(member):
            # A dataclass's own `__init__` has the annotations of its fields.
            if not (name == "__init__" and dataclasses.is_dataclass(value)):
                yield member


def signatures_of(function):
    """Return the overloads of a function, or else the function."""
    return typing.get_overloads(function) or [function]


@pytest.mark.parametrize("module", IMPORTABLE)
def test_a_module_lists_what_it_offers(module):
    offered = importlib.import_module(module).__all__
    missing = [name for name in offered if not hasattr(importlib.import_module(module), name)]
    assert not missing


@pytest.mark.parametrize(("module", "package"), OPTIONAL.items())
def test_an_optional_module_says_what_to_install(monkeypatch, module, package):
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # As if it were not installed.
    extra = re.escape(f"'keras-transformer-mt[{package.replace('_', '-')}]'")
    with pytest.raises(ImportError, match=f"pip install {extra}"):
        importlib.import_module(module)


def test_the_public_modules_and_names_are_counted():
    """A module without `__all__` promises nothing; one with it is in `PUBLIC` and has a page."""
    promised = {}
    for path in ROOT.glob("keras_transformer/**/*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                parts = path.relative_to(ROOT).with_suffix("").parts
                module = ".".join(part for part in parts if part != "__init__")
                promised[module] = ast.literal_eval(node.value)
    assert promised.keys() == set(PUBLIC)
    assert sum(map(len, promised.values())) <= MOST_NAMES
    pages = {module.rpartition(".")[2] for module in promised}
    assert pages - {path.stem for path in ROOT.glob("docs/reference/*.md")} == {"model"}


@public
def test_it_has_a_docstring(value):
    assert value.__doc__ and not value.__doc__.startswith(f"{value.__name__}("), "dataclass default"
    summary = value.__doc__.strip().splitlines()[0]
    assert summary.endswith("."), summary


@public
def test_it_is_annotated(value):
    missing = []
    functions = [one for function in public_functions(value) for one in signatures_of(function)]
    for function in functions:
        signature = inspect.signature(function)
        for number, (name, parameter) in enumerate(signature.parameters.items()):
            if number == 0 and name in ("self", "cls"):
                continue
            if parameter.annotation is parameter.empty:
                missing.append(f"{function.__qualname__}({name})")
        if signature.return_annotation is signature.empty and function.__name__ != "__init__":
            missing.append(f"{function.__qualname__} -> ?")
    assert not missing


def needs_no_example(value):
    """Return whether a class is abstract, or a record, whose fields are its documentation."""
    is_record = hasattr(value, "_fields") or dataclasses.is_dataclass(value)
    return is_record or inspect.isabstract(value)


@pytest.mark.parametrize(
    "name", [name for name, value in OBJECTS.values() if not needs_no_example(value)]
)
def test_it_has_an_example(name):
    docstring = NAMES[name].__doc__ or ""
    has_doctest = bool(doctest.DocTestParser().get_examples(docstring))
    assert has_doctest != (name in WITHOUT_DOCTEST)
    assert has_doctest or "```python" in docstring


def test_a_release_of_tensorflow_text_that_cannot_be_imported_is_not_installed(monkeypatch):
    given = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    runpy.run_path(ROOT / "setup.py")
    required = map(Requirement, given["install_requires"])
    (text,) = (each.specifier for each in required if each.name == "tensorflow-text")
    assert "2.21.0" not in text
    assert "2.21.1" in text
