"""Lines on standard output, each as soon as it is done, whatever ends the command."""

import contextlib
import json
import os
import sys

import click

from keras_mt.cli.input import answers
from keras_mt.cli.options import as_typed


def error_as_json(row, error):
    return to_json({"error": error})


def write_answers(function, files, as_line, as_error=None):
    """Writes a line for each row of parallel files: of a function's result, or of an error.

    Without `as_error` the latter is blank. At the end it says how many rows were skipped, and exits
    with 1 if all were.
    """
    written = skipped = 0
    with progress_bar() as progress:
        for row, result, error in answers(function, *files):
            if error:
                line = as_error(row, error) if as_error else ""
                click.echo(f"line {row.number} skipped: {as_typed(error)}", err=True)
                skipped += 1
            else:
                line = as_line(row, result)
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
            sys.stdout.buffer.flush()
            written += 1
            progress(written)
    if skipped:
        click.echo(f"{skipped:,} of {written:,} lines skipped", err=True)
        if skipped == written:
            raise click.exceptions.Exit(1)


def to_json(value):
    """JSON; a number that is not finite becomes null."""
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False)


def confidence_fields(hypothesis):
    """The measures of confidence in a hypothesis, for JSON."""
    worst = hypothesis.worst_token
    return {
        "mean_log_prob": round(hypothesis.mean_log_prob, 6),
        "worst_token": worst and (worst[0], round(worst[1], 6)),
        "warnings": hypothesis.warnings,
    }


@contextlib.contextmanager
def hushed():
    """Discards standard error, native code's too, unless KERAS_MT_DEBUG is set."""
    if os.environ.get("KERAS_MT_DEBUG"):
        yield
        return
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextlib.contextmanager
def progress_bar():
    """Yields a function that is told the lines that are done, and all; it shows them to people."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from tqdm import tqdm

    with tqdm(unit=" lines", file=sys.stderr) as bar:

        def show(done, total=None):
            bar.total = total
            bar.update(done - bar.n)

        yield show
