import pytest

from keras_mt.files import written_whole


def test_what_was_written_replaces_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with written_whole(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), written_whole(path) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
