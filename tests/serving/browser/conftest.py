"""The page in a browser; needs playwright and Chromium."""

import json
import os
import re
import shutil

import pytest

from keras_transformer.config.record import ExportRecord
from keras_transformer.serving.settings import ModelConfig
from tests.helpers.model_server import ModelServer
from tests.helpers.parrot import Parrot

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def parrot(tmp_path_factory):
    """The server of a model that has every signature of the page."""
    base = tmp_path_factory.mktemp("models") / "parrot"
    Parrot().save(base / "2", "n_best", "attend", "inspect")
    (base / "2" / "README.md").write_text(
        "# parrot\n\nRepeats <b>what</b>\nis said.\n\n- one\n- two\n\n```bash\na\nb\n```\n"
    )
    with ModelServer(base, "parrot") as server:
        yield server


@pytest.fixture(scope="session")
def keeper(tmp_path_factory):
    """The server of two models, of which the second has no terms."""
    models = tmp_path_factory.mktemp("keeper")
    signatures = "n_best", "inspect", "translate_with_terms", "translate_document"
    Parrot().save(models / "keeper" / "1", *signatures)
    Parrot().save(models / "plain" / "1")
    configs = [ModelConfig(name=name, base=models / name) for name in ("keeper", "plain")]
    with ModelServer("", "", models=configs) as server:
        yield server


@pytest.fixture
def record(parrot):
    """Return a function that gives the model a record."""
    path = parrot.server.predictor.versions.of("parrot").served[2].path / ExportRecord.FILE
    path.parent.mkdir(exist_ok=True)
    yield lambda facts: path.write_text(json.dumps(facts))
    path.unlink(missing_ok=True)


@pytest.fixture(scope="module")  # Its event loop would be in the way of other tests.
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on PATH")
    options = ["--host-resolver-rules=MAP *.example 127.0.0.1"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(parrot, browser):
    """Return a function that opens the page; messages of the browser fail the test."""
    contexts, problems, expected = [], [], []

    def open_page(wait=True, errors=None, server=parrot, **options):
        expected.append(errors)
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.goto(f"http://localhost:{server.rest_port}/")
        if wait:
            page.locator("[data-state=ready]").wait_for()
        return page

    yield open_page
    parrot.on_predict = lambda: None
    for context in contexts:
        context.close()
    allowed = [pattern for pattern in expected if pattern]
    assert [text for text in problems if not any(re.search(each, text) for each in allowed)] == []
