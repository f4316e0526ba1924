"""`keras-mt average`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import architecture_option, count_option


@click.command(cls=Command)
@click.argument("run", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@count_option("--last", default=5, help="Average this many.")
@architecture_option()
def average(run, output, last, architecture):
    """Average the last checkpoints of a run into a new run.

    RUN may still be in training.

    \b
    keras-mt average runs/en_de runs/en_de_averaged --last 10
    """
    from keras_mt.training.checkpoints import average_run

    average_run(run, output, last, architecture=architecture)
    click.echo(f"averaged {last} checkpoints into {output}")
