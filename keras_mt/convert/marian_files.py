"""Marian's files: weights in `.npz` and `.bin`, and YAML, read without trust; `.bin` written.

A `.bin` file is little-endian: the version, 1, and the number of tensors; of each tensor the length
of its name with a NUL, its type, its rank and the length of its data; the names; the shapes, int32;
the length of the padding that follows; and the data. All numbers but the shapes are uint64.
"""

import functools
import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_mt.convert.weights import Lazy, Weights
from keras_mt.errors import InputError
from keras_mt.extras import require

STARTS = b"PK\3\4", (1).to_bytes(8, "little")  # Of `.npz` files and of `.bin` files.
_CONFIG = "special:model.yml"  # The tensor that is the configuration.
_MAX_CONFIG = 2**20  # Bytes.
_MAX_TENSORS, _MAX_RANK, _MAX_NAME = 2**16, 4, 2**12
# Types of tensors in `.bin` files. Other ones are laid out for one kind of processor.
_FLOAT32, _FLOAT16, _INT8, _INTGEMM8 = 0x404, 0x402, 0x101, 0x4101
_TYPES = {_FLOAT32: np.float32, _FLOAT16: np.float16, _INT8: np.int8}
_ALIGNMENT = 256


def parse_yaml(text: bytes, where: Path | str, strings: bool = False) -> dict[str, Any]:
    """The fields of YAML, or its strings; `where` begins the messages."""
    yaml = require("yaml", "marian", "Reading Marian's files")
    name, depth = "BaseLoader" if strings else "SafeLoader", 0
    loader = getattr(yaml, f"C{name}", getattr(yaml, name))
    try:
        for event in yaml.parse(text, loader):
            if getattr(event, "anchor", None) is not None:  # It could stand for far more.
                raise InputError(f"{where} must have no anchors.")
            kind = type(event).__name__
            depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
            if depth > 16:
                raise InputError(f"{where} is nested too deeply.")
        fields = yaml.load(text, loader)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # The latter of a date that there is not.
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InputError(f"{where} must hold fields by their names.")
    return fields


def read_marian(path: Path) -> tuple[Weights, dict[str, Any]]:
    """The tensors of a `.npz` or `.bin` file, and its configuration; sizes are checked.

    Tensors of intgemm8 are read as float32.
    """
    try:
        tensors = _read_npz(path) if zipfile.is_zipfile(path) else _read_bin(path)
    except InputError as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    except Exception as error:  # Whatever a damaged file leads to.
        raise InputError(f"{path} cannot be read: {error!r}.") from None
    if _CONFIG not in tensors:
        raise InputError(f"{path} is not a model of Marian: it has no {_CONFIG}.")
    config = np.asarray(tensors.pop(_CONFIG))
    if config.dtype.itemsize != 1 or config.size > _MAX_CONFIG:
        raise InputError(f"{path}: {_CONFIG} must be at most {_MAX_CONFIG} characters.")
    fields = parse_yaml(config.tobytes().rstrip(b"\0"), f"{path}: {_CONFIG}")
    return Weights(path, tensors), fields


