import resource

import pytest

from keras_transformer.utils import memory
from keras_transformer.utils.memory import available_memory


@pytest.mark.parametrize(
    "file", ["memory.max", "a/memory.max", "a/b/memory.max", "memory/memory.limit_in_bytes"]
)
def test_a_control_group_limits_the_memory(file, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(memory, "_GROUP", tmp_path / "of process")
    whole = available_memory()
    (tmp_path / "of process").write_text("4:memory:/c\n1:cpu:/\n0::/a/b\n")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("max\n")
    assert available_memory() == whole
    (tmp_path / file).write_text("50000000\n")
    assert available_memory() == 50_000_000


def test_a_limit_of_the_process_counts(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (10**7, 10**9))
    assert available_memory() == 10**7
