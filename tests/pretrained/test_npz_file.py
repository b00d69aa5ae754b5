import numpy as np
import pytest

from keras_transformer.pretrained.weight_files import read_marian_npz

CONFIG = np.frombuffer(b"dim-emb: 4\ntype: transformer\n\0\0", np.int8)
WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_weights_and_configuration(tmp_path):
    path = save(tmp_path / "model.npz", Wemb=WEIGHT, **{"special:model.yml": CONFIG})
    weights, config = read_marian_npz(path)
    assert config == {"dim-emb": 4, "type": "transformer"}
    assert list(weights) == ["Wemb"]
    np.testing.assert_array_equal(weights["Wemb"], WEIGHT)
    data = path.read_bytes()
    for size in range(0, len(data), 41):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="model.npz must be"):
            read_marian_npz(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Wemb": WEIGHT}, "special:model.yml"),
        ({"W_QuantMultA": WEIGHT, "special:model.yml": CONFIG}, "W_QuantMultA"),
        ({"W": WEIGHT.astype(np.int8), "special:model.yml": CONFIG}, "'W' of int8"),
        ({"W": np.array([None]), "special:model.yml": CONFIG}, "must be a model.npz"),
        ({"W": WEIGHT, "special:model.yml": CONFIG[:5]}, "must be a mapping"),
    ],
)
def test_what_is_not_a_float_model_is_refused(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        read_marian_npz(save(tmp_path / "model.npz", **arrays))
