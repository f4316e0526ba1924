"""Files of weights that are not what they say are refused, and nothing in them is run."""

import json
import os
import pickle
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
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**40]},
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
