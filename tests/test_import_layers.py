"""The shape of the code: what may import what, what importing does, how long a function may be."""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

import keras_transformer
from tests.helpers.tiny import run_python

ROOT = Path(__file__).parents[1]

# A part imports only from the rows below its own.
ROWS = """
pipelines
training
export plots keras_hub pretrained serving
translation evaluation
data
text
model
layers
losses metrics schedules decoding optimizers
presets
trees documents
config
utils
""".strip().split("\n")
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts.split()}
SAME_ROW = {("metrics", "losses")}  # The metrics report what the loss computes.

# These run on every Keras backend. The modules named second ask the backend for something that
# Keras does not offer, inside a function.
BACKENDS = ("tensorflow", "tensorflow_text", "jax", "torch")
ON_KERAS_ALONE = "config presets losses metrics optimizers schedules layers model".split()
WITH_A_BACKEND = {
    "keras_transformer.layers.fast",
    "keras_transformer.losses",
    "keras_transformer.optimizers",
}

WITHOUT_KERAS = ("config", "documents", "presets", "evaluation", "trees")
HOMED = {"Transformer", "TransformerConfig", "Translator"}  # In `__all__`, but no module.

LONGEST_FUNCTION = 70  # Lines of code: no docstring, no comments, no blank lines.
TOP_LEVEL = set("evaluation losses metrics model optimizers presets schedules trees".split())

MODULES = sorted([*ROOT.glob("keras_transformer/**/*.py"), *ROOT.glob("pipelines/**/*.py")])


def name_of(path):
    """Return `keras_transformer.layers.masks`, or `keras_transformer.layers` for its `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}
# The package itself may offer anything that is in it.
PARTS = [path for path in MODULES if name_of(path) != "keras_transformer"]


@functools.cache
def syntax(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(syntax(path)) if isinstance(node, kinds)]


def imports(path):
    """Yield the name of each import of a file, and whether it is at module level."""
    inside = {id(node) for function in functions(path) for node in ast.walk(function)}
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; write its full name."
            # `from package import module` is an import of the module.
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in NAMES else node.module for name in full]
        else:
            continue
        for name in names:
            yield name, id(node) not in inside


def our_imports(path):
    """Yield what `imports` yields for modules of this repository."""
    for name, at_module_level in imports(path):
        if name.split(".")[0] in ("keras_transformer", "pipelines"):
            yield name, at_module_level


def part_of(name):
    """Return the entry of `ROWS` that a module belongs to, None for the package itself."""
    package, *rest = name.split(".")
    return "pipelines" if package == "pipelines" else rest[0] if rest else None


def code_lines(function, lines):
    """Return the number of lines of code from a function's `def` to its end."""
    first = function.body[0]
    docstring = range(0)
    if ast.get_docstring(function) is not None:
        docstring = range(first.lineno, first.end_lineno + 1)
    span = range(function.lineno, function.end_lineno + 1)
    code = [lines[number - 1].strip() for number in span if number not in docstring]
    return sum(bool(line) and not line.startswith("#") for line in code)


def test_modules_are_found():
    assert {"keras_transformer.model", "keras_transformer.layers.attention"} <= NAMES


@pytest.mark.parametrize("path", PARTS, ids=name_of)
def test_imports_come_from_the_rows_below(path):
    part = part_of(name_of(path))
    assert part in ROW, f"{part} has no row yet: add it here and to docs/contributing/design.md."
    for name, _ in our_imports(path):
        other = part_of(name)
        if other is None:
            assert part == "pipelines", f"{name_of(path)} imports the package as a whole."
        elif other != part and (part, other) not in SAME_ROW:
            assert ROW[other] > ROW[part], f"{name_of(path)} imports {name}, which is not below it."


def test_packages_form_no_cycle():
    graph = {part: set() for part in ROW}
    for path in PARTS:
        part = part_of(name_of(path))
        graph[part] |= {part_of(name) for name, _ in our_imports(path)} - {part, None}
    list(graphlib.TopologicalSorter(graph).static_order())  # Raises CycleError.


def test_modules_form_no_cycle():
    graph = {
        name_of(path): {name for name, at_module_level in our_imports(path) if at_module_level}
        for path in PARTS
    }
    list(graphlib.TopologicalSorter(graph).static_order())  # Raises CycleError.


def test_the_package_has_few_loose_modules():
    loose = {path.stem for path in ROOT.glob("keras_transformer/*.py")} - {"__init__"}
    assert loose == TOP_LEVEL


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_private_api_is_imported(path):
    for name, _ in imports(path):
        assert not name.startswith(("keras.src", "tensorflow.python")), name


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_short(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    lengths = [(function.name, code_lines(function, lines)) for function in functions(path)]
    assert [entry for entry in lengths if entry[1] > LONGEST_FUNCTION] == []


def test_the_core_is_written_on_keras_alone():
    found = {
        name_of(path): at_module_level
        for path in PARTS
        if part_of(name_of(path)) in ON_KERAS_ALONE
        for name, at_module_level in imports(path)
        if name.split(".")[0] in BACKENDS
    }
    assert not any(found.values()), "A backend is imported at module level."
    assert set(found) <= WITH_A_BACKEND


@pytest.mark.parametrize(
    "part", sorted(set(keras_transformer.__all__) - set(WITHOUT_KERAS) - HOMED), ids=str
)
def test_each_part_starts_tensorflow_quietly_before_it_imports_anything(part):
    package = ROOT / "keras_transformer" / part
    path = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    first = next(name for name, at_module_level in imports(path) if at_module_level)
    assert first == "keras_transformer.utils.quiet_start"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("keras_transformer.layers.masks", {"tensorflow_datasets", "sentencepiece"}),
        ("keras_transformer", {"tensorflow", "keras", "numpy", "matplotlib"}),
        ("keras_transformer.config", {"tensorflow", "keras", "numpy"}),
        ("keras_transformer.presets", {"tensorflow", "keras"}),
        ("keras_transformer.evaluation", {"tensorflow", "keras"}),
        ("keras_transformer.trees", {"tensorflow", "keras"}),
        ("pipelines", {"tensorflow", "keras"}),
        ("keras_transformer.serving.server", {"tensorflow", "tensorflow_text", "keras", "jax"}),
        ("keras_transformer.serving.server", {"docx", "lxml", "mistletoe", "translate"}),
    ],
)
def test_importing_is_quick_and_silent(module, absent):
    code = f"import sys, {module}; print(*({absent} & sys.modules.keys()))"
    process = run_python("-c", code)
    assert (process.stdout.strip(), process.stderr) == ("", "")
