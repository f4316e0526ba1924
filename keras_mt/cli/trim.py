"""`keras-mt trim`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import FILE, RUN, architecture_option, count_option, data_options, option
from keras_mt.cli.progress import quiet_option, suggest_run, waiting


@click.command(cls=Command)
@click.argument("run", type=RUN)
@click.argument("output", type=click.Path())
@data_options(required=("data",), multiple=True)
@option(
    "--language",
    "languages",
    multiple=True,
    metavar="CODE",
    help="Keep this language.  [default: all]",
)
@count_option(
    "--vocab-size", help="Keep this many tokens, the most frequent.  [default: all that occur]"
)
@option("--shortlist", type=FILE, help="Adapt this shortlist, as OUTPUT/shortlist.")
@architecture_option()
@quiet_option
def trim(run, output, **options):
    """Drop the pieces of a vocabulary that your texts lack.

    It keeps the rows of the model for pieces that occur in the corpora, of all their splits, and
    for single characters, bytes and special tokens. Any other file in --data is text of either
    side. Text of which all pieces are kept is translated as before. OUTPUT is a run, which you can
    fine-tune and export. The languages of the corpora are the run's unless given.

    \b
    keras-mt trim runs/nllb runs/nllb_de --data my_corpus --source en --target de
    keras-mt trim runs/madlad runs/madlad_de --data notes.txt --language de \\
        --vocab-size 20000
    """
    from keras_mt.convert import trim
    from keras_mt.convert.hub import local_run

    run = local_run(run)
    with waiting(f"trimming {run}"):
        trimmed = trim(run, output, **options).trimmed
    sizes = (" and ".join(f"{n:,}" for n in dict.fromkeys(trimmed[x])) for x in ("after", "before"))
    click.echo(f"kept {' of '.join(sizes)} tokens in {output}")
    suggest_run(output, options["architecture"])
