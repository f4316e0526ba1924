"""Marian's files: weights in `.npz` and `.bin` and YAML, read without trust; `.bin` written.

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

from keras_mt.convert.weights import Lazy
from keras_mt.errors import InputError
from keras_mt.extras import require

CONFIG = "special:model.yml"
STARTS = b"PK\3\4", (1).to_bytes(8, "little")  # Of `.npz` files and of `.bin` files.
_MAX_CONFIG, _MAX_VOCABULARY = 2**20, 2**26  # Bytes.
_MAX_TENSORS, _MAX_RANK, _MAX_NAME = 2**16, 4, 2**12
# Marian's types of `.bin` files. Other ones are laid out for one kind of processor.
_FLOAT32, _FLOAT16, _INT8, _INTGEMM8 = 0x404, 0x402, 0x101, 0x4101
_TYPES = {_FLOAT32: np.float32, _FLOAT16: np.float16, _INT8: np.int8}
_ALIGNMENT = 256


def read_marian(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of a `.npz` or `.bin` file by name, and its configuration; sizes are checked.

    Tensors have `shape` and `dtype`, and `np.asarray` reads them, those of intgemm8 as float32.
    """
    try:
        tensors = _read_npz(path) if zipfile.is_zipfile(path) else _read_bin(path)
    except InputError as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    except Exception as error:  # Whatever a damaged file leads to.
        raise InputError(f"{path} cannot be read: {error!r}.") from None
    if CONFIG not in tensors:
        raise InputError(f"{path} is not a model of Marian: it has no {CONFIG}.")
    config = np.asarray(tensors.pop(CONFIG))
    if config.dtype.itemsize != 1 or config.size > _MAX_CONFIG:
        raise InputError(f"{path}: {CONFIG} must be at most {_MAX_CONFIG} characters.")
    text = config.tobytes().rstrip(b"\0")
    return tensors, parse_yaml(text, f"{path}: {CONFIG}")


def _read_bin(path):
    size = path.stat().st_size
    data = np.memmap(path, np.uint8, mode="r") if size else np.zeros(0, np.uint8)
    reader = _Reader(data)
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
            tensors[name] = _tensor(name, kind, shape, reader.take(length))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    return tensors


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


def _tensor(name, kind, shape, data):
    """A tensor of a `.bin` file, from its bytes, which may have padding after it."""
    if any(size < 0 for size in shape):
        raise InputError(f"its shape is {shape}")
    count = math.prod(shape)
    if kind == _INTGEMM8:
        if len(shape) != 2 or count + 4 > len(data):
            raise InputError(f"its shape is {shape}, but it has {len(data)} bytes")
        if name.endswith("_QuantMultA"):
            return Lazy(shape, np.float32, lambda: np.zeros(shape, np.float32))
        multiplier = data[count : count + 4].view("<f4")[0]
        if not (np.isfinite(multiplier) and multiplier > 0):
            raise InputError(f"its multiplier is {multiplier}")
        read = functools.partial(_dequantized, name, shape, data[:count], multiplier)
        return Lazy(shape, np.float32, read)
    if kind not in _TYPES:
        raise InputError(f"its type is {kind:#x}, which is not understood")
    dtype = np.dtype(_TYPES[kind])
    if count * dtype.itemsize > len(data):
        raise InputError(f"its shape is {shape}, but it has {len(data)} bytes")
    return data[: count * dtype.itemsize].view(dtype.newbyteorder("<")).reshape(shape)


def _dequantized(name, shape, data, multiplier):
    values = data.view(np.int8)
    # All but embeddings are stored transposed, with the shape as it was.
    values = values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T
    return values.astype(np.float32) / multiplier


def _read_npz(path):
    tensors = {}
    data = np.memmap(path, np.uint8, mode="r")
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len(entries) > _MAX_TENSORS:
            raise InputError(f"it has {len(entries)} tensors, more than {_MAX_TENSORS}")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise InputError(f"{name} is compressed")
            if name in tensors:
                raise InputError(f"it has {name} twice")
            reader = _Reader(data)
            reader.take(entry.header_offset + 26)
            reader.take(int(reader.numbers(2, "<u2").sum()))
            try:
                tensors[name] = _npy(reader.take(entry.file_size))
            except Exception as error:  # NumPy's of a header that is none are of many kinds.
                raise InputError(f"{name}: {error}") from None
    return tensors


def _npy(data):
    """The array of a `.npy` file's bytes."""
    header = io.BytesIO(data[: 2**16].tobytes())
    npy = np.lib.format
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(header)
    if version not in readers:
        raise InputError(f"its .npy version is {version}")
    shape, by_columns, dtype = readers[version](header)
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise InputError(f"its dtype is {dtype}")
    if any(size < 0 for size in shape) or len(shape) > _MAX_RANK:
        raise InputError(f"its shape is {shape}")
    count, start = math.prod(shape), header.tell()
    if count * dtype.itemsize > len(data) - start:
        raise InputError(f"its shape is {shape}, but it has {len(data) - start} bytes")
    values = data[start : start + count * dtype.itemsize].view(dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


def _events(text, where):
    """The events of YAML without anchors and aliases, which could stand for far more."""
    require("yaml", "marian", "Reading Marian's files")
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, loader):
            if getattr(event, "anchor", None) is not None:
                raise InputError(f"{where} must have no anchors.")
            yield event
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from None


def parse_yaml(text: bytes, where: str) -> dict[str, Any]:
    """The fields of a configuration in YAML; `where` begins the messages."""
    if len(text) > _MAX_CONFIG:
        raise InputError(f"{where} is too large.")
    depth = 0
    for event in _events(text, where):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > 16:
            raise InputError(f"{where} is nested too deeply.")
    import yaml

    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # Such as a date that there is not.
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InputError(f"{where} must hold fields by their names.")
    return fields


def read_yaml(path: Path) -> dict[str, Any]:
    """The fields of a YAML file."""
    return parse_yaml(_bytes(path, _MAX_CONFIG), str(path))


def read_vocabulary(path: Path) -> dict[str, int]:
    """The ids of a YAML vocabulary by their pieces."""
    ids, key, depth = {}, None, 0
    for event in _events(_bytes(path, _MAX_VOCABULARY), path):
        kind = type(event).__name__
        if kind == "MappingStartEvent":
            depth += 1
        is_scalar = kind == "ScalarEvent"
        alone = is_scalar and depth == 0
        if kind in ("SequenceStartEvent", "AliasEvent") or depth > 1 or alone:
            raise InputError(f"{path} must give each piece its id, an integer.")
        if is_scalar and key is None:
            key = event.value
        elif is_scalar:
            if key in ids or not (event.value.isascii() and event.value.isdigit()):
                raise InputError(f"{path} must give each piece one id, an integer: see {key!r}.")
            ids[key], key = int(event.value[:9]), None
    return ids


def _bytes(path, most):
    if path.stat().st_size > most:
        raise InputError(f"{path} is too large.")
    return path.read_bytes()


def write_bin(
    path: Path, tensors: Mapping[str, np.ndarray], config: str, int8: bool = False
) -> None:
    """Writes a `.bin` file as Marian reads it: float32, or with int8 matrices."""
    text = config.encode() + b"\0"
    entries = [(CONFIG, _INT8, (len(text),), text)]
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
    greatest = np.abs(values).max()
    multiplier = np.float32(127 / greatest if greatest else 1)
    rounded = np.clip(np.rint(values * multiplier), -127, 127).astype(np.int8)
    stored = rounded if "Wemb" in name else np.ascontiguousarray(rounded.T)
    return stored.tobytes() + multiplier.astype("<f4").tobytes()
