"""Weights of files and of models: no code in a file is run, and its tensors are views of it."""

import collections
import contextlib
import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from keras_mt.errors import InputError
from keras_mt.models import Transformer, ensure_built

_SAFETENSORS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
}
# What stands before the names that weights have in transformers' own folders.
_PREFIX = re.compile(r"^(?:.*?\.)??((?:encoder|decoder|shared|lm_head)\.|final_logits_bias$)")
# Tensors that are computed here, and one of T5's that has no effect.
_NOT_READ = re.compile(
    r"(en|de)coder\.(embed_positions|.*EncDecAttention\.relative_attention_bias)\."
)


class Weights(dict[str, np.ndarray]):
    """The tensors of a file by name."""

    def __init__(self, path: Path, tensors: Mapping[str, np.ndarray]) -> None:
        super().__init__(tensors)
        self.path = path

    def first(self, names: Sequence[str]) -> tuple[str, np.ndarray]:
        """The name of the first tensor that there is, and the tensor."""
        for name in names:
            if name in self:
                return name, self[name]
        raise InputError(f"{self.path}: the weights have no {names[0]}.")

    def of_shape(
        self, shape: Sequence[int], names: Sequence[str], transposed: bool = False
    ) -> tuple[str, np.ndarray]:
        """As `first`, transposed if it is so in the file; refused if it has another shape."""
        name, values = self.first(names)
        expected = (*shape,)[:: -1 if transposed else 1]
        if values.shape not in (expected, (1, *expected)):
            raise InputError(
                f"{self.path}: {name} must have the shape {expected}, to agree with the "
                f"configuration. It has the shape {values.shape}."
            )
        return name, values.T if transposed else values

    def dtype(self) -> str:
        """The dtype of the matrices if it is half precision; else float32."""
        dtypes = {str(x.dtype) for x in self.values() if x.shape[1:]}
        return dtypes.pop() if dtypes in ({"float16"}, {"bfloat16"}) else "float32"

    def transformer(
        self,
        arguments: Mapping[str, Any],
        names_of: Callable[[str], tuple[Sequence[str], bool]],
        dtype: str,
    ) -> Transformer:
        """The model of these arguments with these weights, all of which must be understood.

        `names_of` a variable's path are the names that its tensor may have here, of which the first
        that there is counts, and whether it is transposed.
        """
        self._check_sizes(arguments, names_of)
        try:
            model = ensure_built(Transformer(**arguments, dtype=dtype))
        except ValueError as error:
            raise InputError(f"{self.path} is of no model that can be: {error}") from None
        unknown = {*self}
        for variable in model.weights:
            names, transposed = names_of(variable.path)
            _, values = self.of_shape(variable.shape, names, transposed)
            unknown.difference_update(names)
            variable.assign(values.reshape(variable.shape))
        if unknown:
            raise InputError(f"{self.path} has weights that are not understood: {min(unknown)}.")
        return model

    def _check_sizes(self, arguments, names_of):
        """Refuses a model of other sizes than the weights, which could be of any, unbuilt."""
        width, sizes = arguments["d_model"], {}
        for side, embedding in (("encoder", "source"), ("decoder", "target")):
            rows = arguments["vocab_size" if side == "encoder" else "target_vocab_size"]
            sizes[f"{embedding}_embedding/embedding/embeddings"] = rows, width
            last = arguments[f"num_{side}_layers"] - 1
            inner = arguments[f"{side}_d_ff"], width
            sizes[f"{side}_{last}/feed_forward/output/kernel"] = inner
        for path, shape in sizes.items():
            self.of_shape(shape, *names_of(path))


def renamed(path: str, names: Mapping[str, str | Callable[[re.Match], str]]) -> str:
    """A name with each of these patterns replaced, one after the other."""
    for pattern, replacement in names.items():
        path = re.sub(pattern, replacement, path)
    return path


@contextlib.contextmanager
def naming_damaged_file(path: Path) -> Iterator[None]:
    """Makes any error that a damaged file leads to an InputError that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read: {str(error) or repr(error)}.") from None


def read_weights(directory: Path) -> Weights:
    """The tensors of a folder's first known file of weights, by names without prefixes."""
    for name, read in _READERS.items():
        path = directory / name
        if path.is_file():
            with naming_damaged_file(path):
                tensors = read(path)
            tensors = {_PREFIX.sub(r"\1", name): x for name, x in tensors.items()}
            return Weights(path, {n: x for n, x in tensors.items() if not _NOT_READ.match(n)})
    raise FileNotFoundError(
        f"{directory} has no weights that can be read: none of {', '.join(_READERS)}. If there is "
        "tf_model.h5 alone, convert it with transformers 4 and TensorFlow: AutoModelForSeq2SeqLM."
        "from_pretrained(FOLDER, from_tf=True).save_pretrained(FOLDER)."
    )


def _read_safetensors(path):
    """The tensors of a file: the length of its header, the header in JSON, and the data."""
    data = np.memmap(path, np.uint8, mode="r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header, tensors = json.loads(data[8:start].tobytes()), {}
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in _SAFETENSORS:
            raise ValueError(f"{name} is of the dtype {entry['dtype']}")
        stored = np.asarray(data[start:][slice(*entry["data_offsets"])])
        tensors[name] = stored.view(_SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def _read_index(path):
    tensors = {}
    for name in sorted({*json.loads(path.read_bytes())["weight_map"].values()}):
        # A file name without a path: nothing outside the folder is read.
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{name!r} is not the name of a shard")
        with naming_damaged_file(path.parent / name):
            tensors |= _read_safetensors(path.parent / name)
    return tensors


def _read_torch(path):
    """The tensors of a file of `torch.save`: a zip archive, or the older stream format."""
    starts = {}  # Of the storages in the file, by their keys.
    with open(path, "rb") as file:
        if zipfile.is_zipfile(path):
            archive = zipfile.ZipFile(file)
            entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
            for name, entry in entries.items():
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(f"{name} is compressed")
                file.seek(entry.header_offset + 26)
                lengths = np.frombuffer(file.read(4), "<u2")
                starts[name.removeprefix("data/")] = entry.header_offset + 30 + int(lengths.sum())
            state = _Unpickler(archive.open(entries["data.pkl"])).load()
        else:
            # The magic number, the version, the machine; the tensors, the keys of their storages.
            _, _, _, state, keys = (_Unpickler(file).load() for _ in range(5))
            sizes = {x.key: np.dtype(_STORAGES[x.storage]).itemsize for x in state.values()}
            for key in keys:
                size = int.from_bytes(file.read(8), "little") * sizes[key]
                starts[key] = file.tell()
                file.seek(size, os.SEEK_CUR)
    data = np.memmap(path, np.uint8, mode="r")
    return {name: _view(data, starts[tensor.key], tensor) for name, tensor in state.items()}


def _view(data, start, tensor):
    """A tensor in the file; NumPy refuses what lies outside of the file."""
    dtype = np.dtype(_STORAGES[tensor.storage])  # Never another one, such as that of objects.
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    view = np.ndarray(tensor.shape, dtype, data, start + tensor.offset * dtype.itemsize, strides)
    if view.nbytes > data.nbytes:
        raise ValueError("it has more elements than bytes")
    return view


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
            raise ValueError(f"it holds {module}.{name}, and not tensors alone")
        return known[f"{module}.{name}"]

    def persistent_load(self, identity: Any) -> tuple[str, str]:
        _, storage, key, *_ = identity
        return storage, key


_READERS = {
    "model.safetensors": _read_safetensors,
    "model.safetensors.index.json": _read_index,
    "pytorch_model.bin": _read_torch,
}
