"""`keras-mt train`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import DATA_HELP, SOURCE_HELP, TARGET_HELP, given, options_of
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
@click.option(
    "--data",
    multiple=True,
    help=f"{DATA_HELP} It may be repeated: the first one is used for validation.",
)
@click.option("--source", help=SOURCE_HELP)
@click.option("--target", help=TARGET_HELP)
@click.option(
    "--pair",
    "pairs",
    multiple=True,
    callback=_pairs,
    metavar="SOURCE-TARGET=DATA",
    help="In place of --data, --source and --target, for a model of several languages: a corpus "
    "and its two languages, such as en-de=my_corpus; repeat it for each direction.",
)
@click.option("--output", required=True, type=click.Path(), help="Run folder to write.")
@options_of(TrainingOptions)
def train(**options):
    """Train a translator from parallel text.

    Writes a run folder: model.keras, tokenizer.model, config.json, log.csv, training.png,
    checkpoints/. Give the same command again to resume a run that was stopped. Give it with more
    --epochs or --steps to continue a run with a preset that has finished.

    Without --preset, --init or another --architecture, the recipe is fitted to the corpus.

    \b
    keras-mt train --data my_corpus --source en --target de --output runs/en_de
    keras-mt train --pair en-de=corpus --pair de-en=corpus --pair en-fr=other --output runs/several
    """
    from keras_mt.convert.hub import local_run
    from keras_mt.training import train

    options["init"] = options["init"] and local_run(options["init"])
    train(**given(options), report=click.echo)
