"""Reads weights from safetensors, PyTorch and HDF5 files, without running any code in them.

Tensors are read lazily. The sizes that a file declares are checked against the size of the file.
"""

import collections
import functools
import json
import math
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
from safetensors import safe_open

from keras_mt.errors import InputError

_MAX_HEADER = 2**26  # Bytes of an index or a pickle, which holds names and shapes.
_SAFETENSORS = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
}
# Last parts of names in tf_model.h5, and PyTorch's.
_KERAS_NAMES = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}
_LEGACY = 0x1950A86A20F9469CFC6C  # The magic number of torch.save's files before zip archives.


def read_weights(directory: Path) -> dict[str, Any]:
    """The tensors of a folder, from the first file found.

    The files are `model.safetensors`, sharded or not, `pytorch_model.bin` and `tf_model.h5`.

    Args:
        directory: The folder.

    Returns:
        A dict of tensors by PyTorch's names, which begin at `encoder`, `decoder`, `shared`,
        `lm_head` or `final_logits_bias`. The tensors have `shape` and `dtype`, and `np.asarray`
        reads them.

    Raises:
        FileNotFoundError: If there is none of these files.
        ValueError: If a file is damaged, or holds anything but tensors.
    """
    for name, read in _READERS.items():
        path = directory / name
        if path.is_file():
            return _by_short_names(path, _reading(path, read))
    raise FileNotFoundError(f"{directory} has no weights: none of {', '.join(_READERS)}.")


def _reading(path, read):
    try:
        return read(path)
    except ValueError as error:
        if str(error).startswith(str(path.parent)):
            raise
        raise InputError(f"{path} cannot be read: {error}.") from None
    except Exception as error:  # Whatever a damaged file leads to.
        raise InputError(f"{path} cannot be read: {error!r}.") from None


def _by_short_names(path, tensors):
    found = {}
    for name, tensor in tensors.items():
        dotted = name.replace("/", ".")
        if short := re.search(r"(?:^|\.)((?:encoder|decoder|shared|lm_head)\..*)", dotted):
            short = short[1]
        elif dotted.endswith("final_logits_bias"):
            short = "final_logits_bias"
        else:
            short = dotted
        if short in found:
            raise InputError(f"{path} has the tensor {short} twice.")
        found[short] = tensor
    return found


class _Lazy:
    """A tensor of a file, which is read when it becomes an array."""

    def __init__(self, shape: Sequence[int], dtype: Any, read: Callable[[], np.ndarray]) -> None:
        self.shape, self.dtype, self._read = tuple(shape), np.dtype(dtype), read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._read(), dtype)


def _read_safetensors(path: Path) -> dict[str, _Lazy]:
    file, tensors = safe_open(path, "numpy"), {}
    for name in file.keys():  # noqa: SIM118 - it is no dict
        tensor = file.get_slice(name)
        if tensor.get_dtype() not in _SAFETENSORS:
            raise InputError(f"{name} is of the dtype {tensor.get_dtype()}")
        read = functools.partial(file.get_tensor, name)
        tensors[name] = _Lazy(tensor.get_shape(), _SAFETENSORS[tensor.get_dtype()], read)
    return tensors


def _read_index(path: Path) -> dict[str, np.ndarray]:
    tensors = {}
    for name in sorted(set(_json(path)["weight_map"].values())):
        # A file name without a path: nothing outside the folder is read.
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(f"{name!r} is not the name of a shard")
        tensors.update(_reading(path.parent / name, _read_safetensors))
    return tensors


def _json(path):
    if path.stat().st_size > _MAX_HEADER:
        raise InputError("it is too large")
    return json.loads(path.read_text(encoding="utf-8"))


