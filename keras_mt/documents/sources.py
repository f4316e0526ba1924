"""Where units come from and translations go: files of lines, and documents."""

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_mt.compressed import bare_name, damage_named, opened, packed
from keras_mt.documents import lines
from keras_mt.documents.base import MAX_BYTES
from keras_mt.documents.formats import DocumentOptions, Refusal, Unit, load_format


class Lines:
    """A file of lines, translated in parts; `markup` is "html" if each is a fragment of HTML."""

    def __init__(self, path: Path, part_lines: int, max_line_bytes: int, markup: str | None):
        self.path, self.part_lines = path, part_lines
        self.max_line_bytes, self.markup = max_line_bytes, markup
        self._files = contextlib.ExitStack()
        self._file = None

    def index(self) -> dict[str, Any]:
        """What identifies the file's content and its parts: `lines`, `digests`, and more."""
        return lines.index(self.path, self.part_lines)

    def read(self, found: dict[str, Any], number: int) -> tuple[list[Unit], dict[int, Refusal]]:
        """The units of a part, and which are refused; InputError if the part has changed."""
        first = number * self.part_lines + 1
        with damage_named(self.path):
            # Kept open: a place in a compressed file is found by unpacking all before it.
            self._file = self._file or self._files.enter_context(opened(self.path))
            texts, refusals = lines.read_part(self._file, found, number, first, self.max_line_bytes)
        units = [Unit(text, self.markup, f"line {i}") for i, text in enumerate(texts, first)]
        return units, refusals

    def pack(self, translations: Sequence[str | None]) -> bytes:
        """The translations of a part, None for a refused unit, as a file that `write` takes."""
        # Without a text it is an empty file, which need not be synced to disk.
        return b"".join(map(lines.as_line, translations)) if any(translations) else b""

    def write(self, found: dict[str, Any], parts: Sequence[Path], output: Path) -> list[Refusal]:
        """Writes the output, compressed as its name says; returns what it could not put in."""
        left = found["lines"]
        with packed(output) as file:
            for part in parts:
                with open(part, "rb") as translated:
                    shutil.copyfileobj(translated, file)
                    if not translated.tell():
                        file.write(b"\n" * min(self.part_lines, left))
                left -= self.part_lines
        return []

    def close(self) -> None:
        """Lets go of what `read` keeps: all parts are done."""
        self._files.close()
        self._file = None


class Document:
    """As `Lines`, of a document, whose units are read and written at once."""

    def __init__(self, path: Path, format: str, part_lines: int, options: DocumentOptions):
        self.path, self.part_lines, self.options = path, part_lines, options
        self._format = load_format(format)
        self._units = None

    def index(self) -> dict[str, Any]:
        with open(self.path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        number = len(self._read())
        # All parts are of the one file.
        return {"lines": number, "digests": [digest] * -(-number // self.part_lines)}

    def _read(self):
        with _unpacked(self.path) as path:
            return list(self._format.units(path, self.options))

    def read(self, found: dict[str, Any], number: int) -> tuple[list[Unit], dict[int, Refusal]]:
        begin = number * self.part_lines
        self._units = self._units or self._read()
        return self._units[begin : begin + self.part_lines], {}

    def pack(self, translations: Sequence[str | None]) -> bytes:
        return json.dumps(translations).encode()

    def write(self, found: dict[str, Any], parts: Sequence[Path], output: Path) -> list[Refusal]:
        translations = [text for part in parts for text in json.loads(part.read_bytes())]
        with _unpacked(self.path) as path, tempfile.TemporaryDirectory() as folder:
            plain = Path(folder, bare_name(self.path.name))
            refusals = list(self._format.write(path, plain, translations, self.options))
            with open(plain, "rb") as written, packed(output) as file:
                shutil.copyfileobj(written, file)
        return refusals

    def close(self) -> None:
        self._units = None


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The path of a file that is not compressed, of the same bytes."""
    if bare_name(path) == str(path):
        yield path
        return
    with opened(path) as file, tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, bare_name(path.name))
        plain.write_bytes(file.read(MAX_BYTES + 1))  # More is refused where it is read.
        yield plain
