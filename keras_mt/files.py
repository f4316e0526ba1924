"""Atomic writes: files that appear whole or not at all, even after a power loss."""

import contextlib
import errno
import fcntl
import glob
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from keras_mt.errors import InputError

_SUFFIX = ".partial"  # Of the temporary folder of an atomic write.
# The files of a LiteRT export that tell it from other folders; a SavedModel has a card too.
LITERT_MODEL, MODEL_CARD = "model.tflite", "model_card.json"


class DiskError(OSError):
    """A disk that is full, or a file that may not grow; it names the path."""


def check_new(path: str | os.PathLike) -> None:
    """Raises FileExistsError if the path exists, so that nothing is overwritten."""
    if Path(path).exists():
        raise FileExistsError(f"{path} exists and is not overwritten: give a new name.")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path, which is synced and moved to `path` at the end of a `with` block.

    Parent folders that are missing are made. A full disk is a DiskError, whatever writes.
    """
    path = Path(path).resolve()  # What a link leads to is written, not the link.
    path.parent.mkdir(parents=True, exist_ok=True)
    name = {"prefix": f".{path.name}.", "suffix": _SUFFIX, "dir": path.parent}
    with disk_errors(path), TemporaryDirectory(**name, ignore_cleanup_errors=True) as folder:
        # The path's name: some writers look at its extension.
        temporary = Path(folder, path.name)
        yield temporary
        for written in [*temporary.rglob("*"), temporary]:
            _sync(written)
        os.replace(temporary, path)
    _sync(path.parent)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """As `atomic_write`, for a folder, which is made."""
    with atomic_write(path) as temporary:
        temporary.mkdir()
        yield temporary


@contextlib.contextmanager
def disk_errors(path: str | os.PathLike) -> Iterator[None]:
    """Raises DiskError with the path, where a library may have an exception of its own."""
    try:
        yield
    except DiskError:
        raise
    except Exception as error:
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(number).lower() in str(error).lower():
                raise DiskError(number, os.strerror(number), str(path)) from error
        raise


@contextlib.contextmanager
def owned(path: Path, use: str) -> Iterator[None]:
    """Locks a file within a `with` block; InputError, beginning with `use`, if another process has.

    The file, which is made and removed again, names the process. The lock ends with the process;
    where the file system has no locks, there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not (path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
                raise BlockingIOError  # Its owner has just removed it.
        except BlockingIOError:
            file.seek(0)
            raise InputError(
                f"{use} by {file.read() or 'another process'}: wait until that has ended, or give "
                "another output folder."
            ) from None
        except OSError:
            pass
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def remove_leftovers(*paths: Path) -> None:
    """Removes what killed writes to paths have left; nobody may be writing these now."""
    for path in paths:
        # tempfile has eight characters there; a longer name, of `a.b` beside `a`, is another's.
        for folder in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 8}{_SUFFIX}"):
            shutil.rmtree(folder, ignore_errors=True)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def version_number(name: str) -> int | None:
    """The number of a version folder, as TensorFlow Serving reads it; None for other names.

    >>> version_number("12"), version_number("²"), version_number("new")
    (12, None, None)
    """
    return int(name) if name.isascii() and name.isdigit() else None


def is_litert(directory: str | os.PathLike) -> bool:
    """True for a folder of a LiteRT export, even if a file is missing."""
    found = find_export(directory)
    return found is not None and not (found / "saved_model.pb").is_file()


def find_export(directory: str | os.PathLike) -> Path | None:
    """The folder of an export: of LiteRT, or of a SavedModel's version; None if there is none.

    In a model's folder, it is that of the newest version.
    """
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    found = [file.parent for file in directory.glob("*/saved_model.pb")]
    versions = {version_number(version.name): version for version in found}
    if numbers := versions.keys() - {None}:
        return versions[max(numbers)]
    names = LITERT_MODEL, MODEL_CARD
    return directory if any((directory / name).is_file() for name in names) else None


def is_run(directory: str | os.PathLike) -> bool:
    """True for a folder that holds a run, finished or not."""
    return any(Path(directory, name).is_file() for name in ("config.json", "model.keras"))
