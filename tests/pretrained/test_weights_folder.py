import json

import numpy as np
import pytest

from keras_transformer.pretrained.weight_files import read_safetensors, read_weights

save_file = pytest.importorskip("safetensors.numpy").save_file
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(4, np.float16)


def write_index(folder, places):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def test_one_file(tmp_path):
    save_file({"a": A, "b": B}, tmp_path / "model.safetensors")
    weights = read_weights(tmp_path)
    np.testing.assert_array_equal(weights["a"], A)
    assert weights["b"].dtype == np.float32


def test_shards(tmp_path):
    save_file({"a": A}, tmp_path / "1.safetensors")
    save_file({"b": B}, tmp_path / "2.safetensors")
    write_index(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    assert set(read_weights(tmp_path)) == {"a", "b"}
    write_index(tmp_path, {"a": "2.safetensors"})
    with pytest.raises(ValueError, match="2.safetensors must hold 'a'"):
        read_weights(tmp_path)
    write_index(tmp_path, {"a": "3.safetensors"})
    with pytest.raises(FileNotFoundError, match="3.safetensors is missing"):
        read_weights(tmp_path)
    write_index(tmp_path, {"a": "../1.safetensors"})
    with pytest.raises(ValueError, match="without folders"):
        read_weights(tmp_path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="pytorch_model.bin.index.json"):
        read_weights(tmp_path)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": A}, path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="model.safetensors must be"):
            read_safetensors(path)


@pytest.mark.parity
def test_bfloat16_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.safetensors"
    from safetensors.torch import save_file as save_torch

    save_torch({"a": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}, path)
    np.testing.assert_array_equal(read_safetensors(path)["a"], np.float32([1.5, -2]), strict=True)
