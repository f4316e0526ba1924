"""Weights of files and of models: no code in a file is run, and tensors are read lazily."""

import collections
import fnmatch
import functools
import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
from safetensors import safe_open

from keras_mt.errors import InputError

_MAX_INDEX = 2**26  # Bytes.
_NONE = re.compile("")  # No name matches.
_SAFETENSORS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
}


class Weights(dict[str, Any]):
    """The tensors of a file by name: they have `shape` and `dtype`, and `np.asarray` reads them."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        super().__init__(tensors)
        self.path = path

    def first(self, names: Sequence[str]) -> tuple[str, Any]:
        """The name of the first tensor that there is, and the tensor."""
        for name in names:
            if name in self:
                return name, self[name]
        raise InputError(f"{self.path}: the weights have no {names[0]}.")

    def matrix_shape(self, names: Sequence[str], columns: int | None = None) -> tuple[int, int]:
        """The shape of the first tensor that there is, a matrix of so many columns if given."""
        name, tensor = self.first(names)
        if len(tensor.shape) != 2 or columns not in (None, tensor.shape[1]):
            expected = "a matrix" if columns is None else f"a matrix of {columns} columns"
            raise InputError(
                f"{self.path}: {name} must be {expected}. It has the shape {tensor.shape}."
            )
        return tuple(tensor.shape)

    def layers(self, pattern: str, columns: int) -> tuple[int, int]:
        """The number of matrices whose names match, one of each layer, and the rows of each."""
        names = [name for name in self if fnmatch.fnmatchcase(name, pattern)]
        rows = {self.matrix_shape([name], columns)[0] for name in names}
        if len(rows) != 1:
            raise InputError(
                f"{self.path} must have {pattern} of one size in all layers. "
                f"It has the rows {sorted(rows)}."
            )
        return len(names), rows.pop()

    def dtype(self, spare: re.Pattern = _NONE) -> str:
        """The dtype of the matrices that are not spare if it is half precision; else float32."""
        used = [x for name, x in self.items() if x.shape[1:] and not spare.fullmatch(name)]
        dtypes = {str(x.dtype) for x in used}
        return dtypes.pop() if dtypes in ({"float16"}, {"bfloat16"}) else "float32"

    def fill(
        self,
        model: keras.Model,
        names_of: Callable[[str], tuple[Sequence[str], bool]],
        spare: re.Pattern = _NONE,
    ) -> None:
        """Gives a model these weights; all must be used but the spare ones.

        `names_of` a variable's path are the names that its tensor may have here, of which the first
        that there is counts, and whether it is transposed.
        """
        used = set()
        for variable in model.variables:
            if "seed_generator" in variable.path:
                continue
            names, transposed = names_of(variable.path)
            name, values = self.first(names)
            used.add(name)
            shape = tuple(variable.shape)[:: -1 if transposed else 1]
            if tuple(values.shape) not in (shape, (1, *shape)):
                raise InputError(
                    f"{self.path}: {name} must have the shape {shape}, to agree with the "
                    f"configuration. It has the shape {tuple(values.shape)}."
                )
            values = np.asarray(values)
            variable.assign((values.T if transposed else values).reshape(variable.shape))
        if unknown := sorted(n for n in self if n not in used and not spare.fullmatch(n)):
            raise InputError(f"{self.path} has weights that are not understood: {unknown[0]}.")


def renamed(path: str, names: Mapping[str, str | Callable[[re.Match], str]]) -> str:
    """A name with each of these patterns replaced, one after the other."""
    for pattern, replacement in names.items():
        path = re.sub(pattern, replacement, path)
    return path


def read_weights(directory: Path) -> Weights:
    """The tensors of a folder's first known file of weights, by names without prefixes."""
    for name, read in _READERS.items():
        path = directory / name
        if path.is_file():
            return Weights(path, _by_short_names(path, _reading(path, read)))
    raise FileNotFoundError(
        f"{directory} has no weights that can be read: none of {', '.join(_READERS)}. If there is "
        "tf_model.h5 alone, convert it with transformers 4 and TensorFlow: AutoModelForSeq2SeqLM."
        "from_pretrained(FOLDER, from_tf=True).save_pretrained(FOLDER)."
    )


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
    renamed = {}
    outer = re.compile(r"(?:.*?\.)??((?:encoder|decoder|shared|lm_head)\..*|final_logits_bias)")
    for long_name, tensor in tensors.items():
        match = outer.fullmatch(long_name)
        name = match[1] if match else long_name
        if name in renamed:
            raise InputError(f"{path} has the tensor {name} twice.")
        renamed[name] = tensor
    return renamed


