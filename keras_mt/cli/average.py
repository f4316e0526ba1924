"""`keras-mt average`."""

import click

from keras_mt.cli.command import Command


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@click.option("--last", type=int, default=5, show_default=True, help="Number of checkpoints.")
@click.option(
    "--architecture", metavar="MODULE:CLASS", help="The model's class, if it is your own."
)
def average(run_dir, output, last, architecture):
    """Average the last checkpoints of a run, finished or not, into a new run folder.

    \b
    keras-mt average runs/en_de runs/en_de_averaged --last 10
    """
    from keras_mt.training.checkpoints import average_run

    average_run(run_dir, output, last, architecture=architecture)
    click.echo(f"averaged {last} checkpoints into {output}")
