"""Runs the code of the documentation, and checks the commands that it shows.

Pages are README.md, CONTRIBUTING.md, saved_models/README.md and docs/**/*.md.

- ```python blocks of a page run in order, in an empty folder with a link to
  saved_models/multi30k_en_de, and know no names of other pages. If the next block is a ```text
  block, it is what the code prints; "..." stands for anything there.
- ```bash blocks do not run, and neither does the entrypoint of a ```yaml block. Each
  `keras-transformer NAME`, `python -m pipelines.NAME` and `python -m benchmarks.NAME` in them must
  exist and list the options used in its --help.
- The code cells of docs/*.ipynb run in order, with fewer epochs, and print what is stored, apart
  from numbers.

Pages and notebooks share a process, because the import of TensorFlow takes long. The README comes
first.
"""

import ast
import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
import yaml
from markdown_it import MarkdownIt

from pipelines.main import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "saved_models" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
OPTIONAL = {"keras_hub.md": "keras_hub"}  # What the code of a page needs beyond our dependencies.
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
LANGUAGES = ("", "bash", "json", "python", "text", "yaml")
OURS = r"(pipelines|benchmarks)\."
PROGRAM = "keras-transformer"
END_OF_BLOCK = "\x1e"


def page_id(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    if not page.exists():
        pytest.fail(f"{page} is missing: its snippets are part of the tests.")
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    fences = [token for token in tokens if token.type == "fence"]
    for fence in fences:
        assert fence.info in LANGUAGES, (
            f"{page.name}, line {fence.map[0] + 1}: ```{fence.info} is none of {LANGUAGES}."
        )
    return fences


def link_shipped_models(folder):
    (folder / "saved_models").mkdir()
    for shipped in (ROOT / "saved_models").glob("*_en_de"):
        (folder / "saved_models" / shipped.name).symlink_to(shipped, target_is_directory=True)


ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "COLUMNS": "200", "NO_COLOR": "1"}

# For each line with a script, answers with what it prints and the traceback of its error, if any.
INTERPRETER = """
import contextlib, io, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # What is not printed by Python is no answer.
for line in sys.stdin:
    script = line.rstrip("\\n")
    os.chdir(os.path.dirname(script))
    printed, error = io.StringIO(), None
    with open(script, encoding="utf-8") as file, contextlib.redirect_stdout(printed):
        try:
            exec(compile(file.read(), script, "exec"), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), file=answers, flush=True)
"""


@pytest.fixture(scope="module")
def run_script():
    """Run a Python file in its folder, with the checkout importable, and return its output."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", INTERPRETER],
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )

    def run(script):
        process.stdin.write(f"{script}\n")
        process.stdin.flush()
        printed, error = json.loads(process.stdout.readline())
        assert error is None, error
        return printed

    with process:
        yield run
        process.stdin.close()


def check_python(page, folder, run_script):
    """Run the page's Python blocks in a folder, compare what they print, and return it."""
    fences = blocks(page)
    if not any(fence.info == "python" for fence in fences):
        return ""
    link_shipped_models(folder)
    # Every line of code keeps its number, so that a traceback points into the page.
    lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for fence in fences:
        if fence.info == "python":
            start, end = fence.map
            lines[start + 1 : end - 1] = fence.content.splitlines()
            lines[end - 1] = f"print({END_OF_BLOCK!r})"
    script = folder / page.name
    script.write_text("\n".join(lines), encoding="utf-8")
    printed = run_script(script)
    outputs = iter(printed.split(END_OF_BLOCK + "\n"))

    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS
    for fence, following in pairwise([*fences, None]):
        output = next(outputs) if fence.info == "python" else None
        if output is not None and following and following.info == "text":
            example = doctest.Example(fence.content, following.content)
            assert checker.check_output(example.want, output, flags), (
                f"{page.name}, line {fence.map[0] + 1}\n"
                f"{checker.output_difference(example, output, flags)}"
            )
    return printed


def our_commands(script):
    """Return the (module, options) of each of our commands in shell text."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        if not re.search(rf"-m {OURS}|\b{PROGRAM} ", line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        previous = None
        for word in lexer:
            if previous == "-m" and re.match(OURS, word):
                found.append((word, []))
            elif previous == PROGRAM:
                found.append((f"pipelines.{word}", []))
            elif set(word) <= set("();<>|&"):
                found.append((None, []))  # The options of what comes next are another program's.
            elif word.startswith("--") and found:
                found[-1][1].append(word.partition("=")[0])
            previous = word
        found.append((None, []))
    return [(module, options) for module, options in found if module]


def exists(module):
    package, _, name = module.partition(".")
    if package == "pipelines":
        return name in COMMANDS
    return importlib.util.find_spec(module) is not None


def help_of(module):
    """Return what `python -m module --help` prints."""
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock.patch.object(sys, "argv", [module, "--help"]),
        contextlib.redirect_stdout(printed),
        pytest.raises(SystemExit, match="^0$"),
    ):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    return printed.getvalue()


@cache
def listed_options(module):
    """Return the options that --help lists, each on a line of its own with its other names."""
    lines = re.findall(r"^  (-.*)", help_of(module), re.MULTILINE)
    names = re.compile(r"(?:^|, )(-[\w.-]+)")
    return {name for line in lines for name in names.findall(line.partition("  ")[0])}


def script_of(fence):
    """Return the shell text of a block, if it has one."""
    if fence.info == "yaml" and "entrypoint:" in fence.content:
        return yaml.safe_load(fence.content)["spec"]["entrypoint"]
    return fence.content if fence.info == "bash" else ""


def check_commands(page):
    """Check that the page's commands of ours exist and have the options that it gives them."""
    for fence in blocks(page):
        for module, options in our_commands(script_of(fence)):
            place = f"{page.name}, line {fence.map[0] + 1}"
            assert exists(module), f"{place}: there is no {module}."
            for option in options:
                assert option in listed_options(module), f"{place}: {module} has no {option}."


