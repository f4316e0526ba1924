"""Lines of text, read as they arrive."""

import collections
import contextlib
import os
import select
import stat
import sys
import threading
import time
from typing import NamedTuple

import click

from keras_mt.errors import InputError

# The maximum number of lines to work on together; those of similar length share a batch.
_BLOCK_LINES = 2048
# How many seconds of work to write at once; how many characters that is at first, and at least:
# with fewer, batches would be too small.
_BLOCK_SECONDS = 4
_FIRST_CHARACTERS = 1 << 14
_MINIMUM_CHARACTERS = 1 << 12
_LONG = 1 << 12  # The bytes of a line that the lines before it do not wait for.
_PATIENCE = 5  # Seconds after which such a line is named.
_CHUNK = 1 << 16  # Bytes read at once.
# How long, in seconds, to wait for the next line of a program that writes line after line.
_GRACE = 0.01


class Row(NamedTuple):
    """A line of each of several parallel files."""

    number: int  # The lines' number, from 1.
    texts: tuple[str, ...]  # Without line ends.
    error: str | None  # Why it cannot be used. Bytes that are not UTF-8 are U+FFFD in `texts`.


class Lines:
    """The lines of a binary file as they arrive, split at newlines only.

    A byte order mark at the start of the file and a carriage return at the end of a line are no
    part of the text.
    """

    def __init__(self, file):
        self.name = name_of(file)
        self._file = file
        self._lines = []
        self._rest = []  # The pieces of a line whose end has not arrived.
        self._at_start = True
        self._ended = False

    def next(self, number, wait=True):
        """The next `number` lines, fewer at the end of the file: for each its text, and an error.

        Unless it is to wait, it gives those that have arrived, at least one.
        """
        while len(self._lines) < number and not self._ended:
            if self._lines and not wait and not self._is_ready():
                break
            self._read()
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
    """Reads parallel files: yields lists of `Row` to work on together.

    A list holds lines that have arrived, so that a program that writes one line and waits for the
    answer gets it; as many as take some seconds, going by the lists before; and none that waits for
    a much longer one behind it. A long line that takes long is named on standard error.

    Raises:
        InputError: If a file ends before the others.
    """
    budget = _FIRST_CHARACTERS
    for arrived in _arrived_rows(*map(Lines, files)):
        rows = collections.deque(arrived)
        while rows:
            block, characters = _fitting(rows, budget)
            start = time.perf_counter()
            with _named_if_slow(block):
                yield block
            seconds = time.perf_counter() - start + 1e-3
            budget = max(_MINIMUM_CHARACTERS, characters * _BLOCK_SECONDS / seconds)


def _arrived_rows(first, *others):
    number = 1
    while True:
        columns = [first.next(_BLOCK_LINES, wait=False)]
        size = len(columns[0])
        columns += [other.next(size or 1) for other in others]
        lengths = [len(lines) for lines in columns]
        if min(lengths) != max(lengths):
            names = " and ".join(lines.name for lines in (first, *others))
            raise InputError(
                f"{names} must have the same number of lines: one ends after "
                f"{number + min(lengths) - 1}."
            )
        if not size:
            return
        rows = []
        for i, lines in enumerate(zip(*columns, strict=True), number):
            texts, errors = zip(*lines, strict=True)
            rows.append(Row(i, texts, next(filter(None, errors), None)))
        yield rows
        number += size


def _fitting(rows, budget):
    """Takes the rows to work on together, and says how many characters they have."""
    block, total = [], 0
    while rows:
        size = sum(map(len, rows[0].texts))
        if block and (total + size > budget or size > max(total, _LONG)):
            break
        block.append(rows.popleft())
        total += size
    return block, total


@contextlib.contextmanager
def _named_if_slow(rows):
    row = max(rows, key=lambda row: len(row.texts[0]))
    size = len(row.texts[0].encode("utf-8"))
    message = f"line {row.number} takes long: it has {size:,} bytes"
    timer = threading.Timer(_PATIENCE, click.echo, [message], {"err": True})
    timer.daemon = True
    if size > _LONG:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def columns_of(rows):
    """The texts of the rows, a list for each file; those of a row with an error are empty."""
    texts = [[""] * len(row.texts) if row.error else row.texts for row in rows]
    return list(map(list, zip(*texts, strict=True)))


def read_lines(file):
    """All lines of a binary file; InputError, which names the line, if one is not UTF-8."""
    lines = Lines(file).next(sys.maxsize)
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
