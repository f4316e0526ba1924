"""`keras-mt score`."""

import math
from collections import Counter

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import MODEL, model_options, option
from keras_mt.cli.output import error_as_json, to_json, write_answers
from keras_mt.cli.progress import say


@click.command(cls=Command)
@click.argument("model", type=MODEL)
@click.argument("source", type=click.File("rb"), metavar="SOURCE_FILE")
@click.argument("target", type=click.File("rb"), metavar="TARGET_FILE")
@option("--json", "as_json", is_flag=True, help="Write a JSON object per line, with each token.")
@model_options
def score(model, source, target, as_json, **options):
    """Score translations by their probability under a model.

    For each line of both files it writes the log-probability of the target and the perplexity of
    its tokens, separated by a tab. Those of all lines together go to standard error. A skipped line
    gives an empty line, with --json an object with the error, and a message.

    \b
    keras-mt score runs/en_de in.txt reference.txt > scores.tsv
    """
    check_standard_input(source, target)
    translator = load_translator(model, options)
    totals = Counter()

    def as_line(row, result):
        totals.update(log_prob=result.log_prob, tokens=len(result.tokens))
        fields = {"log_prob": result.log_prob, "perplexity": result.perplexity}
        if as_json:
            return to_json({**fields, "tokens": result.tokens})
        return "\t".join(f"{value:.4f}" for value in fields.values())

    as_error = error_as_json if as_json else None
    write_answers(translator.score, (source, target), as_line, as_error)
    if totals["tokens"]:
        perplexity = math.exp(-totals["log_prob"] / totals["tokens"])
        say(f"log-probability {totals['log_prob']:.2f}, perplexity {perplexity:.4f}")
