"""The two kinds of files that are translated: of lines, and documents."""

import codecs
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from keras_mt.compressed import open_read, open_write
from keras_mt.documents.document import MAX_BYTES, Document, Refusal, Unit

_CHUNK = 1 << 20  # Bytes of the rest of a long line that are read at once.
# Units that are translated together, and a digest.
Block = tuple[list[Unit], str]
# The bytes of a line besides its text: the byte order mark, a carriage return, a newline.
_MORE = 5


class LinesFile:
    """A file of lines, in blocks of `size`: no more than a block is in memory."""

    units_are = "lines"

    def __init__(self, path: Path, size: int, max_line_bytes: int):
        self._path, self._size, self._max_line_bytes = path, size, max_line_bytes

    def blocks(self) -> Iterator[Block]:
        """Reads the file; CorpusError if it is damaged."""
        with open_read(self._path) as file:
            yield from line_blocks(file, self._size, self._max_line_bytes)

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        """Writes the output, compressed as its name says; returns what it could not put in."""
        with open_write(output) as file:
            file.writelines(map(as_line, translations))
        return []


class DocumentFile:
    """A document, in blocks as a `LinesFile`; it has at least one block."""

    units_are = "texts"

    def __init__(self, path: Path, size: int, read: Callable[[bytes], Document]):
        with open_read(path) as file:
            data = file.read(MAX_BYTES + 1)  # A document refuses more.
        self._size, self._digest = size, hashlib.sha256(data).hexdigest()
        self._document = read(data)

    def blocks(self) -> Iterator[Block]:
        units = self._document.units
        for begin in range(0, max(1, len(units)), self._size):
            yield units[begin : begin + self._size], self._digest

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        with open_write(output) as file:
            file.write(self._document.write(list(translations)))
        return self._document.refusals


def line_blocks(file: BinaryIO, size: int, limit: int, first_line: int = 1) -> Iterator[Block]:
    """Blocks of `size` lines with digests of all up to their ends.

    The file stands at line `first_line`.
    """
    digest = hashlib.blake2b(digest_size=16)
    lines = _lines(file, limit, digest, at_start=first_line == 1)
    while block := list(itertools.islice(lines, size)):
        numbers = itertools.count(first_line)
        units = [Unit(text, f"line {next(numbers)}", error) for text, error in block]
        yield units, digest.hexdigest()
        first_line += len(block)


def _lines(file, limit, digest, at_start) -> Iterator[tuple[str, str | None]]:
    """Each line as `translate` reads it, cut if it is too long, and why it is refused, or None."""
    while line := file.readline(limit + _MORE):
        digest.update(line)
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(_CHUNK)):
            digest.update(rest)
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        line, at_start = line.removeprefix(codecs.BOM_UTF8 if at_start else b""), False
        error = None
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as found:
            error = f"not UTF-8 at byte {found.start + 1}"
        if len(line) > limit:
            error = f"the line is longer than max_line_bytes={limit}: split it into lines."
        yield line.decode("utf-8", "replace"), error


def as_line(text: str | None) -> bytes:
    """A translation as a line; a refused one is empty."""
    # A model may generate any byte.
    return (text or "").replace("\n", " ").replace("\r", " ").encode("utf-8") + b"\n"
