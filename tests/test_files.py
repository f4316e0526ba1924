import errno
import os

import pytest

from keras_mt.files import atomic_write, find_export, is_litert, new_folder, remove_leftovers


def test_what_was_written_replaces_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_link_leads_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "page")
    for text in ("first", "second"):
        with atomic_write(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "page").read_text() == text


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_hidden_files_and_folders_of_the_same_name_are_let_be(tmp_path):
    (tmp_path / ".notes").write_text("mine")
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "precious").write_text("mine")
    with atomic_write(tmp_path / "notes") as temporary:
        temporary.write_text("new")
    with atomic_write(tmp_path / "config") as temporary:
        temporary.mkdir()
        (temporary / "a").write_text("new")
    for name, text in (
        (".notes", "mine"), (".config/precious", "mine"), ("notes", "new"), ("config/a", "new"),
    ):  # fmt: skip
        assert (tmp_path / name).read_text() == text
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_written_has_ordinary_permissions(tmp_path):
    (tmp_path / "ordinary").touch()
    with atomic_write(tmp_path / "a.txt") as temporary:
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
    with atomic_write(tmp_path / "folder") as temporary:
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


KILLED = """
import os, signal, sys
from keras_mt.files import atomic_write
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_text("ne")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_write_left_is_removed_and_nothing_else(python, tmp_path):
    path, others = tmp_path / "a.txt", {".a.txt", ".other.a.txt.x1.partial"}
    assert python("-c", KILLED, path).returncode
    for name in others:
        (tmp_path / name).mkdir()
    assert len(list(tmp_path.iterdir())) == 3
    remove_leftovers(path)
    assert {left.name for left in tmp_path.iterdir()} == others


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", ".a.txt.x1.partial/a.txt"),
        RuntimeError(
            "{{function_node __wrapped__SaveV2}} ...; No space left on device [Op:SaveV2]"
        ),
        OSError("Unable to write (errno = 27, error message = 'File too large')"),
    ],
)
def test_a_full_disk_is_said_with_the_path(error, tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device|File too large") as raised,
        atomic_write(tmp_path / "new" / "a.txt"),
    ):
        raise error
    assert raised.value.filename == str(tmp_path / "new" / "a.txt")
    assert "function_node" not in str(raised.value)
    assert not list((tmp_path / "new").iterdir())


def test_a_version_is_a_number_of_ascii_digits(tmp_path):
    for name in ("2", "10", "²", "٣٣", "-3", "x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    assert find_export(tmp_path).name == "10"
    for name in ("2", "10"):
        (tmp_path / name / "saved_model.pb").unlink()
    assert find_export(tmp_path) is None


def test_an_export_is_for_litert_only_if_it_is_no_saved_model(tmp_path):
    (tmp_path / "model_card.json").touch()
    assert find_export(tmp_path) == tmp_path and is_litert(tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    assert find_export(tmp_path) == tmp_path / "1" and not is_litert(tmp_path)
