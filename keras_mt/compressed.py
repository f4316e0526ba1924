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


def strip_compression(path: str | os.PathLike) -> str:
    """The path without `.gz` or `.zst` at its end."""
    return str(path).removesuffix(".gz").removesuffix(".zst")


@contextlib.contextmanager
def open_read(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to read bytes, unpacked by its suffix; CorpusError if it is damaged."""
    suffix, open_, damage = Path(path).suffix, open, ()
    if suffix == ".gz":
        open_, damage = gzip.open, (EOFError, gzip.BadGzipFile, zlib.error)
    elif suffix == ".zst":
        zstd = _zstd(path)
        open_, damage = zstd.open, (EOFError, zstd.ZstdError)
    try:
        with open_(path, "rb") as file:
            yield file
    except damage as error:
        raise CorpusError(f"{path} is damaged: {error}") from error


@contextlib.contextmanager
def open_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to write bytes, compressed by its suffix; a `.gz` holds no name and no time."""
    suffix = Path(path).suffix
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "wb"))
        if suffix == ".gz":
            file = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
        elif suffix == ".zst":
            file = _zstd(path).ZstdFile(file, "wb")
        yield stack.enter_context(file)


def _zstd(path):
    # The zstandard package would take a file that is cut short for a whole one.
    return require("backports.zstd", "zst", str(path))
