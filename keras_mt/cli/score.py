"""`keras-mt score`."""

import math
from collections import Counter

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import Model, architecture_option, ensemble_option, options_of
from keras_mt.cli.output import error_as_json, to_json, write_answers
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("model", type=Model(), metavar="RUN_DIR_OR_EXPORT")
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"))
@ensemble_option
@architecture_option
@options_of(LanguageOptions)
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per line, with each token."
)
def score(model, source, target, as_json, **options):
    """Score given translations: how probable they are under the model.

    For each line of SOURCE and TARGET, writes the log-probability of the target and the perplexity
    of its tokens, separated by a tab. At the end it writes those of all lines together to standard
    error. A line that is skipped gives an empty line, with --json an object with the error, and a
    message.

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
        click.echo(
            f"log-probability {totals['log_prob']:.2f}, perplexity {perplexity:.4f}", err=True
        )
