"""Files that may be compressed, as the end of their name says."""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_mt.errors import CorpusError
from keras_mt.extras import require


def bare_name(path: str | os.PathLike) -> str:
    """The path without `.gz` or `.zst` at its end."""
    return str(path).removesuffix(".gz").removesuffix(".zst")


@contextlib.contextmanager
def opened(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to read bytes, and unpacks `.gz` and `.zst`; CorpusError if it is damaged."""
    path, open_ = Path(path), open
    if path.suffix == ".gz":
        open_ = gzip.open
    elif path.suffix == ".zst":
        open_ = _zstd(path).open
    with damage_named(path), open_(path, "rb") as file:
        yield file


@contextlib.contextmanager
def damage_named(path: str | os.PathLike) -> Iterator[None]:
    """Raises CorpusError, which names the file, where reading it shows that it is damaged."""
    path, damage = Path(path), ()
    if path.suffix == ".gz":
        damage = EOFError, gzip.BadGzipFile, zlib.error
    elif path.suffix == ".zst":
        damage = EOFError, _zstd(path).ZstdError
    try:
        yield
    except damage as error:
        raise CorpusError(f"{path} is damaged: {error}") from error


@contextlib.contextmanager
def packed(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to write bytes, compressed by its suffix; a `.gz` holds no name and no time."""
    with open(path, "wb") as file, contextlib.ExitStack() as stack:
        if Path(path).suffix == ".gz":
            yield stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        elif Path(path).suffix == ".zst":
            yield stack.enter_context(_zstd(path).ZstdFile(file, "wb"))
        else:
            yield file


def _zstd(path):
    # The zstandard package would take a file that is cut short for a whole one.
    require("backports.zstd", "zst", str(path))
    from backports import zstd

    return zstd
