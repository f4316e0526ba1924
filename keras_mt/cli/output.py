"""Standard output, and lines on it: each as soon as it is done, whatever ends the command."""

import errno
import io
import json
import math
import os
import signal
import sys

import click

from keras_mt.cli.options import as_typed


class StandardOutput(io.FileIO):
    """File descriptor 1. An error of writing ends the command, and is named."""

    def __init__(self):
        super().__init__(1, "w", closefd=False)
        self._failed = False

    def write(self, data):
        if self._failed:  # Python writes again what is left when it ends.
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            if error.errno == errno.EPIPE:  # Nobody reads on: end as what SIGPIPE ends.
                sys.exit(128 + signal.SIGPIPE)
            reason = "it is closed" if error.errno == errno.EBADF else os.strerror(error.errno)
            raise click.ClickException(f"cannot write to standard output: {reason}.") from None


class Output:
    """Writes a line for each row of the input, and counts those that are skipped.

    At the end of its `with` block it says how many were, and exits with 1 if that leaves none.
    """

    def __init__(self):
        self._written = self._refused = self._answered = 0

    def write(self, row, line):
        """Writes the line that answers a row of the input."""
        self._answered += any(text.strip() for text in row.texts)
        self._write(line)

    def refuse(self, row, error, line=""):
        """Says why a row is skipped; `line` stands for it on standard output."""
        click.echo(f"line {row.number} skipped: {as_typed(error)}", err=True)
        self._refused += 1
        self._write(line)

    def _write(self, line):
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
        self._written += 1

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is SystemExit:  # Nobody reads on.
            return
        if kind is not None:
            if self._written:
                click.echo(f"{self._written:,} lines written", err=True)
        elif self._refused:
            click.echo(f"{self._refused:,} of {self._written:,} lines skipped", err=True)
            if not self._answered:
                raise click.exceptions.Exit(1)


def to_json(value):
    """JSON; a number that is not finite becomes null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def progress_bar(total):
    from tqdm import tqdm

    return tqdm(total=total, unit=" lines", file=sys.stderr, disable=not sys.stderr.isatty())
