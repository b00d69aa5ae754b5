import collections
import os
import pickle
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.pretrained.torch_file import read_torch_weights
from tests.helpers.torch_files import SIX, tensor, write


def test_a_tensor_is_read(tmp_path):
    weights = read_torch_weights(write(tmp_path / "w.bin", tensor(), [("0", SIX)]))
    np.testing.assert_array_equal(weights["w"], [[0, 1, 2], [3, 4, 5]])
    view = tensor(offset=1, shape=(2, 2), strides=(1, 3))
    weights = read_torch_weights(write(tmp_path / "v.bin", view, [("0", SIX)]))
    np.testing.assert_array_equal(weights["w"], [[1, 4], [2, 5]])


@pytest.mark.parametrize(
    ("pickled", "storages"),
    [
        (tensor(), []),
        (tensor(), [("0", SIX[:-4])]),
        (tensor(offset=1), [("0", SIX)]),
        (tensor(strides=(4, 1)), [("0", SIX)]),
        (tensor(shape=(2, 100), strides=(0, 0)), [("0", SIX)]),
        (tensor(strides=(-3, 1)), [("0", SIX)]),
        (tensor()[:-9], [("0", SIX)]),
        (b"\x80\x02K\x01.", []),
        (b"\x80\x02)" + b"\x85" * 150_000 + b".", []),
        (b"\x80\x02})" + b"\x85" * 150_000 + b"K\x01s.", []),
        (b"\x80\x02})" + b"q\0h\0\x86" * 60 + b"K\x01s.", []),  # A key of 2 ** 60 tuples.
        (b"\x80\x02}" + b")0" * 600_000 + b".", []),
        (b"\x80\x02}r\xff\xff\xff\x7f.", []),
    ],
)
def test_damage_is_refused(tmp_path, pickled, storages):
    with pytest.raises(ValueError, match="w.bin must be a file of tensors"):
        read_torch_weights(write(tmp_path / "w.bin", pickled, storages))


def test_overlapping_entries_are_refused(tmp_path):
    path = write(tmp_path / "w.bin", tensor(), [("0", SIX), ("1", SIX)])
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    for size in (20, 24):  # The compressed size and the size of the first entry.
        data[directory + size : directory + size + 4] = struct.pack("<I", len(data))
    path.write_bytes(data)
    with pytest.raises(ValueError, match="overlap"):
        read_torch_weights(path)


def test_every_truncation_is_refused(tmp_path):
    data = write(tmp_path / "w.bin", tensor(), [("0", SIX)]).read_bytes()
    path = tmp_path / "short.bin"
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="short.bin"):
            read_torch_weights(path)


def test_compressed_and_changed_entries_are_refused(tmp_path):
    path = write(tmp_path / "w.bin", tensor(), [("0", SIX)], zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="compressed"):
        read_torch_weights(path)
    path = write(tmp_path / "w.bin", tensor(), [("0", SIX)])
    path.write_bytes(path.read_bytes().replace(SIX, SIX[::-1]))
    with pytest.raises(ValueError, match="checksum"):
        read_torch_weights(path)


class Runs:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def attacks(mark):
    code = f"open({mark!r}, 'w')"
    line = code.encode()
    text = b"X" + struct.pack("<I", len(line)) + line
    ordered = collections.OrderedDict(a=Runs(eval, code))
    return {
        "system": pickle.dumps({"w": Runs(os.system, f"touch {mark}")}, 2),
        "eval": pickle.dumps({"w": Runs(eval, code)}, 4),
        "nested": pickle.dumps(ordered, 2),
        "build": b"\x80\x02ccollections\nOrderedDict\n)R}X\x01\0\0\0acbuiltins\neval\nsb.",
        "build a global": b"\x80\x02ctorch._utils\n_rebuild_parameter\n}X\x01\0\0\0aK\x01sb.",
        "inst": b"\x80\x02(" + text + b"ibuiltins\neval\n.",
        "obj": b"\x80\x02(cbuiltins\neval\n" + text + b"o.",
        "newobj": b"\x80\x02cbuiltins\neval\n" + text + b"\x85\x81.",
        "ext": b"\x80\x02\x82\x01.",
        "dotted": b"\x80\x04\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2.__globals__\x93.",
        "call a storage": b"\x80\x02ctorch\nFloatStorage\n)R.",
        "protocol 0": b"cbuiltins\neval\n(V" + line + b"\ntR.",
    }


@pytest.mark.parametrize("name", attacks("x"))
@pytest.mark.parametrize("legacy", [False, True])
def test_code_is_refused_and_does_not_run(tmp_path, name, legacy):
    mark, path = tmp_path / "ran", tmp_path / "w.bin"
    pickled = attacks(str(mark))[name]
    if legacy:
        path.write_bytes(pickled)
    else:
        write(path, pickled)
    with pytest.raises(ValueError, match="w.bin"):
        read_torch_weights(path)
    assert not mark.exists()


def test_the_error_names_the_global(tmp_path):
    path = write(tmp_path / "w.bin", pickle.dumps({"w": Runs(eval, "1")}, 2))
    with pytest.raises(ValueError, match=r"global (__builtin__|builtins)\.eval.*may hold code"):
        read_torch_weights(path)


@pytest.mark.parity
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_torch_reads_the_same(tmp_path, new, protocol):
    torch = pytest.importorskip("torch")
    base = torch.arange(24.0).reshape(4, 6) / 7
    content = collections.OrderedDict(
        base=base, columns=base.T[1:3], low=base[1:, 2::2].bfloat16(), half=base.half(),
        double=base.double(), ids=torch.arange(3), small=torch.arange(3, dtype=torch.int32),
        parameter=torch.nn.Parameter(base[2]), empty=torch.zeros(0, 3), scalar=torch.tensor(3.5),
    )  # fmt: skip
    content._metadata = {"": {"version": 1}}
    path = tmp_path / "w.bin"
    torch.save(content, path, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
    weights = read_torch_weights(path)
    assert list(weights) == list(content)
    for name, expected in content.items():
        expected = expected.detach()
        if expected.dtype == torch.bfloat16:
            expected = expected.float().numpy().astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(weights[name], np.asarray(expected), strict=True)
