"""Lines of text files, which may be compressed."""

import codecs
import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_mt.errors import InputError
from keras_mt.extras import require


class CorpusError(InputError):
    """A corpus that cannot be used; the message says where and why.

    Example:

    >>> from keras_mt.data import load_corpus
    >>> try:
    ...     load_corpus("phrasebook", "pt", "de", "train")
    ... except CorpusError as error:
    ...     print(error)
    phrasebook has no language 'de'; it has pt, en.
    """


def bare_name(path: str | os.PathLike) -> str:
    """The path without `.gz` or `.zst` at its end."""
    return str(path).removesuffix(".gz").removesuffix(".zst")


@contextlib.contextmanager
def opened(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to read bytes; one whose name ends in `.gz` or `.zst` is unpacked meanwhile.

    Raises:
        CorpusError: If a compressed file is damaged or cut short.
        ValueError: If `.zst` is asked for and backports.zstd is not installed.
    """
    path, open_, damage = Path(path), open, ()
    if path.suffix == ".gz":
        open_, damage = gzip.open, (EOFError, gzip.BadGzipFile, zlib.error)
    elif path.suffix == ".zst":
        # The zstandard package would take a file that is cut short for a whole one.
        require("backports.zstd", "zst", str(path))
        from backports import zstd

        open_, damage = zstd.open, (EOFError, zstd.ZstdError)
    try:
        with open_(path, "rb") as file:
            yield file
    except damage as error:
        raise CorpusError(f"{path} is damaged: {error}") from error


def lines(path: str | os.PathLike, checked: bool = True) -> Iterator[bytes]:
    """The lines of a file, without line ends; split at newline bytes only.

    `tf.data.TextLineDataset` would also drop each carriage return inside a line.

    Args:
        path: The file.
        checked: Whether to refuse lines that are blank or not UTF-8.
    """
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if checked:
                check_text(line, path, number)
            yield line


def check_text(line: bytes, path: str | os.PathLike, number: int) -> None:
    """Raises CorpusError, which names the line, if it is blank or not UTF-8."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{number} is not UTF-8 (byte {error.start + 1} of the line): convert the file "
            "to UTF-8."
        ) from None
    if not text or text.isspace():
        raise CorpusError(
            f"{path}:{number} is blank: remove this pair from both sides, as `keras-mt clean` does."
        )
