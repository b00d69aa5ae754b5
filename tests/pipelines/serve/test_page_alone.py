"""The page for another model server."""

import json
import socket
import urllib.request

import pytest

from pipelines import serve
from tests.helpers.programs import start_serve


def test_the_page_alone_names_only_its_packages(monkeypatch):
    monkeypatch.setattr(serve, "PACKAGES", ("no_such_package",))
    with pytest.raises(SystemExit, match="^error: The page needs more packages. Install"):
        serve.main(["--backend", "http://localhost:8501", "--name", "x"])


def test_the_page_alone_runs_until_a_signal(model):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
    options = ["--backend", "http://localhost:1", "--model", model, "--rest-port", port]
    with start_serve(*options) as process:
        ready, hint = process.stderr.readline(), process.stderr.readline()
        assert ready == f"ready: page at 127.0.0.1:{port}, of http://localhost:1\n"
        assert hint == f"Open http://127.0.0.1:{port}/ in a browser to try it.\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page/model.json") as response:
            assert json.load(response) == {"name": "en_de", "version": "10"}
        process.terminate()
        assert process.wait(10) == 0