class Lazy:
    """A tensor of a file, which is read when it becomes an array."""

    def __init__(self, shape: Sequence[int], dtype: Any, read: Callable[[], np.ndarray]) -> None:
        self.shape, self.dtype, self._read = tuple(shape), np.dtype(dtype), read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._read(), dtype)


def _read_safetensors(path: Path) -> dict[str, Lazy]:
    file, tensors = safe_open(path, "numpy"), {}
    for name in file.keys():  # noqa: SIM118 - it is no dict
        tensor = file.get_slice(name)
        if (dtype := _SAFETENSORS.get(tensor.get_dtype())) is None:
            raise InputError(f"{name} is of the dtype {tensor.get_dtype()}")
        read = functools.partial(file.get_tensor, name)
        tensors[name] = Lazy(tensor.get_shape(), dtype, read)
    return tensors


def _read_index(path: Path) -> dict[str, Lazy]:
    if path.stat().st_size > _MAX_INDEX:
        raise InputError("it is too large")
    tensors = {}
    for name in sorted(set(json.loads(path.read_bytes())["weight_map"].values())):
        # A file name without a path: nothing outside the folder is read.
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(f"{name!r} is not the name of a shard")
        tensors.update(_reading(path.parent / name, _read_safetensors))
    return tensors


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file of `torch.save`: a zip archive, or the older stream format."""
    starts = {}  # Of the storages in the file, by their keys.
    with open(path, "rb") as file:
        if zipfile.is_zipfile(path):
            archive = zipfile.ZipFile(file)
            entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
            for name, entry in entries.items():
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise InputError(f"{name} is compressed")
                file.seek(entry.header_offset + 26)
                lengths = np.frombuffer(file.read(4), "<u2")
                starts[name.removeprefix("data/")] = entry.header_offset + 30 + int(lengths.sum())
            state = _Unpickler(archive.open(entries["data.pkl"])).load()
        else:
            # The magic number, the version, the machine; the tensors, the keys of their storages.
            _, _, _, state, keys = (_Unpickler(file).load() for _ in range(5))
            sizes = {tensor.key: _dtype(tensor).itemsize for tensor in state.values()}
            for key in keys:
                size = int.from_bytes(file.read(8), "little") * sizes[key]
                starts[key] = file.tell()
                file.seek(size, os.SEEK_CUR)
    data = np.memmap(path, np.uint8, mode="r")
    return {name: _view(data, starts[tensor.key], tensor) for name, tensor in state.items()}


def _view(data, start, tensor):
    """A tensor in the file; NumPy refuses what lies outside of the file."""
    dtype = _dtype(tensor)
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    view = np.ndarray(tensor.shape, dtype, data, start + tensor.offset * dtype.itemsize, strides)
    if view.nbytes > data.nbytes:
        raise InputError("it has more elements than bytes")
    return view


def _dtype(tensor):
    if not isinstance(tensor, _Tensor):
        raise InputError("it does not hold tensors alone")
    return np.dtype(_STORAGES[tensor.storage])  # Never another one, such as that of objects.


# A tuple, since a pickle can change the attributes of an ordinary object.
_Tensor = collections.namedtuple("_Tensor", "storage key offset shape strides")


class _Unpickler(pickle.Unpickler):
    """Reads a pickle of tensors; any other function or class that it names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            "collections.OrderedDict": collections.OrderedDict,
            "torch._utils._rebuild_tensor_v2": lambda storage, *rest: _Tensor(*storage, *rest[:3]),
            "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
            **{f"torch.{storage}": storage for storage in _STORAGES},
        }
        if f"{module}.{name}" not in known:
            raise InputError(f"it holds {module}.{name}, and not tensors alone")
        return known[f"{module}.{name}"]

    def persistent_load(self, identity: Any) -> tuple[str, str]:
        _, storage, key, *_ = identity
        return storage, key


_READERS = {
    "model.safetensors": _read_safetensors,
    "model.safetensors.index.json": _read_index,
    "pytorch_model.bin": _read_torch,
}
