"""`keras-mt train`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import FOLDER, data_options, given, option, options_of
from keras_mt.cli.progress import suggest_run
from keras_mt.options import TrainingOptions


def _pairs(context, option, values):
    """The corpora by their languages; what is no pair is refused later, by name."""
    pairs = {}
    for pair, _, data in (value.partition("=") for value in values):
        if pair in pairs:
            raise click.UsageError(f"--pair {pair} is given twice: a pair has one corpus.")
        pairs[pair] = data
    return pairs or None


@click.command(
    cls=Command,
    interrupted="stopped; give the same command again to resume from the last checkpoint.",
)
@data_options(required=(), multiple=True)
@option(
    "--pair",
    "pairs",
    multiple=True,
    callback=_pairs,
    metavar="SOURCE-TARGET=CORPUS",
    help="Train on several pairs of languages, in place of --data.",
)
@option("--output", type=FOLDER, required=True, help="Write this run.")
@options_of(TrainingOptions)
def train(**options):
    """Train a translator from parallel text.

    The run folder has model.keras, tokenizer.model, config.json, log.csv, training.png and
    checkpoints/. The same command resumes a run that was stopped; with more --epochs or --steps it
    continues a finished run with a preset.

    \b
    keras-mt train --data my_corpus --source en --target de --output runs/en_de
    keras-mt train --pair en-de=corpus --pair de-en=corpus --output runs/both
    """
    from keras_mt.convert.hub import local_run
    from keras_mt.training import train

    options["init"] = options["init"] and local_run(options["init"])
    run = train(**given(options), report=click.echo)
    suggest_run(run, options["architecture"])
