"""`keras-mt trim`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import DATA_HELP, SOURCE_HELP, TARGET_HELP, Model, file_option


@click.command(cls=Command)
@click.argument("run_dir", type=Model())
@click.argument("output", type=click.Path())
@click.option(
    "--data",
    multiple=True,
    required=True,
    help=f"{DATA_HELP} Any other file is text of either side, line by line. May be repeated.",
)
@click.option("--source", help=f"{SOURCE_HELP}  [default: that of the run]")
@click.option("--target", help=f"{TARGET_HELP}  [default: that of the run]")
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="CODE",
    help="A language to keep, by the model's code; may be repeated.  [default: all]",
)
@click.option(
    "--vocab-size",
    type=click.IntRange(min=1),
    help="The maximum number of tokens: the most frequent ones.  [default: all that occur]",
)
@file_option("--shortlist", "A shortlist of the run, to be written for OUTPUT: OUTPUT/shortlist.")
@click.option(
    "--architecture", metavar="MODULE:CLASS", help="The model's class, if it is your own."
)
def trim(run_dir, output, **options):
    """Make a run's vocabulary smaller: the pieces that your texts need, and no others.

    It keeps the rows of the model for the pieces that occur in the corpora, of all their splits,
    and single characters, bytes and special tokens. Text of which all pieces are kept is translated
    as before. The new run folder OUTPUT can be fine-tuned and exported as any other.

    \b
    keras-mt trim runs/nllb runs/nllb_en_de --data my_corpus --source en --target de
    keras-mt trim runs/madlad runs/madlad_de --data notes.txt --language de --vocab-size 20000
    """
    from keras_mt.convert import trim

    trimmed = trim(run_dir, output, **options).trimmed
    sizes = (" and ".join(f"{n:,}" for n in dict.fromkeys(trimmed[x])) for x in ("after", "before"))
    click.echo(f"kept {' of '.join(sizes)} tokens in {output}")
