"""`keras-mt back-translate`."""

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import cleaning_options, files_argument, search_options
from keras_mt.cli.output import ended_by_signals


@click.command(cls=Command)
@click.argument("model", type=click.Path(exists=True), metavar="RUN_DIR_OR_SAVED_MODEL")
@files_argument
@cleaning_options
@click.option(
    "--min-score",
    type=float,
    help="Drop translations with a lower score, by --length-penalty 1 the mean log-probability of "
    "the tokens.  [default: none]",
)
@search_options
def back_translate(
    model, files, data, source, target, output, identify, without, min_score, **search
):
    """Make training pairs of text in the target's language alone.

    Translates each line of the FILEs, which are in the language TARGET, into SOURCE: the model is
    one for this direction. FOLDER gets the translations as sources and the lines as targets;
    training takes it as one more --data. Lines that are in DATA's validation and test splits are
    dropped, and a file that holds more than a tenth of one is refused.

    The rules of clean drop what is hardly text, or hardly a translation; a table, which
    cleaning.json has too, says how much. With --temperature translations are sampled.

    Give the same command again to go on with what was stopped.

    \b
    keras-mt back-translate runs/de_en de.txt --data DATA --source en --target de --output back
    """
    from keras_mt.training import back_translate

    if search["n_best"] not in (None, 1):
        raise click.UsageError("--n-best must be 1: each line gets one translation.")
    with ended_by_signals(lambda: "give the same command again to go on."):
        back_translate(
            load_translator(model, search, (target, source)),
            files,
            data,
            source,
            target,
            output,
            identify=identify,
            without=without,
            min_score=min_score,
            report=click.echo,
        )
    click.echo(f"wrote {output}")
