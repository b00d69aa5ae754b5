"""The memory of a server with a shipped model, in a process of its own."""

import contextlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

from benchmarks.machine import free_ports
from tests.helpers.programs import start_serve
from tests.helpers.tiny import ROOT
from tests.serving.conftest import wait

MODEL = ROOT / "saved_models" / "multi30k_en_de"
MOST_PRIVATE = 500
"""In MiB. The server has about 330; with TensorFlow for Python and Keras it has 880."""
START_SECONDS = 200


@contextlib.contextmanager
def serving(log):
    """Start the command on two cores, with its imports in a log; yield its process and its URL."""
    port, rest_port = free_ports(2)
    options = ["--engine", "python", "--model", MODEL, "--port", port, "--rest-port", rest_port]
    with log.open("w") as file:
        process = start_serve(*options, python=("-X", "importtime"), stderr=file)
    try:
        # Memory depends on the number of threads.
        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:2])
        wait(lambda: process.poll() or "\nready: " in log.read_text(), START_SECONDS)
        assert process.poll() is None, log.read_text()[-2000:]
        yield process, f"http://localhost:{rest_port}/v1/models/{MODEL.name}:predict"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory as Linux has it")
def test_a_server_has_little_private_memory_and_no_tensorflow_for_python(tmp_path):
    words = "A dog runs on the beach and two men in a red car play with a ball near the water."
    words = words.split()

    def ask(number):
        texts = [" ".join(words[i % 7 : 9 + i]) for i in range(1 + number % 8 * 4)]
        body = {"instances": texts, "signature_name": "n_best" if number % 3 else ""}
        return urllib3.request("POST", url, json=body, timeout=60).status

    with serving(tmp_path / "log") as (process, url):
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(48))) == {200}
        status = Path(f"/proc/{process.pid}/status").read_text()
    private = int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024
    assert 100 < private < MOST_PRIVATE
    imported = re.findall(r"^import time: .*\| +([\w.]+)$", (tmp_path / "log").read_text(), re.M)
    assert "keras_transformer.serving.session" in imported
    assert not {"tensorflow", "tensorflow_text", "keras", "jax"} & set(imported)
