"""Atomic writes: files that appear whole or not at all, even after a power loss."""

import contextlib
import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# A temporary folder of an atomic write ends so, and holds this file, locked by its process.
_SUFFIX, _LOCK = ".partial", ".lock"
# What a full disk is, by its number.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_new(path: str | os.PathLike) -> None:
    """Raises FileExistsError if the path exists, so that nothing is overwritten."""
    path = Path(path)
    if path.exists():
        hint = ""
        if version_number(path.name) is not None:
            numbers = [version_number(other.name) or 0 for other in path.parent.iterdir()]
            hint = f", such as {path.parent / str(max(numbers) + 1)}"
        raise FileExistsError(f"{path} exists and is not overwritten: give a new name{hint}.")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """A context manager for an atomic write: yields a temporary path, moved to `path` at the end.

    The file or folder is synced to disk before it gets its name. Missing parent folders are made,
    and removed again if the write fails. What a killed process left of a write to the same path is
    removed first.

    Args:
        path: The file or folder.

    Raises:
        OSError: If the disk is full; the message names the path, whatever writes to it.

    Example:

    >>> with atomic_write("notes.txt") as temporary:
    ...     temporary.write_text("all or nothing")  # doctest: +SKIP
    """
    path = Path(path).resolve()  # What a link leads to is written, not the link.
    with disk_errors(path), parents_of(path):
        _remove_leftovers(path)
        with (
            tempfile.TemporaryDirectory(
                prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent, ignore_cleanup_errors=True
            ) as folder,
            contextlib.ExitStack() as stack,
        ):
            # Under another name until it is locked: an unlocked one is a dead process's.
            if lock_file(Path(folder) / f"{_LOCK}.new", stack):
                os.rename(Path(folder) / f"{_LOCK}.new", Path(folder) / _LOCK)
            # The path's name: some writers look at its extension.
            temporary = Path(folder) / path.name
            yield temporary
            for written in [*temporary.rglob("*"), temporary]:
                _sync(written)
            os.replace(temporary, path)
    _sync(path.parent)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """As `atomic_write`, for a folder, which is made.

    Example:

    >>> with new_folder("notes/today") as folder:
    ...     (folder / "first.txt").write_text("all or nothing")  # doctest: +SKIP
    """
    with atomic_write(path) as temporary:
        temporary.mkdir()
        yield temporary


@contextlib.contextmanager
def disk_errors(path: str | os.PathLike) -> Iterator[None]:
    """Raises OSError, which names the path, where a library says that the disk is full.

    Libraries have exceptions of their own for it, and name a temporary file or none.

    Example:

    >>> with disk_errors("model.h5"):
    ...     raise RuntimeError("write failed: No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device: 'model.h5'
    """
    try:
        yield
    except Exception as error:
        for number in DISK_ERRORS:
            if os.strerror(number).lower() in str(error).lower():
                raise OSError(number, os.strerror(number), str(path)) from error
        raise


def lock_file(path: Path, stack: contextlib.ExitStack) -> bool:
    """Locks a file, which is made if it does not exist, until the stack is closed.

    The system unlocks it when the process ends, however it ends.

    Returns:
        Whether this process has the lock; False if locks are not supported.

    Raises:
        BlockingIOError: If another process has it.
    """
    if fcntl is None:
        return False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise
            return False
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                stack.callback(os.close, descriptor)
                return True
        os.close(descriptor)  # Its owner has removed the file meanwhile, and with it the lock.


def _remove_leftovers(path):
    """Removes what processes that were killed left of their writes to a path."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.*{_SUFFIX}"):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            if (folder / _LOCK).is_file() and lock_file(folder / _LOCK, stack):
                shutil.rmtree(folder, ignore_errors=True)


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
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder.
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def version_number(name: str) -> int | None:
    """The number of a version folder, as TensorFlow Serving reads it; None for other names.

    Example:

    >>> version_number("12"), version_number("²"), version_number("new")
    (12, None, None)
    """
    return int(name) if name.isascii() and name.isdigit() else None


def find_saved_model(directory: str | os.PathLike) -> Path | None:
    """The SavedModel in a version folder, or the newest version in a model's folder; None if none.

    Example:

    >>> find_saved_model("saved_models/en_de").name  # doctest: +SKIP
    '2'
    >>> find_saved_model("no_such_folder")
    """
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    versions = {
        version_number(path.name): path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if (path / "saved_model.pb").is_file()
    }
    return versions[max(numbers)] if (numbers := versions.keys() - {None}) else None


def is_run(directory: str | os.PathLike) -> bool:
    """Whether a folder holds a run, finished or not."""
    return any((Path(directory) / name).is_file() for name in ("config.json", "model.keras"))
