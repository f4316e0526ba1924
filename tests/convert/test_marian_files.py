"""Marian's files that are not what they say are refused by name, and take no memory."""

import tracemalloc
import zipfile

import numpy as np
import pytest
import yaml  # noqa: F401 - its memory is not the files'
from hypothesis import given
from hypothesis import strategies as st
from marian_models import write_npz

from keras_mt.convert.marian_files import parse_yaml, read_marian, write_bin
from keras_mt.convert.marian_reader import read_vocabulary

TENSORS = {
    "Wemb": np.arange(12, dtype="float32").reshape(4, 3),
    "encoder_l1_ffn_W1": np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5),
    "encoder_l1_ffn_b1": np.ones((1, 5), "float32"),
}
FORMATS = {
    "npz": write_npz,
    "bin": write_bin,
    "int8": lambda *arguments: write_bin(*arguments, int8=True),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    contents = {}
    for name, write in FORMATS.items():
        path = folder / f"model.{name[:3]}"
        write(path, TENSORS, "type: transformer\n")
        contents[name] = path.read_bytes()
    return contents


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read(name, files, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(files[name])
    tensors, fields = read_marian(path)
    assert fields == {"type": "transformer"} and tensors.keys() == TENSORS.keys()
    for key, values in TENSORS.items():
        exact = name != "int8" or min(values.shape) == 1
        atol = 0 if exact else np.abs(values).max() / 254 + 1e-6
        np.testing.assert_allclose(tensors[key], values, atol=atol)


def outcome(path, data):
    """Reads a file; "read", or the error. It may take no more than twice the file's size."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        tensors, _ = read_marian(path)
        for values in tensors.values():
            np.asarray(values)
        found = "read"
    except ValueError as error:
        found = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data) + 2**21, peak  # What Python itself takes.
    return found


@given(
    name=st.sampled_from(sorted(FORMATS)),
    cut=st.none() | st.integers(0, 2000),
    changes=st.lists(
        st.tuples(
            st.integers(0, 1500),
            st.sampled_from([b"\0", b"\xff", b"\xff" * 8, b"\x7f" * 4, b"\1", b"\0" * 8, b"\x80"]),
        ),
        max_size=3,
    ),
)
def test_damaged_files_are_read_or_refused_by_name(name, cut, changes, files, tmp_path_factory):
    data = bytearray(files[name])
    for place, new in changes:
        data[place : place + len(new)] = new[: max(len(data) - place, 0)]
    path = tmp_path_factory.mktemp("damaged") / "model"
    found = outcome(path, bytes(data[:cut]))
    assert found == "read" or str(path) in found


def header(**changes):
    """The header of a `.bin` file of one tensor, W, of 2 x 2 float32."""
    values = {"version": 1, "count": 1, "name": 2, "type": 0x404, "rank": 2, "length": 16}
    values |= {"shape": (2, 2), "offset": 0} | changes
    numbers = [values[n] for n in ("version", "count", "name", "type", "rank", "length")]
    return (
        np.array(numbers, "<u8").tobytes() + b"W\0" + np.array(values["shape"], "<i4").tobytes()
        + np.array([values["offset"]], "<u8").tobytes() + bytes(16)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"version": 2}, "its version is 2"),
        ({"count": 2**62}, "cannot be read"),
        ({"count": 2**16}, "cannot be read"),
        ({"name": 2**40}, "cannot be read"),
        ({"rank": 2**40}, "cannot be read"),
        ({"length": 2**63}, "cannot be read"),
        ({"length": 8}, "cannot be read"),
        ({"shape": (-2, -2)}, "cannot be read"),
        ({"shape": (2**31 - 1, 2**31 - 1)}, "cannot be read"),
        ({"offset": 2**63}, "cannot be read"),
        ({"type": 0x1}, "W is of the type 0x1"),
        ({"type": 0x4101, "shape": (4, 4)}, "cannot be read"),
        ({}, "has no special:model.yml"),
    ],
)
def test_numbers_that_cannot_be_are_refused(changes, match, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(header(**changes))
    with pytest.raises(ValueError, match=match) as error:
        read_marian(path)
    assert str(path) in str(error.value)


def npy(header):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(16)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999,)}"), "cannot be read"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}"), "cannot be read"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"), "allow_pickle=False"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}"), "malformed"),
        (b"no array", "W is not a tensor of numbers"),
    ],
)
def test_arrays_that_cannot_be_are_refused(data, match, tmp_path):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W.npy", data)
    with pytest.raises(ValueError, match=match) as error:
        read_marian(path)
    assert str(path) in str(error.value)


def test_compressed_arrays_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    np.savez_compressed(path, W=np.zeros((999, 999)))
    with pytest.raises(ValueError, match="it is compressed"):
        read_marian(path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a: 0\na: 1\n", "each piece its id, from 0 on"),
        ("a: 0\nb: 2\n", "each piece its id, from 0 on"),
        ("a: 0\n", "with <unk> and </s>"),
        ("a: -1\n", "each piece its id, from 0 on"),
        ("a: 1.5\n", "each piece its id, from 0 on"),
        ("a: [1]\n", "each piece its id"),
        ("a: {b: 1}\n", "each piece its id"),
        ("- a\n", "must hold fields"),
        ("a\n", "must hold fields"),
        ("a: &x 1\nb: *x\n", "without aliases"),
        ("a: 'b\n", "is not YAML"),
        ("a: !!python/object/apply:os.system [ls]\n", "each piece its id"),
    ],
)
def test_vocabularies_that_are_none_are_refused(text, match, tmp_path):
    path = tmp_path / "vocab.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=match) as error:
        read_vocabulary(path)
    assert str(path) in str(error.value)


def test_every_piece_of_a_vocabulary_is_a_string(tmp_path):
    path = tmp_path / "vocab.yml"
    path.write_text('"</s>": 0\n<unk>: 1\n1.5: 2\nyes: 3\n"▁\\"": 4\n')
    assert read_vocabulary(path) == ["</s>", "<unk>", "1.5", "yes", '▁"']


@given(st.binary(max_size=60) | st.text("{}[]:-&*!?|>'\"% \n\tab0~<=.", max_size=60))
def test_any_text_is_fields_or_is_refused(text):
    text = text.encode() if isinstance(text, str) else text
    try:
        assert isinstance(parse_yaml(text, "here"), dict)
    except ValueError as error:
        assert str(error).startswith("here")
