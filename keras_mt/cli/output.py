"""Lines on standard output, each as soon as it is done, whatever ends the command."""

import json
import sys

import click

from keras_mt.cli.input import answers
from keras_mt.cli.options import as_typed


def blank(row, error):
    return ""


def error_as_json(row, error):
    return to_json({"error": error})


def write_answers(function, files, as_line, as_error=blank):
    """Writes a line for each row of parallel files: of a function's result, or of an error.

    At the end it says how many rows were skipped, and exits with 1 if all were.
    """
    written = skipped = 0
    try:
        with progress_bar(None) as progress:
            for row, result, error in answers(function, *files):
                line = as_error(row, error) if error else as_line(row, result)
                if error:
                    click.echo(f"line {row.number} skipped: {as_typed(error)}", err=True)
                    skipped += 1
                sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
                sys.stdout.buffer.flush()
                written += 1
                progress.update()
    except BaseException as error:
        if written and not isinstance(error, BrokenPipeError):  # Nobody reads on after that.
            click.echo(f"{written:,} lines written", err=True)
        raise
    if skipped:
        click.echo(f"{skipped:,} of {written:,} lines skipped", err=True)
        if skipped == written:
            raise click.exceptions.Exit(1)


def to_json(value):
    """JSON; a number that is not finite becomes null."""
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False)


def progress_bar(total):
    from tqdm import tqdm

    return tqdm(total=total, unit=" lines", file=sys.stderr, disable=not sys.stderr.isatty())
