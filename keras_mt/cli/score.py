"""`keras-mt score`."""

import math

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.input import answers, check_standard_input
from keras_mt.cli.models import load_run, ready
from keras_mt.cli.options import architecture_option, ensemble_option, options_of
from keras_mt.cli.output import Output, to_json
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"))
@ensemble_option
@architecture_option
@options_of(LanguageOptions)
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per line, with each token."
)
def score(run_dir, source, target, as_json, **options):
    """Score given translations: how probable they are under the model.

    For each line of SOURCE and TARGET, writes the log-probability of the target and the perplexity
    of its tokens, separated by a tab; at the end, on standard error, those of all lines together. A
    line that is refused gives an empty line and a message.

    \b
    keras-mt score runs/en_de in.txt reference.txt > scores.tsv
    """
    check_standard_input(source, target)
    translator = ready(load_run(run_dir, **options))
    total = tokens = 0
    with Output() as output:
        for row, result, error in answers(translator.score, source, target):
            if error:
                output.refuse(row, error, to_json({"error": error}) if as_json else "")
                continue
            total += result.log_prob
            tokens += len(result.tokens)
            fields = {"log_prob": result.log_prob, "perplexity": result.perplexity}
            plain = "\t".join(f"{value:.4f}" for value in fields.values())
            line = to_json({**fields, "tokens": result.tokens}) if as_json else plain
            output.write(row, line)
    if tokens:
        perplexity = math.exp(-total / tokens)
        click.echo(f"log-probability {total:.2f}, perplexity {perplexity:.4f}", err=True)
