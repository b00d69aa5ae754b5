import mmap
import resource

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import FeedForward
from keras_transformer.utils import memory
from keras_transformer.utils.memory import (
    WeightStore,
    aligned_array,
    available_memory,
    release_pages,
    shared_tensor,
)


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
def test_a_weight_store_passes_arrays_on(dtype):
    weight = keras.Variable([[1, 2], [3, 4]], dtype=dtype, trainable=False)
    arrays = {}
    WeightStore(arrays)["0"] = weight
    np.testing.assert_array_equal(np.array(arrays["0"]), weight.numpy(), strict=True)


def test_an_array_of_a_weight_store_is_no_copy():
    weight, arrays = keras.Variable(tf.ones([64, 64])), {}
    WeightStore(arrays)["0"] = weight
    written = np.array(arrays["0"])  # As Keras does before it writes it.
    assert not written.flags.owndata
    assert not written.flags.writeable
    weight.assign(tf.zeros([64, 64]))
    np.testing.assert_array_equal(written, 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bfloat16"])
def test_a_weight_store_loads_what_it_saved(dtype):
    weight = keras.Variable([[1, -2, 3], [4, 5, 6]], dtype=dtype, trainable=False)
    loaded = keras.Variable(tf.zeros([2, 3]), dtype=dtype, trainable=False)
    arrays = {}
    WeightStore(arrays)["0"] = weight
    loaded.assign(WeightStore({"0": np.array(arrays["0"])})["0"])
    np.testing.assert_array_equal(loaded.numpy(), weight.numpy(), strict=True)


def test_a_variable_takes_over_a_shared_tensor_and_can_be_trained():
    array = aligned_array([300, 7], "float32")
    array[...] = 3
    variable = tf.Variable(tf.zeros([300, 7]))
    variable.assign(shared_tensor(array))
    assert np.shares_memory(np.asarray(memoryview(variable.read_value())), array)
    before = variable.read_value()
    variable.assign_sub(tf.ones([300, 7]))
    np.testing.assert_array_equal(variable, np.full([300, 7], 2))
    np.testing.assert_array_equal(before, np.full([300, 7], 3))
    del array, before
    variable.assign_sub(tf.ones([300, 7]))
    np.testing.assert_array_equal(variable, np.ones([300, 7]))


@pytest.mark.parametrize("shape", [[], [0, 3], [5], [2, 3, 4]])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_aligned_arrays_have_their_shape_and_place(shape, dtype):
    array = aligned_array(shape, dtype)
    assert array.shape == tuple(shape)
    assert array.dtype == dtype
    assert array.ctypes.data % 64 == 0 or not array.size


def test_a_big_endian_array_is_loaded():
    array = np.array([[1, 2, 3]], ">f4")
    np.testing.assert_array_equal(WeightStore({"0": array})["0"], array)


@pytest.mark.parametrize("is_held", [False, True])
def test_values_that_nobody_else_holds_are_moved_part_by_part(is_held, monkeypatch):
    monkeypatch.setattr(memory, "_AT_ONCE", 64)  # 16 of 35 floats.
    held = np.arange(35, dtype="float32").reshape(5, 7)

    class Store(dict):
        def __getitem__(self, name):
            return held if is_held else held.copy()

    np.testing.assert_array_equal(WeightStore(Store())["0"], np.arange(35.0).reshape(5, 7))
    columns = {"0": np.asfortranarray(held)}  # Whose memory is in another order.
    np.testing.assert_array_equal(WeightStore(columns)["0"], held)
    np.testing.assert_array_equal(held, np.arange(35.0).reshape(5, 7))


def test_a_saved_layer_takes_over_the_memory_that_it_is_read_into(tmp_path, monkeypatch):
    layer = FeedForward(5, 7)
    layer.build((None, None, 5))
    model = keras.Sequential([keras.Input([None, 5]), layer])
    model.save(tmp_path / "m.keras")
    read = []
    monkeypatch.setattr(memory, "shared_tensor", lambda x: read.append(x) or shared_tensor(x))
    loaded = keras.saving.load_model(tmp_path / "m.keras").layers[-1]
    assert len(read) == len(layer.weights) == 4
    for weight, array, original in zip(loaded.weights, read, layer.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), original.numpy())
        assert np.shares_memory(np.asarray(memoryview(weight.value.read_value())), array)
