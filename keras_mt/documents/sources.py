"""The two kinds of sources: files of lines, and documents."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from keras_mt.compressed import open_read, open_write, strip_compression
from keras_mt.documents import lines
from keras_mt.documents.base import MAX_BYTES
from keras_mt.documents.formats import DocumentOptions, Refusal, Unit, load_format
from keras_mt.errors import InputError

CHANGED = "has changed since its translation began: put it back as it was, or give a new folder."


class Block(NamedTuple):
    """Units that are translated together, those that are refused by index, and a digest."""

    units: list[Unit]
    refusals: dict[int, Refusal]
    digest: str


class Lines:
    """A file of lines, in blocks of `size`; `markup` is "html" if each is a fragment of HTML."""

    units_are = "lines"

    def __init__(self, path: Path, size: int, max_line_bytes: int, markup: str | None):
        self.path, self.size = path, size
        self.max_line_bytes, self.markup = max_line_bytes, markup

    def blocks(self) -> Iterator[Block]:
        """Reads the file; CorpusError if it is damaged."""
        first = 1
        with open_read(self.path) as file:
            for texts, *rest in lines.blocks(file, self.size, self.max_line_bytes):
                units = [
                    Unit(text, self.markup, f"line {i}") for i, text in enumerate(texts, first)
                ]
                yield Block(units, *rest)
                first += len(texts)

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        """Writes the output, compressed as its name says; returns what it could not put in."""
        with open_write(output) as file:
            file.writelines(map(lines.as_line, translations))
        return []


class Document:
    """A document as `Lines` is a file; it has at least one block."""

    units_are = "texts"

    def __init__(self, path: Path, format: str, size: int, options: DocumentOptions):
        self.path, self.size, self.options = path, size, options
        self._format = load_format(format)

    def blocks(self) -> Iterator[Block]:
        self._digest = self._digest_now()
        with _unpacked(self.path) as path:
            units = list(self._format.units(path, self.options))
        for begin in range(0, max(1, len(units)), self.size):
            yield Block(units[begin : begin + self.size], {}, self._digest)

    def _digest_now(self):
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def write(self, translations: Iterable[str | None], output: Path) -> list[Refusal]:
        if self._digest_now() != self._digest:
            raise InputError(f"{self.path} {CHANGED}")
        with _unpacked(self.path) as path, tempfile.TemporaryDirectory() as folder:
            plain = Path(folder, strip_compression(self.path.name))
            refusals = list(self._format.write(path, plain, list(translations), self.options))
            with open(plain, "rb") as written, open_write(output) as file:
                shutil.copyfileobj(written, file)
        return refusals


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The path of a file that is not compressed, of the same bytes."""
    if strip_compression(path) == str(path):
        yield path
        return
    with open_read(path) as file, tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, strip_compression(path.name))
        plain.write_bytes(file.read(MAX_BYTES + 1))  # More is refused where it is read.
        yield plain
