"""Lines of text, in parts of a fixed number of lines, so that no more than a part is in memory."""

import codecs
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keras_mt.compressed import opened
from keras_mt.documents.formats import Refusal
from keras_mt.errors import InputError

_CHUNK = 1 << 20  # Bytes read at once.
_SHOWN = 200  # Characters of a refused line that its entry repeats.
_DIGEST = 16  # Bytes of the digest of a part.
# The bytes of a line besides its text: the byte order mark, a carriage return, a newline.
_MORE = 5


def index(path: Path, part_lines: int) -> dict[str, Any]:
    """The number of `lines` of a file, the `offsets` of its parts and its end, and their `digests`.

    The offsets are those of the unpacked file.

    >>> _ = Path("three.txt").write_bytes(b"a\\nb\\nc")
    >>> found = index(Path("three.txt"), 2)
    >>> found["lines"], found["offsets"], len(found["digests"])
    (3, [0, 4, 5], 2)
    """
    lines, offsets, digests = 0, [0], []
    position, digest, last = 0, hashlib.blake2b(digest_size=_DIGEST), b"\n"
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == 10) + 1
            begun = 0
            # The newlines that end a part.
            for end in ends[part_lines - 1 - lines % part_lines :: part_lines].tolist():
                digest.update(chunk[begun:end])
                digests.append(digest.hexdigest())
                offsets.append(position + end)
                digest, begun = hashlib.blake2b(digest_size=_DIGEST), end
            digest.update(chunk[begun:])
            lines += len(ends)
            position += len(chunk)
            last = chunk[-1:]
    lines += last != b"\n"
    if position > offsets[-1]:
        digests.append(digest.hexdigest())
        offsets.append(position)
    return {"lines": lines, "offsets": offsets, "digests": digests}


def read_part(
    file: BinaryIO, found: dict[str, Any], number: int, first_line: int, limit: int
) -> tuple[list[str], dict[int, Refusal]]:
    """The texts of a part, and why some of them are refused, by their index; these are empty.

    `found` is what `index` has found; `number` is the part's, from 0, and `first_line` that of its
    first line, from 1; `limit` is the maximum bytes of a text. InputError, which does not name the
    file, if the part is not as it was.
    """
    start, end = found["offsets"][number : number + 2]
    digest = hashlib.blake2b(digest_size=_DIGEST)
    texts, refusals = [], {}
    file.seek(start)
    for i, (line, size) in enumerate(_raw_lines(file, end - start, limit + _MORE, digest)):
        text, error = _decoded(line, size, limit, is_first=start == 0 and i == 0)
        if error:
            refusals[i] = Refusal(f"line {first_line + i}", error, text[:_SHOWN])
        texts.append("" if error else text)
    if digest.hexdigest() != found["digests"][number]:
        raise InputError(
            "it has changed since its translation began: put it back as it was, or give a new "
            "folder."
        )
    return texts, refusals


def _raw_lines(file, left, limit, digest) -> Iterator[tuple[bytes, int]]:
    """The lines of the next bytes without their ends, each cut to `limit`, and how long each is."""
    while left:
        line = rest = file.readline(min(left, limit))
        size = 0
        while rest:
            digest.update(rest)
            size += len(rest)
            if rest.endswith(b"\n") or size >= left:
                break
            rest = file.readline(min(left - size, _CHUNK))
        if not size:
            return  # The file has become shorter.
        left -= size
        yield _bare(line), size - len(rest) + len(_bare(rest))


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
