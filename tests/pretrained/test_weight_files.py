"""Weights of published models: in safetensors, in several files, and in Marian's npz."""

import errno
import json
import zipfile

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.pretrained import weight_files
from keras_transformer.pretrained.weight_files import (
    read_marian_npz,
    read_safetensors,
    read_weights,
)

save_file = pytest.importorskip("safetensors.numpy").save_file
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(4, np.float16)
CONFIG = np.frombuffer(b"dim-emb: 4\ntype: transformer\n\0\0", np.int8)


def write_index(folder, places):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def test_one_file(tmp_path):
    save_file({"a": A, "b": B}, tmp_path / "model.safetensors")
    weights = read_weights(tmp_path)
    np.testing.assert_array_equal(weights["a"], A)
    np.testing.assert_array_equal(weights["b"], B, strict=True)


def test_a_file_system_that_cannot_map_is_not_damage(tmp_path, monkeypatch):
    save_file({"a": A}, tmp_path / "model.safetensors")

    def refuse(*_, **__):
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(weight_files.mmap, "mmap", refuse)
    with pytest.raises(OSError, match="No such device: .*model.safetensors"):
        read_weights(tmp_path)


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
    expected = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(read_safetensors(path)["a"], expected, strict=True)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_marians_weights_and_configuration(tmp_path):
    path = save(tmp_path / "model.npz", Wemb=A, **{"special:model.yml": CONFIG})
    weights, config = read_marian_npz(path)
    assert config == {"dim-emb": 4, "type": "transformer"}
    assert list(weights) == ["Wemb"]
    np.testing.assert_array_equal(weights["Wemb"], A)
    data = path.read_bytes()
    for size in range(0, len(data), 41):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="model.npz must be"):
            read_marian_npz(path)


def test_an_array_that_states_another_size_is_not_allocated(tmp_path):
    path = save(tmp_path / "model.npz", Wemb=A, **{"special:model.yml": CONFIG})
    with zipfile.ZipFile(path) as archive:
        content = archive.read("Wemb.npy").replace(b"(2, 3), ", b"(99999,)")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Wemb.npy", content)
    with pytest.raises(ValueError, match="model.npz must be"):
        read_marian_npz(path)


def test_too_little_memory_is_not_damage(tmp_path, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    path = save(tmp_path / "model.npz", **{"special:model.yml": CONFIG})
    for name in ("yaml.safe_load", "zipfile.ZipFile"):
        monkeypatch.setattr(name, fail)
        with pytest.raises(MemoryError):
            read_marian_npz(path)


def test_what_expands_a_hundredfold_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    np.savez_compressed(path, W=np.zeros(10**6, "float32"))
    with pytest.raises(ValueError, match="much larger than the file"):
        read_marian_npz(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Wemb": A}, "special:model.yml"),
        ({"W_QuantMultA": A, "special:model.yml": CONFIG}, "W_QuantMultA"),
        ({"W": A.astype(np.int8), "special:model.yml": CONFIG}, "'W' of int8"),
        ({"W": np.array([None]), "special:model.yml": CONFIG}, "must be a model.npz"),
        ({"W": A, "special:model.yml": CONFIG[:5]}, "must hold options by name"),
        ({"W": A, "special:model.yml": np.frombuffer(b"a: &a [*a]", np.int8)}, "has aliases"),
    ],
)
def test_what_is_not_a_float_model_is_refused(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        read_marian_npz(save(tmp_path / "model.npz", **arrays))
