"""The page for another model server."""

import json
import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from pipelines import serve
from tests.helpers.tiny import ROOT


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "--backend needs --name, the name of the model there, or --model"),
        (["--name", "x", "--engine", "python"], "--engine is for a model server"),
        (["--name", "x", "--port", "8600"], "--port is for a model server"),
        (["--name", "x", "--threads", "2"], "--threads is for a model server"),
        (["--name", "x", "--batching"], "--batching is for a model server"),
        (["--name", "x", "--no-page"], "--no-page is for a model server"),
        (["--name", "x", "--dry-run"], "--dry-run is for a model server"),
    ],
)
def test_the_page_alone_has_no_options_of_a_model_server(options, message, capsys):
    with pytest.raises(SystemExit):
        serve.main(["--backend", "http://localhost:8501", *options])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("address", ["localhost:8501", ""])
def test_the_address_of_the_other_server_is_checked(address, capsys):
    with pytest.raises(SystemExit, match="2"):
        serve.main(["--backend", address, "--name", "x"])
    message = "error: The address of a model server must be like http"
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    "options",
    [
        ["http://localhost:8501", "--rest-port", "8501"],
        ["http://LOCALHOST.:8080"],
        ["http://127.0.0.7:8080"],
        ["http://[::1]:8080", "--host", "::"],
        ["http://10.0.0.7:8080", "--host", "10.0.0.7"],
        ["http://localhost", "--rest-port", "80"],
    ],
)
def test_the_page_alone_is_not_its_own_model_server(options, capsys):
    with pytest.raises(SystemExit, match="2"):
        serve.main(["--name", "x", "--backend", *options])
    assert "of this machine is that of the page" in capsys.readouterr().err


def test_the_page_alone_names_only_its_packages(monkeypatch):
    monkeypatch.setattr(serve, "PACKAGES", ("no_such_package",))
    with pytest.raises(SystemExit, match="^error: The page needs more packages. Install"):
        serve.main(["--backend", "http://localhost:8501", "--name", "x"])


def test_the_page_alone_runs_until_a_signal(model):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
    command = ["--backend", "http://localhost:1", "--model", model, "--rest-port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.serve", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert (
            process.stderr.readline() == f"ready: page at 127.0.0.1:{port}, of http://localhost:1\n"
        )
        assert (
            process.stderr.readline() == f"Open http://127.0.0.1:{port}/ in a browser to try it.\n"
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page/model.json") as response:
            assert json.load(response) == {"name": "en_de", "version": "10"}
        process.terminate()
        assert process.wait(10) == 0
