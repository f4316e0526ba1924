"""Lines of text, read as they arrive."""

import itertools
import os
import select
import stat
import sys
from typing import NamedTuple

import click

from keras_mt.errors import InputError

# The maximum number of lines to work on together, those of similar length in a batch; and of their
# characters, some batch for each core: an interrupt loses these, and smaller batches are slower.
_BLOCK_LINES = 2048
_BLOCK_CHARACTERS = (1 << 14) * (os.cpu_count() or 1)
_CHUNK = 1 << 16  # Bytes read at once.
# How long, in seconds, to wait for the next line of a program that writes line after line.
_GRACE = 0.01


class Row(NamedTuple):
    """A line of each of several parallel files."""

    number: int  # The lines' number, from 1.
    texts: tuple[str, ...]  # Without line ends.
    error: str | None  # Why it cannot be used. Bytes that are not UTF-8 are U+FFFD in `texts`.


class ArrivingLines:
    """The lines of a binary file as they arrive, split at newlines only.

    They are without a byte order mark at the start, and a carriage return at their end.
    """

    def __init__(self, file):
        self.name = name_of(file)
        self._file = file
        self._lines = []
        self._rest = []  # The pieces of a line whose end has not arrived.
        self._at_start = True
        self._ended = False

    def next(self, number, characters=sys.maxsize, wait=True):
        """The next `number` lines, fewer at the end of the file: for each its text, and an error.

        They are of so many characters at most, but at least one; without `wait`, those that have
        arrived, at least one.
        """
        while len(self._lines) < number and not self._ended:
            if self._lines and not wait and not self._is_ready():
                break
            self._read()
        ends = itertools.accumulate(map(len, self._lines[:number]))
        number = max(1, sum(end <= characters for end in ends))
        taken, self._lines = self._lines[:number], self._lines[number:]
        decoded = [_decoded(line) for line in taken]
        if decoded and self._at_start:
            text, error = decoded[0]
            decoded[0] = text.removeprefix("\ufeff"), error
            self._at_start = False
        return decoded

    def _read(self):
        chunk = self._file.read1(_CHUNK)
        self._ended = not chunk
        start, *others = chunk.split(b"\n")
        self._rest.append(start)
        for part in others:
            self._lines.append(b"".join(self._rest))
            self._rest = [part]
        if self._ended and (last := b"".join(self._rest)):
            self._lines.append(last)

    def _is_ready(self):
        try:
            return bool(select.select([self._file], [], [], _GRACE)[0])
        except (OSError, ValueError):  # A file in memory.
            return True


def _decoded(line):
    line = line.removesuffix(b"\r")
    try:
        return line.decode("utf-8"), None
    except UnicodeDecodeError as error:
        return line.decode("utf-8", "replace"), f"not UTF-8 at byte {error.start + 1}"


def row_blocks(*files):
    """Yields lists of a `Row` for each line of parallel files that has arrived.

    So a program that writes one line and waits for the answer gets it. A list is no more than a few
    batches, which is what an interrupt loses.
    """
    first, *others = map(ArrivingLines, files)
    number = 1
    while True:
        columns = [first.next(_BLOCK_LINES, _BLOCK_CHARACTERS, wait=False)]
        columns += [other.next(len(columns[0]) or 1) for other in others]
        lengths = [len(lines) for lines in columns]
        if min(lengths) != max(lengths):
            names = " and ".join(lines.name for lines in (first, *others))
            raise InputError(
                f"{names} must have the same number of lines: one ends after "
                f"{number + min(lengths) - 1}."
            )
        if not columns[0]:
            return
        rows = []
        for i, lines in enumerate(zip(*columns, strict=True), number):
            texts, errors = zip(*lines, strict=True)
            rows.append(Row(i, texts, next(filter(None, errors), None)))
        yield rows
        number += len(rows)


def answers(function, *files):
    """Yields for each row of parallel files the row, a function's result, and why it is refused."""
    for rows in row_blocks(*files):
        texts = [[""] * len(row.texts) if row.error else row.texts for row in rows]
        results = function(*map(list, zip(*texts, strict=True)))
        for i, (row, result) in enumerate(zip(rows, results, strict=True)):
            yield row, result, row.error or results.refusals.get(i)


def read_lines(file):
    """All lines of a binary file; InputError, which names the line, if one is not UTF-8."""
    lines = ArrivingLines(file).next(sys.maxsize)
    for number, (_, error) in enumerate(lines, 1):
        if error:
            raise InputError(f"{name_of(file)}:{number} is {error}.")
    return [text for text, _ in lines]


def check_standard_input(*files):
    """Refuses one stream given twice: each reader would get only a part of it."""
    streams = []
    for file in files:
        stream = None if file is None else _stream(file)
        if stream is not None and stream in streams:
            raise click.UsageError(f"{name_of(file)} is read once: give it for one argument only.")
        streams.append(stream)


def name_of(file):
    return str(getattr(file, "name", "standard input"))


def _stream(file):
    """An identity that two files share if reading one consumes the other."""
    try:
        number = file.fileno()
    except OSError:
        return id(file)
    status = os.fstat(number)
    # A regular file that is opened twice has two positions; a pipe or a terminal has only one.
    return number if stat.S_ISREG(status.st_mode) else (status.st_dev, status.st_ino)


def one_line(text, breaks="\n\r\t"):
    # A model may generate any byte; in the output these would break lines and columns.
    return text.translate({ord(mark): " " for mark in breaks})