def cells(notebook, kind):
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_blocks_run_and_print_what_the_page_says(page, tmp_path, run_script):
    if page.name in OPTIONAL:
        pytest.importorskip(OPTIONAL[page.name])
    printed = check_python(page, tmp_path, run_script)
    if page == ROOT / "README.md":
        (bleu,) = re.findall(r"^BLEU ([\d.]+) ", printed, re.MULTILINE)
        assert float(bleu) >= 80


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_exist_and_have_the_options_used(page):
    check_commands(page)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=page_id)
def test_notebooks_are_small_and_their_commands_exist(notebook, tmp_path):
    assert notebook.stat().st_size < 200_000, f"{notebook.name}: clear or shrink its outputs."
    ast.parse("\n".join(cells(notebook, "code")))
    page = tmp_path / f"{notebook.stem}.md"
    page.write_text("\n\n".join(cells(notebook, "markdown")), encoding="utf-8")
    check_commands(page)


def without_numbers(text):
    """Return the lines of an output without numbers, translations and logs of TensorFlow."""
    lines = [line for line in text.splitlines() if not line.startswith("INFO:")]
    lines = [re.sub(r"[\d\s]+", " ", line.partition("->")[0]).strip() for line in lines]
    return [line.replace("[ ", "[").replace(" ]", "]") for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=page_id)
def test_notebooks_store_the_outputs_of_their_code(notebook, tmp_path, run_script):
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    stored = [cell.get("outputs", []) for cell in found if cell["cell_type"] == "code"]
    script = tmp_path / f"{notebook.stem}.py"
    end = f"\nprint({END_OF_BLOCK!r})\n"
    code = end.join([*cells(notebook, "code"), ""])
    assert "epochs=7," in code  # README.md has the same training, to its last epoch.
    script.write_text(code.replace("epochs=7,", "epochs=1,"), encoding="utf-8")
    printed = run_script(script).split(END_OF_BLOCK + "\n")[:-1]
    for outputs, text in zip(stored, printed, strict=True):
        expected = "".join("".join(each.get("text", ())) for each in outputs)
        expected = re.sub(r"\nEpoch [2-7]:(.*\n){3}", "", expected)
        assert without_numbers(text) == without_numbers(expected)
        if text.endswith(" parameters\n"):
            assert text == expected
    told = "".join("".join(each.get("text", ())) for outputs in stored for each in outputs)
    assert re.findall(r"^Epoch (\d):", told, re.MULTILINE) == [*"1234567"]
    assert any(text.endswith(" parameters\n") for text in printed)
    # Saved, loaded and exported models translate like the trained one.
    assert "True Transformer\n" in printed and printed[-1] == "True\n"


GOOD_PAGE = """\
Text.

```python
from pathlib import Path
words = ["ein", "Hund"]
```

1. In a list:

    ```python
    Path("words.txt").write_text(" ".join(words))
    print(*words, sep="\\n")
    print(id(words))
    ```

    prints

    ```text
    ein
    Hund
    ...
    ```

```bash
cd somewhere --far && python -m pipelines.translate --model=runs/x \\
  --batch-size 3 "A dog." | sort --reverse  # --not-an-option
keras-transformer train --output runs/x --training.epochs 3
curl -d '{
}' localhost
```
"""


@pytest.fixture
def write_page(tmp_path):
    def write(text):
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return page

    return write


def test_a_good_page_passes(write_page, tmp_path, run_script):
    page, folder = write_page(GOOD_PAGE), tmp_path / "folder"
    folder.mkdir()
    check_python(page, folder, run_script)
    assert (folder / "words.txt").read_text() == "ein Hund"
    check_commands(page)


def test_commands_and_options_are_found():
    (script,) = re.findall("```bash\n(.*)```", GOOD_PAGE, re.DOTALL)
    assert our_commands(script) == [
        ("pipelines.translate", ["--model", "--batch-size"]),
        ("pipelines.train", ["--output", "--training.epochs"]),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    Hund", "    Hunde", "page.md, line 10\n"),
        ("id(words)", "id(word)", 'page.md", line 13, in <module>'),
        ("```python\nfrom", "```py\nfrom", "page.md, line 3: ```py is none of"),
    ],
)
def test_wrong_python_is_found(write_page, tmp_path, run_script, old, new, message):
    page, folder = write_page(GOOD_PAGE.replace(old, new, 1)), tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_python(page, folder, run_script)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("transformer train ", "transformer model ", "line 24: there is no pipelines.model."),
        ("--batch-size", "--batch", "line 24: pipelines.translate has no --batch."),
        ("--training.epochs", "--training", "line 24: pipelines.train has no --training."),
        ("--batch-size", "--format", "line 24: pipelines.translate has no --format."),
    ],
)
def test_wrong_commands_are_found(write_page, old, new, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_commands(write_page(GOOD_PAGE.replace(old, new)))


def test_a_missing_page_is_a_failure(tmp_path, run_script):
    for check in (check_commands, lambda page: check_python(page, tmp_path, run_script)):
        with pytest.raises(pytest.fail.Exception, match="README.md is missing"):
            check(tmp_path / "README.md")
