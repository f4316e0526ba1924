"""Marian's files: weights in `.npz` and `.bin`, and YAML, read without trust; `.bin` written.

A `.bin` file is little-endian: the version, 1, and the number of tensors; of each tensor the length
of its name with a NUL, its type, its rank and the length of its data; the names; the shapes, int32;
the length of the padding that follows; and the data. All numbers but the shapes are uint64.
"""

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_mt.compressed import open_read
from keras_mt.convert.weights import Weights, naming_damaged_file
from keras_mt.errors import InputError
from keras_mt.extras import require

_MAX_RATIO = 64  # Of what is in a compressed file to its own size.
_CONFIG = "special:model.yml"  # The tensor that is the configuration.
# Types of tensors in `.bin` files. Other ones are laid out for one kind of processor.
_FLOAT32, _FLOAT16, _INT8, _INTGEMM8 = 0x404, 0x402, 0x101, 0x4101
_TYPES = {_FLOAT32: np.float32, _FLOAT16: np.float16, _INT8: np.int8, _INTGEMM8: np.int8}
_ALIGNMENT = 256


def read_file(path: Path) -> bytes:
    """A file's bytes, unpacked by its suffix."""
    most = _MAX_RATIO * path.stat().st_size + 2**20
    with open_read(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path} holds more than {most} bytes.")
    return data


def parse_yaml(text: bytes, where: Path | str, strings: bool = False) -> dict[str, Any]:
    """The fields of YAML, or its strings; `where` begins the messages."""
    yaml = require("yaml", "marian", "Reading Marian's files")
    name = "BaseLoader" if strings else "SafeLoader"
    loader = getattr(yaml, f"C{name}", None) or getattr(yaml, name)  # In C, where it is built.
    depth, safe = 0, True
    try:
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            # An alias could stand for far more than the file holds, and depth overflows the stack.
            safe = safe and depth <= 16 and not isinstance(event, yaml.AliasEvent)
        fields = yaml.load(text, loader) if safe else None
    except (yaml.YAMLError, ValueError) as error:  # The latter of a date that there is not.
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InputError(f"{where} must hold fields by their names, not deep, without aliases.")
    return fields


def read_marian(path: Path) -> tuple[Weights, dict[str, Any]]:
    """The tensors of a `.npz` or `.bin` file, and the fields of its configuration.

    Tensors of intgemm8 are read as float32.
    """
    data = read_file(path)
    with naming_damaged_file(path):
        tensors = _read_npz(data) if zipfile.is_zipfile(io.BytesIO(data)) else _read_bin(data)
        if _CONFIG not in tensors:
            raise ValueError(f"it has no {_CONFIG}")
        config = tensors.pop(_CONFIG).tobytes().rstrip(b"\0")
    return Weights(path, tensors), parse_yaml(config, f"{path}: {_CONFIG}")


def _read_npz(data):
    """The tensors of a `.npz` file, none of which may be compressed or a pickle."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        if sum(entry.file_size for entry in file.zip.infolist()) > len(data):
            raise ValueError("it is compressed")
        tensors = {**file}
    for name, values in tensors.items():
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
            raise ValueError(f"{name} is not a tensor of numbers")
    return tensors


def _read_bin(data):
    """The tensors of a `.bin` file; NumPy refuses numbers that lead beyond its end."""
    place = 0

    def take(count, dtype=np.uint8):
        nonlocal place
        values = np.frombuffer(data, dtype, int(count), place)
        place += values.nbytes
        return values

    version, count = take(2, "<u8")
    if version != 1:
        raise ValueError(f"its version is {version}, and not 1")
    headers = take(4 * int(count), "<u8").reshape(-1, 4).tolist()
    names = [take(length).tobytes().rstrip(b"\0").decode() for length, *_ in headers]
    shapes = [take(rank, "<i4").tolist() for _, _, rank, _ in headers]
    take(take(1, "<u8")[0])
    tensors = {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        stored = take(length)
        if not name.endswith("_QuantMultA"):  # A scale of activations.
            tensors[name] = _tensor(name, kind, shape, stored)
    return tensors


def _tensor(name, kind, shape, stored):
    """A tensor of a `.bin` file, from its bytes, which may have padding after it."""
    if kind not in _TYPES:
        raise ValueError(f"{name} is of the type {kind:#x}, which is not understood")
    dtype, count = np.dtype(_TYPES[kind]), math.prod(shape)
    values = stored[: count * dtype.itemsize].view(dtype.newbyteorder("<"))
    if kind != _INTGEMM8:
        return values.reshape(shape)
    # All but embeddings are stored transposed, with the shape as it was.
    values = values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T
    return values / stored[count : count + 4].view("<f4")[0]


def write_bin(
    path: Path, tensors: Mapping[str, np.ndarray], config: str, int8: bool = False
) -> None:
    """Writes a `.bin` file as Marian reads it: float32, or with int8 matrices."""
    text = config.encode() + b"\0"
    entries = [(_CONFIG, _INT8, (len(text),), text)]
    for name, values in tensors.items():
        if int8 and min(values.shape) > 1:
            entries.append((name, _INTGEMM8, values.shape, _quantized(name, values)))
        else:
            entries.append((name, _FLOAT32, values.shape, values.astype("<f4").tobytes()))
    names = [name.encode() + b"\0" for name, *_ in entries]
    datas = [data + b"\0" * (-len(data) % _ALIGNMENT) for *_, data in entries]
    header = np.array([1, len(entries)], "<u8").tobytes()
    for name, (_, kind, shape, _), data in zip(names, entries, datas, strict=True):
        header += np.array([len(name), kind, len(shape), len(data)], "<u8").tobytes()
    header += b"".join(names)
    header += b"".join(np.array(shape, "<i4").tobytes() for _, _, shape, _ in entries)
    padding = -(len(header) + 8) % _ALIGNMENT
    header += np.array([padding], "<u8").tobytes() + b"\0" * padding
    with open(path, "wb") as file:
        file.writelines([header, *datas])


def _quantized(name, values):
    """A matrix in 8 bits, transposed unless it is of embeddings, and its multiplier."""
    multiplier = np.float32(127 / (np.abs(values).max() or 127))
    rounded = np.clip(np.rint(values * multiplier), -127, 127).astype(np.int8)
    stored = rounded if "Wemb" in name else np.ascontiguousarray(rounded.T)
    return stored.tobytes() + multiplier.astype("<f4").tobytes()