def _read_h5(path: Path) -> dict[str, _Lazy]:
    """The tensors by PyTorch's names, in its orientation."""
    file, tensors = h5py.File(path, "r"), {}

    def visit(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual or item.id.get_storage_size() < item.nbytes:
            raise InputError(f"{name} does not lie in the file as it is")
        place, _, last = name.removesuffix(":0").rpartition("/")
        kernel = last == "kernel"
        shape = item.shape[::-1] if kernel else item.shape
        name = f"{place}/{_KERAS_NAMES.get(last, last)}"
        tensors[name] = _Lazy(shape, item.dtype, lambda: item[()].T if kernel else item[()])

    file.visititems(visit)  # It follows no links.
    return tensors


def _read_torch(path: Path) -> Mapping[str, np.ndarray]:
    """The tensors of a file of `torch.save`: a zip archive, or the older stream format."""
    if not zipfile.is_zipfile(path):
        return _read_legacy_torch(path)
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
        if entries["data.pkl"].file_size > _MAX_HEADER:
            raise InputError("its pickle is longer than it can be")
        with archive.open(entries["data.pkl"]) as file:
            state = _Tensors(file).load()
    starts = {}
    with open(path, "rb") as file:
        for name, entry in entries.items():
            if name.startswith("data/"):
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise InputError(f"{name} is compressed")
                file.seek(entry.header_offset + 26)
                lengths = np.frombuffer(file.read(4), "<u2")
                starts[name.removeprefix("data/")] = entry.header_offset + 30 + int(lengths.sum())
    return _views(path, state, starts)


def _read_legacy_torch(path: Path) -> Mapping[str, np.ndarray]:
    with open(path, "rb") as file:
        if _Tensors(file).load() != _LEGACY:
            raise InputError("it was not written by torch.save")
        for _ in range(2):  # The protocol version, and the machine's sizes and byte order.
            _Tensors(file).load()
        state = _Tensors(file).load()
        keys = _Tensors(file).load()
        sizes = {
            tensor.key: np.dtype(tensor.dtype).itemsize
            for tensor in state.values()
            if isinstance(tensor, _Tensor)
        }
        start, starts = file.tell(), {}
        for key in keys:
            file.seek(start)
            starts[key] = start + 8
            start += 8 + int.from_bytes(file.read(8), "little") * sizes[key]
    return _views(path, state, starts)


def _views(path, state, starts):
    data, views = np.memmap(path, np.uint8, mode="r"), {}
    for name, tensor in state.items():
        if not isinstance(tensor, _Tensor):
            raise InputError(f"{name} is not a tensor")
        dtype, start = np.dtype(tensor.dtype), starts[tensor.key]
        numbers = [tensor.offset, *tensor.shape, *tensor.strides]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise InputError(f"{name} has an impossible shape")
        start += tensor.offset * dtype.itemsize
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
        size = (last + 1) * dtype.itemsize if math.prod(tensor.shape) else 0
        # A tensor with more elements than its bytes hold would repeat them.
        if start + size > len(data) or math.prod(tensor.shape) > last + 1:
            raise InputError(f"{name} lies outside of the file")
        views[name] = np.lib.stride_tricks.as_strided(
            data[start : start + size].view(dtype),
            tensor.shape,
            [s * dtype.itemsize for s in tensor.strides],
            writeable=False,
        )
    return views


# A tuple, since a pickle can change the attributes of an ordinary object.
_Tensor = collections.namedtuple("_Tensor", "dtype key offset shape strides")


class _Tensors(pickle.Unpickler):
    """Reads a pickle of tensors; any other function or class that it names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) not in known:
            raise InputError(f"it holds {module}.{name}, and not tensors alone")
        return known[module, name]

    def persistent_load(self, identity: Any) -> tuple[str, str]:
        _, storage, key, *_ = identity
        return storage, key


def _tensor(storage, offset, shape, strides, *_):
    storage, key = storage
    return _Tensor(_STORAGES[storage], key, offset, tuple(shape), tuple(strides))


_READERS = {
    "model.safetensors": _read_safetensors,
    "model.safetensors.index.json": _read_index,
    "pytorch_model.bin": _read_torch,
    "tf_model.h5": _read_h5,
}
