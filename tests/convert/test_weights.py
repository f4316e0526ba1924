"""Files of weights that are not what they say are refused, and nothing in them is run."""

import json
import os
import pickle
import sys
import types
import zipfile

import numpy as np
import pytest

from keras_mt.convert.weights import read_weights


def write_safetensors(path, header, data=b""):
    header = json.dumps(header).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def test_tensors_are_read_by_their_names(tmp_path):
    values = np.arange(6, dtype="float16").reshape(2, 3)
    entry = {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}
    header = {"__metadata__": {"format": "pt"}, "model.encoder.layers.0.fc1.weight": entry}
    write_safetensors(tmp_path / "model.safetensors", header, values.tobytes())
    tensors = read_weights(tmp_path)
    assert list(tensors) == ["encoder.layers.0.fc1.weight"]
    np.testing.assert_array_equal(tensors["encoder.layers.0.fc1.weight"], values)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-1, 0], "data_offsets": [0, 8]},
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "ab", "data_offsets": [0, 8]},
        {"shape": [2]},
        [],
    ],
)
def test_sizes_that_are_not_so_are_refused(tmp_path, entry):
    write_safetensors(tmp_path / "model.safetensors", {"shared.weight": entry}, bytes(8))
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        read_weights(tmp_path)


@pytest.mark.parametrize("data", [b"", b"12", (2**60).to_bytes(8, "little"), bytes(20)])
def test_a_damaged_file_is_refused(tmp_path, data):
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/x.safetensors", "x/../../y.safetensors", "a.bin", 7]
)
def test_a_shard_is_a_name_and_no_path(tmp_path, name):
    index = {"weight_map": {"shared.weight": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"index\.json cannot be read"):
        read_weights(tmp_path)


class _Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("archived", [True, False])
@pytest.mark.parametrize("function", [os.mkdir, getattr, np.ndarray])
def test_a_pickle_that_runs_something_is_refused(tmp_path, monkeypatch, archived, function):
    monkeypatch.chdir(tmp_path)
    arguments = ("made",) if function is os.mkdir else ("x", "y")
    data = pickle.dumps({"shared.weight": _Runs(function, *arguments)})
    path = tmp_path / "pytorch_model.bin"
    if archived:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", data)
    else:
        path.write_bytes(data)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read"):
        read_weights(tmp_path)
    assert not (tmp_path / "made").exists()


def rebuild(*arguments):
    """In the place of torch's function of this name."""


@pytest.fixture
def write_torch(tmp_path, monkeypatch):
    """A function that writes two floats as torch does, with a tensor of these arguments."""
    module = types.SimpleNamespace(_rebuild_tensor_v2=rebuild)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_utils=module))
    monkeypatch.setitem(sys.modules, "torch._utils", module)
    monkeypatch.setattr(rebuild, "__module__", "torch._utils")
    monkeypatch.setattr(rebuild, "__qualname__", "_rebuild_tensor_v2")

    def write(*arguments):
        with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
            state = {"shared.weight": _Runs(rebuild, *arguments)}
            archive.writestr("archive/data.pkl", pickle.dumps(state))
            archive.writestr("archive/data/0", np.array([1, 2], "float32").tobytes())

    return write


def test_a_torch_tensor_is_read_by_its_offset_and_strides(tmp_path, write_torch):
    write_torch(("FloatStorage", "0"), 0, (2, 1), (1, 2))
    assert np.asarray(read_weights(tmp_path)["shared.weight"]).tolist() == [[1], [2]]
    write_torch(("FloatStorage", "0"), 1, (1,), (1,))
    assert np.asarray(read_weights(tmp_path)["shared.weight"]).tolist() == [2]


@pytest.mark.parametrize(
    ("storage", "offset", "shape", "strides"),
    [
        ("FloatStorage", 0, (10**6,), (1,)),
        ("FloatStorage", 10**6, (1,), (1,)),
        ("FloatStorage", -(10**6), (1,), (1,)),
        ("FloatStorage", 0, (2,), (-(10**6),)),
        ("FloatStorage", 0, (10**6,), (0,)),
        ("FloatStorage", 0, (1.5,), (1,)),
        ("O", 0, (1,), (1,)),
    ],
)
def test_a_torch_tensor_outside_of_its_file_is_refused(
    tmp_path, write_torch, storage, offset, shape, strides
):
    write_torch((storage, "0"), offset, shape, strides)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read"):
        read_weights(tmp_path)
