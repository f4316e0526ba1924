"""`keras-mt clean`."""

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.models import load_run, ready
from keras_mt.cli.options import architecture_option, cleaning_options, flag_of, given, options_of
from keras_mt.options import LanguageOptions


@click.command(cls=Command, interrupted="stopped; give the same command again to go on.")
@cleaning_options
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes; more pay from some hundred thousand pairs on, with --identify.",
)
@click.option(
    "--model",
    type=click.Path(exists=True, file_okay=False),
    metavar="RUN_DIR",
    help="Also drop pairs that have nothing to do with each other according to this run, a "
    "translator from SOURCE to TARGET: the rule score.",
)
@click.option(
    "--min-gain",
    type=click.FloatRange(0, 1),
    default=0.25,
    show_default=True,
    metavar="SHARE",
    help="With --model, the least that its own source must gain a target's log-probability per "
    "token, over another pair's source: a share of what the median pair gains.",
)
@architecture_option
@options_of(LanguageOptions)
def clean(model, architecture, source_language, target_language, output, **options):
    """Drop pairs of a corpus that are hardly translations.

    Blank sides, very long ones and such of unlike lengths, copies of the source, other scripts,
    left-over markup, other numbers, and repeated pairs are dropped from the training split; a table
    says what each rule dropped, with examples, and cleaning.json in FOLDER has it too. Other splits
    are copied, without blank lines and such that are not UTF-8. Training takes FOLDER as its --data.

    With --model, each pair that is left is scored twice, with its own source and with another's.

    Give the same command again to go on with a cleaning that was stopped.

    \b
    keras-mt clean --data my_corpus --source en --target de --output cleaned
    keras-mt clean --data memory.tmx.gz --source en --target de --output cleaned --without numbers
    keras-mt clean --data my_corpus --source en --target de --output cleaned --model runs/en_de
    """
    from keras_mt.data import clean

    languages = {"source_language": source_language, "target_language": target_language}
    translator = None
    if model:
        run = load_run(model, architecture=architecture, **languages)
        translator = ready(run, languages, (options["source"], options["target"]))
    elif unused := [*given({"architecture": architecture, **languages})]:
        raise click.UsageError(f"{flag_of(unused[0])} needs --model.")
    clean(output=output, translator=translator, report=click.echo, **options)
    click.echo(f"wrote {output}")
