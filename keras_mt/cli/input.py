"""Lines of text, read as they arrive."""

import codecs
import itertools
import os
import select
from typing import NamedTuple

import click

from keras_mt.errors import InputError

# The maximum number of bytes to work on together, some batches for each core: an interrupt loses
# these, and smaller batches are slower.
_BLOCK_BYTES = (1 << 14) * (os.cpu_count() or 1)
# How long, in seconds, to wait for the next line of a program that writes line after line.
_GRACE = 0.01


class Row(NamedTuple):
    """A line of each of several parallel files."""

    number: int  # The lines' number, from 1.
    texts: tuple[str, ...]  # Without line ends.
    error: str | None  # Why it cannot be used. Bytes that are not UTF-8 are U+FFFD in `texts`.


def _row(number, lines):
    texts, error = [], None
    for line in lines:
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        text = text.removeprefix(codecs.BOM_UTF8) if number == 1 else text
        texts.append(text.decode("utf-8", "replace"))
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as damage:
            error = error or f"not UTF-8 at byte {damage.start + 1}"
    return Row(number, tuple(texts), error)


def _arriving(file):
    """Yields lists of lines of a binary file as they arrive, each of a few batches at most."""
    parts = []
    while chunk := file.read1(_BLOCK_BYTES):
        while len(chunk) < _BLOCK_BYTES and _is_ready(file):
            if not (more := file.read1(_BLOCK_BYTES - len(chunk))):
                break
            chunk += more
        parts.append(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(parts).split(b"\n")
            yield lines
            parts = [rest]
    if any(parts):
        yield [b"".join(parts)]


def _is_ready(file):
    try:
        return bool(select.select([file], [], [], _GRACE)[0])
    except (OSError, ValueError):  # A file in memory.
        return True


def row_blocks(*files):
    """Yields lists of a `Row` for each line of parallel files that has arrived.

    So a program that writes one line and waits for the answer gets it.
    """
    first, *others = files
    number = 1
    for lines in itertools.chain(_arriving(first), [[]]):
        # At the end of the first one, the others must have no line more.
        columns = [list(itertools.islice(other, len(lines) or 1)) for other in others]
        lengths = [len(column) for column in (lines, *columns)]
        if min(lengths) != max(lengths):
            names, last = " and ".join(map(name_of, files)), number + min(lengths) - 1
            raise InputError(f"{names} must have the same number of lines: one ends after {last}.")
        if lines:
            yield list(map(_row, itertools.count(number), zip(lines, *columns, strict=True)))
        number += len(lines)


def count_lines(file):
    """The number of lines of a binary file; None of one that can be read only once."""
    if not file.seekable():
        return None
    start = file.tell()
    number = sum(1 for _ in file)
    file.seek(start)
    return number


def read_lines(file):
    """All lines of a binary file; InputError, which names the line, if one is not UTF-8."""
    rows = [_row(number, [line]) for number, line in enumerate(file, 1)]
    for row in rows:
        if row.error:
            raise InputError(f"{name_of(file)}:{row.number} is {row.error}.")
    return [row.texts[0] for row in rows]


def check_standard_input(*files):
    """Refuses standard input given twice: each reader would get only a part of it."""
    given = [id(file) for file in files if file is not None]
    if len({*given}) < len(given):
        raise click.UsageError("standard input is read once: give it for one argument only.")


def name_of(file):
    return str(getattr(file, "name", "standard input"))


def one_line(text, breaks="\n\r\t"):
    # A model may generate any byte; in the output these would break lines and columns.
    return text.translate({ord(mark): " " for mark in breaks})
