import os

import pytest

from keras_transformer.utils.devices import available_cores

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system does not restrict processes to cores"
)


@needs_affinity
@pytest.mark.parametrize("cores", [1, 2])
def test_a_process_restricted_to_some_cores_counts_only_those(cores):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < cores:
        pytest.skip(f"this machine has fewer than {cores} cores")
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        assert available_cores() == cores
    finally:
        os.sched_setaffinity(0, allowed)


@needs_affinity
def test_cores_need_not_be_consecutive(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5, 7})
    assert available_cores() == 4


def test_systems_without_affinity_count_the_cores_of_the_machine(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for cores, expected in ((4, 4), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert available_cores() == expected
