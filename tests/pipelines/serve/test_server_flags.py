"""The flags of TensorFlow's server."""

import json
from pathlib import Path

import pytest

from pipelines.cli.model_server import server_flags
from tests.helpers.programs import write


def flags(version, **changes):
    settings = {"name": "x", "port": 1, "rest_port": 2, "threads": 0, "timeout": 3.0}
    return server_flags(version, Path("/seen"), **{**settings, "batching": False, **changes})


REST = "--grpc_max_threads=256 --max_num_load_retries=0 --enable_profiler=false"
ALWAYS = "--port=1 --rest_api_port=2 --rest_api_timeout_in_ms=3000 --model_name=x".split()
ALWAYS += ["--model_base_path=/seen", *REST.split()]


def test_a_plain_model_needs_only_its_path(model):
    assert flags(model / "10") == ALWAYS


def test_options_become_flags(model):
    given = flags(model / "10", name="y", port=3, rest_port=4, threads=5, timeout=0.25)
    expected = "--port=3 --rest_api_port=4 --rest_api_timeout_in_ms=250 --model_name=y"
    expected += f" --model_base_path=/seen {REST} --tensorflow_intra_op_parallelism=5"
    assert given == expected.split()


BATCHING = "--enable_batching=true"
OWN = "--enable_per_model_batching_parameters=true"
SHARED = "--batching_parameters_file=/seen/serving/batching.config"


@pytest.mark.parametrize(
    "files, expected",
    [
        ("10/batching_params.pbtxt", [BATCHING, OWN]),
        ("serving/batching.config", [BATCHING, SHARED]),
        ("10/batching_params.pbtxt serving/batching.config", [BATCHING, OWN, SHARED]),
        (
            "serving/monitoring.config",
            [BATCHING, "--monitoring_config_file=/seen/serving/monitoring.config"],
        ),
        # Of another version, and a file that the server does not get.
        ("2/batching_params.pbtxt serving/models.config", [BATCHING]),
    ],
)
def test_each_file_that_came_with_the_model_has_its_flags(files, expected, model):
    for file in files.split():
        write(model / file)
    assert flags(model / "10", batching=True) == ALWAYS + expected
    without = [flag for flag in expected if "monitoring" in flag]
    assert flags(model / "10") == ALWAYS + without  # Batching is for those who ask for it.


@pytest.mark.parametrize(
    "version, export, expected",
    [
        ("10", {"compiled": True}, ["--xla_cpu_compilation_enabled=true"]),
        ("10", {"compiled": False}, []),
        ("10", {}, []),
        ("2", {"compiled": True}, []),
    ],
)
def test_xla_is_enabled_only_for_a_compiled_model(version, export, expected, model):
    write(model / version / "assets.extra" / "export.json", json.dumps(export))
    assert flags(model / "10") == ALWAYS + expected
