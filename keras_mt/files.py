"""Atomic writes: files that appear whole or not at all, even after a power loss."""

import contextlib
import errno
import fcntl
import glob
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# A temporary folder of an atomic write ends so, and holds this file, locked by its process.
_SUFFIX, _LOCK = ".partial", ".lock"
# The error numbers of a full disk.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_new(path: str | os.PathLike) -> None:
    """Raises FileExistsError if the path exists, so that nothing is overwritten."""
    path = Path(path)
    if path.exists():
        numbers = [version_number(other.name) or 0 for other in path.parent.iterdir()]
        is_version = version_number(path.name) is not None
        hint = f", such as {path.parent / str(max(numbers) + 1)}" if is_version else ""
        raise FileExistsError(f"{path} exists and is not overwritten: give a new name{hint}.")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path, which is synced and moved to `path` at the end of a `with` block.

    Parent folders that are missing are made, and removed again if the write fails. A full disk
    is an OSError that names the path, whatever writes to it.
    """
    path = Path(path).resolve()  # What a link leads to is written, not the link.
    with disk_errors(path), parents_of(path):
        _remove_leftovers(path)
        with (
            tempfile.TemporaryDirectory(
                prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent, ignore_cleanup_errors=True
            ) as folder,
            # Under another name until it is locked: an unlocked one is a dead process's.
            locked(new := Path(folder, f"{_LOCK}.new")) as is_locked,
        ):
            if is_locked:
                new.rename(Path(folder, _LOCK))
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
    """Raises OSError with the path where a library has its own exception for a full disk."""
    try:
        yield
    except Exception as error:
        for number in DISK_ERRORS:
            if os.strerror(number).lower() in str(error).lower():
                raise OSError(number, os.strerror(number), str(path)) from error
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Locks a file, which is made if missing; BlockingIOError if another process has locked it.

    The lock ends with the process. Yields False, unlocked, where the file system has no locks.
    """
    while True:
        with open(path, "a") as file:
            is_locked = is_there = True
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its owner may have removed the file meanwhile, and with it the lock.
                is_there = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                is_there = False
            except BlockingIOError:
                raise
            except OSError:
                is_locked = False
            if is_there:
                yield is_locked
                return


@contextlib.contextmanager
def owned(path: Path, use: str) -> Iterator[None]:
    """Makes the folder of a lock file; InputError, beginning with `use`, if another has locked it.

    The file names the process; a folder that stays empty on an error is removed.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(parents_of(path))
        try:
            stack.enter_context(locked(path))
        except (BlockingIOError, FileNotFoundError):  # The latter: it has just removed the folder.
            from keras_mt.errors import InputError  # Nothing else here needs the package.

            owner = "another process"
            with contextlib.suppress(OSError):
                owner = path.read_text(encoding="utf-8") or owner
            raise InputError(
                f"{use} by {owner}: wait until that has ended, or give another output folder."
            ) from None
        stack.callback(path.unlink, missing_ok=True)
        path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield


def leftovers(path: Path) -> Iterator[Path]:
    """The temporary folders of writes to a path that go on, or that a kill has ended."""
    return path.parent.glob(f".{glob.escape(path.name)}.*{_SUFFIX}")


def _remove_leftovers(path):
    """Removes what processes that were killed left of their writes to a path."""
    for lock in (folder / _LOCK for folder in leftovers(path)):
        with contextlib.suppress(OSError):
            if lock.exists():
                with locked(lock) as is_locked:
                    if is_locked:
                        shutil.rmtree(lock.parent, ignore_errors=True)


@contextlib.contextmanager
def parents_of(path: Path) -> Iterator[None]:
    """Makes the folders above a path; removes those that it made, if they stay empty, on error."""
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise


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


def find_saved_model(directory: str | os.PathLike) -> Path | None:
    """The SavedModel of a version folder, or of the newest version in a model's folder, or None."""
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    found = [file.parent for file in directory.glob("*/saved_model.pb")]
    versions = {version_number(version.name): version for version in found}
    return versions[max(numbers)] if (numbers := versions.keys() - {None}) else None


def is_run(directory: str | os.PathLike) -> bool:
    """True for a folder that holds a run, finished or not."""
    return any(Path(directory, name).is_file() for name in ("config.json", "model.keras"))
