import os

import pytest

from keras_mt.files import new_folder, written_whole


def test_what_was_written_replaces_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with written_whole(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_link_leads_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "page")
    for text in ("first", "second"):
        with written_whole(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "page").read_text() == text


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), written_whole(path) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_hidden_files_and_folders_of_the_same_name_are_let_be(tmp_path):
    (tmp_path / ".notes").write_text("mine")
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "precious").write_text("mine")
    with written_whole(tmp_path / "notes") as temporary:
        temporary.write_text("new")
    with written_whole(tmp_path / "config") as temporary:
        temporary.mkdir()
        (temporary / "a").write_text("new")
    for name, text in (
        (".notes", "mine"), (".config/precious", "mine"), ("notes", "new"), ("config/a", "new"),
    ):  # fmt: skip
        assert (tmp_path / name).read_text() == text
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_written_has_ordinary_permissions(tmp_path):
    (tmp_path / "ordinary").touch()
    with written_whole(tmp_path / "a.txt") as temporary:
        temporary.touch()
    assert os.stat(tmp_path / "a.txt").st_mode == os.stat(tmp_path / "ordinary").st_mode


def test_all_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []

    def fsync(descriptor):
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def replace(source, target):
        done.append("replaced")
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with written_whole(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "a").write_text("a")
    names = [name.removeprefix(str(temporary)) for name in done]
    assert names == ["/a", "", "replaced", str(tmp_path)]


def test_a_new_folder_appears_whole_with_its_parents(tmp_path):
    path = tmp_path / "a" / "b" / "c"
    with new_folder(path) as folder:
        (folder / "file").write_text("new")
        assert not path.exists()
    assert [file.name for file in path.parent.iterdir()] == ["c"]
    assert (path / "file").read_text() == "new"
    with pytest.raises(RuntimeError), new_folder(tmp_path / "d"):
        raise RuntimeError
    assert not (tmp_path / "d").exists()
