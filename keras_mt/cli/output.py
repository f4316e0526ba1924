"""Lines on standard output, each as soon as it is done, whatever ends the command."""

import json
import sys

import click

from keras_mt.cli.input import count_lines, row_blocks
from keras_mt.cli.options import as_typed
from keras_mt.cli.progress import is_watched, progress_bar, say


def error_as_json(row, error):
    return to_json({"error": error})


def write_answers(function, files, as_line, as_error=None):
    """Writes a line for each row of parallel files: of a function's result, or of an error.

    Without `as_error` the latter is blank. At the end it says how many rows were skipped, and exits
    with 1 if all were.
    """
    written = skipped = 0
    is_seen = sys.stdout.isatty()  # The lines themselves show the progress then.
    total = count_lines(files[0]) if is_watched() else None
    with progress_bar(not is_seen) as progress:
        progress(0, total)
        for rows in row_blocks(*files):
            texts = [[""] * len(row.texts) if row.error else row.texts for row in rows]
            results = function(*map(list, zip(*texts, strict=True)))
            for i, (row, result) in enumerate(zip(rows, results, strict=True)):
                if error := row.error or results.refusals.get(i):
                    line = as_error(row, error) if as_error else ""
                    say(f"line {row.number} skipped: {as_typed(error)}")
                    skipped += 1
                else:
                    line = as_line(row, result)
                sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
                sys.stdout.buffer.flush()
                written += 1
            progress(written, total)
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
