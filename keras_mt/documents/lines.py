"""Lines of text, in blocks of a fixed number of lines: no more than a block is in memory."""

import codecs
import hashlib
import itertools
from collections.abc import Iterator
from typing import BinaryIO

from keras_mt.documents.formats import Refusal

_CHUNK = 1 << 20  # Bytes of the rest of a long line that are read at once.
_DIGEST = 16  # Bytes of a digest.
# The bytes of a line besides its text: the byte order mark, a carriage return, a newline.
_MORE = 5


def blocks(
    file: BinaryIO, size: int, limit: int, first_line: int = 1
) -> Iterator[tuple[list[str], dict[int, Refusal], str]]:
    """Blocks of `size` lines: the texts, the refusals by index, and a digest of all up to the end.

    A refused line has an empty text. The file stands at line `first_line`.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST)
    lines = _raw_lines(file, limit + _MORE, digest)
    while block := list(itertools.islice(lines, size)):
        texts, refusals = [], {}
        for i, (line, length) in enumerate(block):
            text, error = _decoded(line, length, limit, is_first=first_line + i == 1)
            if error:
                refusals[i] = Refusal(f"line {first_line + i}", error, text)
            texts.append("" if error else text)
        yield texts, refusals, digest.hexdigest()
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
