"""What people see on standard error: progress, if it is a terminal, and the next command."""

import contextlib
import itertools
import os
import shlex
import shutil
import sys
import threading
import time
from datetime import timedelta

import click

from keras_mt.cli.help import option

_QUIET = "keras_mt.quiet"  # A key of click's context.
_CLEAR = "\r\x1b[K"  # Of the line on which progress is shown.

quiet_option = option(
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, value: context.meta.update({_QUIET: value}),
    help="Show no progress and no next command.",
)


def _is_quiet():
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_QUIET, False)


def is_watched():
    """True if standard error is a terminal, and --quiet is not given."""
    return sys.stderr is not None and sys.stderr.isatty() and not _is_quiet()


def _fitted(line):
    """A line that the terminal does not wrap, since only one can be cleared."""
    return f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}"


def say(message):
    """Writes a line to standard error, in the place of the progress that is shown there."""
    click.echo(f"{_CLEAR if is_watched() else ''}{message}", err=True)


def suggest(path, card, languages, source_language=None, target_language=None, architecture=None):
    """Says which command translates with a run or an export, in a direction that it learned."""
    words = ["keras-mt", "translate", str(path)]
    source, target = source_language, target_language
    if languages and not (source and target):
        default = source or languages[0], target or languages[-1]
        learned = (pair.split("-", 1) for pair in card.get("pairs", ()))
        known = ((a, b) for a, b in learned if {a, b} <= {*languages})
        fitting = ((a, b) for a, b in known if source in (None, a) and target in (None, b))
        a, b = next(fitting, default)
        words += ["--source-language", a, "--target-language", b]
    if architecture and ":" in architecture:
        words += ["--architecture", architecture]
    if not _is_quiet():
        click.echo(f"next: {shlex.join(words)}", err=True)


def suggest_run(path, architecture=None):
    """Says which command translates with a run."""
    from keras_mt.run_folder import RunFolder

    folder = RunFolder(path)
    languages = folder.tokenizer_facts()["languages"]
    codes = folder.config.languages
    suggest(path, folder.card(), languages, **codes, architecture=architecture)


@contextlib.contextmanager
def waiting(what):
    """Shows what goes on and for how long it has, and leaves nothing of it."""
    if not is_watched():
        yield
        return
    ended = threading.Event()

    def show(terminal):
        for seconds in itertools.count():
            line = _fitted(f"{what}, {seconds} s")
            print(line, end="", file=terminal, flush=True)
            if ended.wait(1):
                print(_CLEAR, end="", file=terminal, flush=True)
                return

    with open(os.dup(2), "w") as terminal:  # Wherever standard error leads meanwhile.
        thread = threading.Thread(target=show, args=[terminal])
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextlib.contextmanager
def progress_bar(is_shown=True):
    """Yields a function of the number of lines that are done and, if it is known, of all.

    It shows them, how many are done in a second, and the time that is left.
    """
    if not (is_shown and is_watched()):
        yield lambda done, total=None: None
        return
    begun = []  # The time of the first call, and the lines that were done before.

    def show(done, total=None):
        if not begun:
            begun.extend([time.monotonic(), done])
        line = f"{done:,} of {total:,} lines" if total else f"{done:,} lines"
        if done > begun[1]:
            rate = (done - begun[1]) / (time.monotonic() - begun[0])
            line += f", {rate:,.1f} a second"
            line += f", {timedelta(seconds=int((total - done) / rate))} left" if total else ""
        click.echo(_fitted(line), nl=False, err=True)

    try:
        yield show
    finally:
        if begun:
            click.echo(err=True)
