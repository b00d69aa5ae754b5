import mmap
import resource

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.utils import memory
from keras_transformer.utils.memory import StoreOfViews, available_memory, release_pages


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


def resident_pages_of_files():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2])


def test_the_pages_of_a_mapped_file_are_released_and_read_again(tmp_path):
    numbers = np.arange(4_000_000, dtype=np.float32).reshape(2000, 2000)
    numbers.tofile(tmp_path / "numbers")
    with open(tmp_path / "numbers", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = np.frombuffer(mapped, np.uint8)[:].view(np.float32).reshape(2000, 2000).T
    before = resident_pages_of_files()
    assert view.sum() > 0
    assert resident_pages_of_files() > before + 3000
    release_pages(view)
    assert resident_pages_of_files() < before + 1000
    np.testing.assert_array_equal(view, numbers.T)
    release_pages(numbers)  # Which is no view of a file.
    assert numbers[1, 1] == 2001


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_store_of_views_passes_arrays_on(dtype):
    weight = keras.Variable([[1, 2], [3, 4]], dtype=dtype, trainable=False)
    arrays = {}
    StoreOfViews(arrays)["0"] = weight
    assert type(arrays["0"]) is np.ndarray
    np.testing.assert_array_equal(arrays["0"], weight.numpy(), strict=True)


def test_an_array_of_a_store_of_views_is_no_copy():
    weight, arrays = keras.Variable(tf.ones([64, 64])), {}
    StoreOfViews(arrays)["0"] = weight
    assert not arrays["0"].flags.owndata
    assert not arrays["0"].flags.writeable
    weight.assign(tf.zeros([64, 64]))
    np.testing.assert_array_equal(arrays["0"], 1)
