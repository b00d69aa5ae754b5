import ast
import importlib.util
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import keras_transformer

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = [name for name in keras_transformer.__all__ if name.islower()]
PAGES_ABOUT_CODE = [
    "docs/annotated.md",
    "docs/paper.md",
    "docs/contributing/design.md",
    "docs/contributing/performance.md",
]
FRONT_PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "saved_models/README.md"]


def site_extension(name):
    path = DOCS / "site_extensions" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_names(package):
    """Return the `__all__` of a package of the library, without importing it."""
    path = ROOT / "keras_transformer" / package
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_the_readme_is_short_and_has_its_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "\npip install -e . && python -m pipelines.quickstart\n" in text
    assert "\npip install -e '.[test]' && pytest -n 2 --dist loadfile\n" in text


@pytest.mark.parametrize("page", FRONT_PAGES)
def test_links_of_pages_outside_the_site_point_to_files(page):
    path = ROOT / page
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert local
    assert [link for link in local if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", *PAGES_ABOUT_CODE])
def test_the_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    names = {name for name in re.findall(r"`([\w/]+\.py)`", text) if "NAME" not in name}
    assert names
    folders = [ROOT, ROOT / "keras_transformer", ROOT / "tests"]
    assert [name for name in names if not any((f / name).is_file() for f in folders)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_lists_its_public_names_and_has_a_reference_page(package):
    assert public_names(package), f"keras_transformer.{package} has no literal __all__."
    page = DOCS / "reference" / f"{package}.md"
    assert f"::: keras_transformer.{package}\n" in page.read_text(encoding="utf-8")
    assert f"({package}.md)" in (DOCS / "reference" / "index.md").read_text(encoding="utf-8")


def test_docstrings_become_markdown():
    pytest.importorskip("griffe")
    to_markdown = site_extension("markdown_docstrings").to_markdown
    docstring = """Add.

Call arguments:
    inputs: float [B],
        the numbers.
    training: Unused.

Returns:
    float [B],
    the sums.

>>> 1 + 1
2

More."""
    assert (
        to_markdown(docstring)
        == """Add.

**Call arguments:**

- **`inputs`**: float [B],
  the numbers.
- **`training`**: Unused.

Returns:
    float [B],
        the sums.

```pycon
>>> 1 + 1
2
```

More."""
    )


class Page:
    class file:
        src_uri = "guides/page.md"


@pytest.mark.parametrize(
    ("repo_url", "expected"),
    [
        (None, "a [page](../other.md) and code"),
        (
            "https://example.org/us/repo/",
            "a [page](../other.md) and [code](https://example.org/us/repo/blob/main/setup.py)",
        ),
    ],
)
def test_links_out_of_docs_point_to_the_repository_or_become_text(repo_url, expected):
    class config:
        pass

    config.repo_url = repo_url
    links = site_extension("repository_links")
    text = "a [page](../other.md) and [code](../../setup.py)"
    assert links.on_page_markdown(text, page=Page, config=config) == expected


@pytest.mark.slow
def test_the_site_builds_and_its_reference_has_every_public_name(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

    inventory = (tmp_path / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    expected = {f"keras_transformer.{p}.{name}" for p in PACKAGES for name in public_names(p)}
    assert expected - known == set()

    tutorial = (tmp_path / "tutorial" / "index.html").read_text(encoding="utf-8")
    assert 'href="../training/"' in tutorial
    assert 'src="../tutorial_attention.svg"' in tutorial