class _Reader:
    """Reads what follows each other in a file, and never beyond its end."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.place = data, 0

    def take(self, length: int) -> np.ndarray:
        if length > len(self.data) - self.place:
            raise InputError(f"{length} bytes do not fit in the file")
        self.place += length
        return self.data[self.place - length : self.place]

    def numbers(self, count: int, dtype: str = "<u8") -> np.ndarray:
        return self.take(int(count) * np.dtype(dtype).itemsize).view(dtype)

    def name(self, length: int) -> str:
        if not 1 <= length <= _MAX_NAME:
            raise InputError(f"a name has {length} bytes")
        return self.take(length).tobytes().rstrip(b"\0").decode("utf-8")


def _read_bin(path):
    """The tensors of a `.bin` file."""
    size = path.stat().st_size
    reader = _Reader(np.memmap(path, np.uint8, mode="r") if size else np.zeros(0, np.uint8))
    version, count = reader.numbers(2)
    if version != 1:
        raise InputError(f"its version is {version}, and not 1")
    if count > _MAX_TENSORS:
        raise InputError(f"it has {count} tensors, more than {_MAX_TENSORS}")
    headers = reader.numbers(4 * count).reshape(count, 4).tolist()
    names = [reader.name(length) for length, *_ in headers]
    for name, (_, _, rank, _) in zip(names, headers, strict=True):
        if rank > _MAX_RANK:
            raise InputError(f"{name} has {rank} dimensions, more than {_MAX_RANK}")
    shapes = [tuple(reader.numbers(rank, "<i4").tolist()) for _, _, rank, _ in headers]
    reader.take(int(reader.numbers(1)[0]))
    tensors = {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        if name in tensors:
            raise InputError(f"it has {name} twice")
        try:
            data = reader.take(length)
            if not name.endswith("_QuantMultA"):  # A scale of activations.
                tensors[name] = _tensor(name, kind, shape, data)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    return tensors


def _tensor(name, kind, shape, data):
    """A tensor of a `.bin` file, from its bytes, which may have padding after it."""
    count, dtype = math.prod(shape), np.dtype(_TYPES.get(kind, np.int8))
    length = count + 4 if kind == _INTGEMM8 else count * dtype.itemsize
    if any(size < 0 for size in shape) or length > len(data):
        raise InputError(f"its shape is {shape}, but it has {len(data)} bytes")
    if kind in _TYPES:
        return data[:length].view(dtype.newbyteorder("<")).reshape(shape)
    if kind != _INTGEMM8 or len(shape) != 2:
        raise InputError(f"its type is {kind:#x} and its shape {shape}, which is not understood")
    multiplier = data[count : count + 4].view("<f4")[0]
    if not (np.isfinite(multiplier) and multiplier > 0):
        raise InputError(f"its multiplier is {multiplier}")
    read = functools.partial(_dequantized, name, shape, data[:count], multiplier)
    return Lazy(shape, np.float32, read)


def _dequantized(name, shape, data, multiplier):
    values = data.view(np.int8)
    # All but embeddings are stored transposed, with the shape as it was.
    values = values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T
    return values.astype(np.float32) / multiplier


def _read_npz(path):
    """The tensors of a `.npz` file, none of which may be compressed or a pickle."""
    with np.load(path, allow_pickle=False) as file:
        entries = file.zip.infolist()
        if len(entries) > _MAX_TENSORS:
            raise InputError(f"it has {len(entries)} tensors, more than {_MAX_TENSORS}")
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise InputError(f"{entry.filename} is compressed")
        tensors = {}
        for name in file.files:
            tensors[name] = file[name]
            if not isinstance(tensors[name], np.ndarray) or tensors[name].dtype.kind not in "fiu":
                raise InputError(f"{name} is not a tensor of numbers")
    return tensors


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
    header = io.BytesIO()
    header.write(np.array([1, len(entries)], "<u8").tobytes())
    for name, (_, kind, shape, _), data in zip(names, entries, datas, strict=True):
        header.write(np.array([len(name), kind, len(shape), len(data)], "<u8").tobytes())
    header.write(b"".join(names))
    for _, _, shape, _ in entries:
        header.write(np.array(shape, "<i4").tobytes())
    padding = -(header.tell() + 8) % _ALIGNMENT
    header.write(np.array([padding], "<u8").tobytes() + b"\0" * padding)
    with open(path, "wb") as file:
        file.write(header.getvalue())
        file.writelines(datas)


def _quantized(name, values):
    """A matrix in 8 bits, transposed unless it is of embeddings, and its multiplier."""
    greatest = np.abs(values).max()
    multiplier = np.float32(127 / greatest if greatest else 1)
    rounded = np.clip(np.rint(values * multiplier), -127, 127).astype(np.int8)
    stored = rounded if "Wemb" in name else np.ascontiguousarray(rounded.T)
    return stored.tobytes() + multiplier.astype("<f4").tobytes()
