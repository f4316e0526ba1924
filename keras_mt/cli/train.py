"""`keras-mt train`."""

import os
from pathlib import Path

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.options import DATA_HELP, SOURCE_HELP, TARGET_HELP, given, options_of
from keras_mt.options import TrainingOptions

# The NVIDIA driver's folder of GPUs.
_GPUS = Path("/proc/driver/nvidia/gpus")


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
    type=lambda text: text.partition("=")[::2],  # What is no pair is refused later, by name.
    multiple=True,
    metavar="SOURCE-TARGET=DATA",
    help="In place of --data, --source and --target, for a model of several languages: a corpus "
    "and its two languages, such as en-de=my_corpus; repeat it for each direction.",
)
@click.option("--output", required=True, type=click.Path(), help="Run folder to write.")
@options_of(TrainingOptions)
def train(**options):
    """Train a translator from parallel text.

    Writes a run folder: model.keras, tokenizer.model, config.json, log.csv, training.png,
    checkpoints/. Give the same command again to resume a run that was stopped; give it with more
    --epochs or --steps to continue a run with a preset that has finished.

    Without --preset, --init or another --architecture, the recipe is fitted to the corpus.

    \b
    keras-mt train --data my_corpus --source en --target de --output runs/en_de
    keras-mt train --pair en-de=corpus --pair de-en=corpus --pair en-fr=other --output runs/several
    """
    from keras_mt.training import train

    options = given(options)
    if "data" in options:
        options["data"] = list(options["data"])
    if "pairs" in options:
        names = [pair for pair, _ in options["pairs"]]
        if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
            raise click.UsageError(f"--pair {twice} is given twice: a pair has one corpus.")
        options["pairs"] = dict(options["pairs"])
    if "model" in options:
        options["model"] = dict(options["model"])
    if _has_unusable_gpu():
        click.echo(
            "There is an NVIDIA GPU that TensorFlow cannot use; with KERAS_MT_DEBUG=1 it says why.",
            err=True,
        )
    train(**options, report=click.echo)


def _has_unusable_gpu():
    import tensorflow as tf

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(_GPUS.glob("*")) and not tf.config.list_physical_devices("GPU")
