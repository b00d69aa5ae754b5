"""Files as `torch.save` writes them, made by hand."""

import struct
import zipfile

import numpy as np


def write(path, pickled, storages=(), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("other/data.pkl", pickled)
        for key, data in storages:
            archive.writestr(f"other/data/{key}", data)
    return path


def tensor(numel=6, offset=0, shape=(2, 3), strides=(3, 1), name=b"w"):
    """Return the pickle of a dictionary with one float32 tensor in storage 0."""

    def ints(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"

    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
    storage += b"J" + struct.pack("<i", numel) + b"tQ"
    call = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage
    call += b"J" + struct.pack("<i", offset) + ints(shape) + ints(strides) + b"\x89}tR"
    return b"\x80\x02}X" + struct.pack("<I", len(name)) + name + call + b"s."


SIX = np.arange(6, dtype="<f4").tobytes()
