"""Atomic writes: files that appear whole or not at all, even after a power loss."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def check_new(path: str | os.PathLike) -> None:
    """Raises FileExistsError if the path exists, so that nothing is overwritten."""
    if Path(path).exists():
        raise FileExistsError(f"{path} exists and is not overwritten: give a new name.")


@contextlib.contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[Path]:
    """A context manager for an atomic write: yields a temporary path, moved to `path` at the end.

    The file or folder is synced to disk before it gets its name.

    Example:

    >>> with written_whole("notes.txt") as temporary:
    ...     temporary.write_text("all or nothing")  # doctest: +SKIP
    """
    path = Path(path).resolve()  # What a link leads to is written, not the link.
    with tempfile.TemporaryDirectory(
        prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True
    ) as folder:
        temporary = Path(folder) / path.name  # The same name: some writers look at its extension.
        yield temporary
        for written in [*temporary.rglob("*"), temporary]:
            _sync(written)
        os.replace(temporary, path)
    _sync(path.parent)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """As `written_whole`, for a folder, which is made together with the parents of `path`.

    Example:

    >>> with new_folder("notes/today") as folder:
    ...     (folder / "first.txt").write_text("all or nothing")  # doctest: +SKIP
    """
    path = Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        temporary.mkdir()
        yield temporary


def _sync(path):
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder.
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    versions = [
        path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdigit() and (path / "saved_model.pb").is_file()
    ]
    return max(versions, key=lambda path: int(path.name), default=None)


def is_run(directory: str | os.PathLike) -> bool:
    """Whether a folder holds a run, finished or not."""
    return any((Path(directory) / name).is_file() for name in ("config.json", "model.keras"))
