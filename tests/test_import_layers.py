"""What may import what: a module takes only from the rows below its own."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = """
pipelines
training plots
export
translator evaluation growth
batch_translation
data
text
token_search
model_step compiled_search
model
layers train_step
losses metrics optimizers schedules decoding
cross_entropy presets
config
files
""".strip().split("\n")
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts.split()}
# The metrics report what the loss computes.
SAME_ROW = {("metrics", "losses")}
ON_KERAS_ALONE = """
files config presets cross_entropy losses metrics optimizers schedules
layers train_step model growth
""".split()

MODULES = sorted([*ROOT.glob("keras_transformer/**/*.py"), *ROOT.glob("pipelines/**/*.py")])


def name_of(path):
    """Return `keras_transformer.layers.masks`, or `keras_transformer.layers` for its `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def imports(path):
    """Return the name of each import anywhere in a file, and whether it is at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
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


def part_of(name):
    """Return the row's entry that a module of ours belongs to, None for the package itself."""
    package, *rest = name.split(".")
    return "pipelines" if package == "pipelines" else rest[0] if rest else None


def test_there_are_modules():
    assert {"keras_transformer.model", "keras_transformer.layers.attention"} <= NAMES


# The package itself may offer anything of what is in it.
@pytest.mark.parametrize("path", [p for p in MODULES if part_of(name_of(p))], ids=name_of)
def test_imports_come_from_the_rows_below(path):
    part = part_of(name_of(path))
    assert part in ROW, f"{part} has no row yet: give it one here and in the design."
    for name, _ in imports(path):
        if name.split(".")[0] not in ("keras_transformer", "pipelines"):
            continue
        other = part_of(name)
        if other is None:  # The front door, for those who come from outside.
            assert part == "pipelines", f"{name_of(path)} imports the package as a whole."
        elif other != part and (part, other) not in SAME_ROW:
            assert ROW[other] > ROW[part], f"{name_of(path)} imports {name}, which is not below it."


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_private_api_is_imported(path):
    for name, _ in imports(path):
        assert not name.startswith(("keras.src", "tensorflow.python")), name


@pytest.mark.parametrize("part", ON_KERAS_ALONE)
def test_the_core_is_written_on_keras_alone(part):
    # For random bytes and a step's products, for a sum over replicas, for Adam; and `fit` is each
    # backend's own.
    times = {"layers": 2, "losses": 1, "optimizers": 1, "train_step": 2}
    allowed = {part: [("tensorflow", False)] * count for part, count in times.items()}
    found = [
        (name, at_module_level)
        for path in MODULES
        if part_of(name_of(path)) == part
        for name, at_module_level in imports(path)
        if name.split(".")[0] in ("tensorflow", "tensorflow_text", "jax", "torch")
    ]
    assert found == allowed.get(part, [])
