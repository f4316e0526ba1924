"""The two kinds of files that are translated: of lines, and documents."""

import codecs
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from keras_mt.compressed import open_read, open_write
from keras_mt.documents.document import MAX_BYTES, Document, DocumentOptions, Refusal, Unit
from keras_mt.errors import InputError

CHANGED = "has changed since its translation began: put it back as it was, or give a new folder."
_CHUNK = 1 << 20  # Bytes of the rest of a long line that are read at once.
_DIGEST = 16  # Bytes of a digest.
# The bytes of a line besides its text: the byte order mark, a carriage return, a newline.
_MORE = 5


class Block(NamedTuple):
    """Units that are translated together, those that are refused by index, and a digest."""

    units: list[Unit]
    refusals: dict[int, Refusal]
    digest: str


class LinesFile:
    """A file of lines, in blocks of `size`: no more than a block is in memory."""

    units_are = "lines"

    def __init__(self, path: Path, size: int, max_line_bytes: int):
        self.path, self.size, self.max_line_bytes = path, size, max_line_bytes

    def blocks(self) -> Iterator[Block]:
        """Reads the file; CorpusError if it is damaged."""
        with open_read(self.path) as file:
            yield from line_blocks(file, self.size, self.max_line_bytes)

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        """Writes the output, compressed as its name says; returns what it could not put in."""
        with open_write(output) as file:
            file.writelines(map(as_line, translations))
        return []


class DocumentFile:
    """A document, in blocks as a `LinesFile`; it has at least one block."""

    units_are = "texts"

    def __init__(self, path: Path, document: type[Document], size: int, options: DocumentOptions):
        self.path, self.size, self.options = path, size, options
        self._document, self._digest = document, None

    def blocks(self) -> Iterator[Block]:
        data, self._digest = self._read()
        units = self._document(data, self.options).units
        for begin in range(0, max(1, len(units)), self.size):
            yield Block(units[begin : begin + self.size], {}, self._digest)

    def _read(self):
        with open_read(self.path) as file:
            data = file.read(MAX_BYTES + 1)  # A document refuses more.
        return data, hashlib.sha256(data).hexdigest()

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        data, digest = self._read()
        if digest != self._digest:
            raise InputError(f"{self.path} {CHANGED}")
        document = self._document(data, self.options)
        with open_write(output) as file:
            file.write(document.write(list(translations)))
        return document.refusals


def line_blocks(file: BinaryIO, size: int, limit: int, first_line: int = 1) -> Iterator[Block]:
    """Blocks of `size` lines with digests of all up to their ends; a refused line is empty.

    The file stands at line `first_line`.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST)
    lines = _raw_lines(file, limit + _MORE, digest)
    while block := list(itertools.islice(lines, size)):
        units, refusals = [], {}
        for i, (line, length) in enumerate(block):
            where = f"line {first_line + i}"
            text, error = _decoded(line, length, limit, is_first=first_line + i == 1)
            if error:
                refusals[i] = Refusal(where, error, text)
            units.append(Unit("" if error else text, where))
        yield Block(units, refusals, digest.hexdigest())
        first_line += len(block)


def _raw_lines(file, limit, digest) -> Iterator[tuple[bytes, int]]:
    """The lines of a file without their ends, each cut to `limit`, and how long each is."""
    while line := file.readline(limit):
        digest.update(line)
        size, last = len(line), line
        while not last.endswith(b"\n") and (rest := file.readline(_CHUNK)):
            digest.update(rest)
            size, last = size + len(rest), rest
        yield _bare(line), size - len(last) + len(_bare(last))


def _bare(line):
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _decoded(line, size, limit, is_first):
    """The text of a line as `translate` reads it, and why it is refused, or None."""
    text, error = line.decode("utf-8", "replace"), None
    if is_first and line.startswith(codecs.BOM_UTF8):
        text, size = text.removeprefix("\ufeff"), size - len(codecs.BOM_UTF8)
    if size > limit:
        return text, (
            f"a line of {size:,} bytes is longer than max_line_bytes={limit}: split it into lines."
        )
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as found:
        error = f"not UTF-8 at byte {found.start + 1}"
    return text, error


def as_line(text: str | None) -> bytes:
    """A translation as a line; a refused one is empty."""
    # A model may generate any byte.
    return (text or "").replace("\n", " ").replace("\r", " ").encode("utf-8") + b"\n"
