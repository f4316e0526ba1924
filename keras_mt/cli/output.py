"""Standard output, and lines on it: each as soon as it is done, whatever ends the command."""

import contextlib
import errno
import io
import json
import math
import os
import signal
import socket
import sys
import threading

import click

_NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


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
    """Writes a line for each row of the input, and counts those that are refused.

    Within its `with` block a signal ends the process with a message of how many lines were written.
    At the end it says how many lines were refused, and exits with 1 if that leaves none.
    """

    def __init__(self):
        self._written = self._refused = self._answered = 0
        self._lock = threading.Lock()

    def write(self, row, line):
        """Writes the line that answers a row of the input."""
        self._answered += any(text.strip() for text in row.texts)
        self._write(line)

    def refuse(self, row, error, line=""):
        """Says why a row is refused; `line` stands for it on standard output."""
        click.echo(f"line {row.number} refused: {error}", err=True)
        self._refused += 1
        self._write(line)

    def _write(self, line):
        with self._lock:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
            sys.stdout.buffer.flush()
            self._written += 1

    def __enter__(self):
        self._signals = ended_by_signals(self._last_words)
        self._signals.__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._signals.__exit__(None, None, None)
        if kind is None and self._refused:
            click.echo(f"{self._refused:,} of {self._written:,} lines refused", err=True)
            if not self._answered:
                raise click.exceptions.Exit(1)

    def _last_words(self):
        # Not after half a line; but what reads the output may have stopped reading.
        self._lock.acquire(timeout=1)
        return f"{self._written:,} lines written."


@contextlib.contextmanager
def ended_by_signals(last_words):
    """Within it SIGINT and SIGTERM end the process at once, with the signal's own status.

    Python would wait for TensorFlow to return. What `last_words()` returns goes to standard error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may set what signals do.
        return
    # The system's handler writes the signal's number to the socket, whatever Python is doing.
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def watch():
        with ours:
            while number := ours.recv(1):
                if number[0] in _NAMES:
                    click.echo(f"{_NAMES[number[0]]}: {last_words()}", err=True)
                    os._exit(128 + number[0])

    with contextlib.ExitStack() as stack:
        stack.callback(theirs.close)
        stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(theirs.fileno()))
        for number in _NAMES:
            if signal.getsignal(number) != signal.SIG_IGN:
                before = signal.signal(number, lambda *_: None)
                stack.callback(signal.signal, number, before)
        threading.Thread(target=watch, daemon=True).start()
        yield


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
