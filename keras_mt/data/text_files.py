"""Lines of text files, which may be compressed."""

import codecs
import os
from collections.abc import Iterator

from keras_mt.compressed import opened
from keras_mt.errors import CorpusError


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
