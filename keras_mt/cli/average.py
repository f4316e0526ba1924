"""`keras-mt average`."""

import click

from keras_mt.cli.command import Command


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@click.option("--last", type=int, default=5, show_default=True, help="Number of checkpoints.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Dtype of the weights that are written; computation is in float32 either way.",
)
@click.option(
    "--architecture", metavar="MODULE:CLASS", help="The model's class, if it is your own."
)
def average(run_dir, output, last, dtype, architecture):
    """Average the last checkpoints of a run, finished or not, into a new run folder.

    \b
    keras-mt average runs/en_de runs/en_de_averaged --last 10
    """
    from keras_mt.training import average_run

    average_run(run_dir, output, last, dtype, architecture)
    click.echo(f"averaged {last} checkpoints into {output}")
