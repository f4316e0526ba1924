"""`keras-mt clean`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import data_options


@click.command(cls=Command)
@data_options
@click.option(
    "--output", required=True, type=click.Path(), metavar="FOLDER", help="Corpus folder to write."
)
@click.option(
    "--identify",
    is_flag=True,
    help="Also drop pairs in other languages (the rule language). It needs pip install "
    "'keras_mt[langid]'.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="RULE",
    help="A rule to leave out: empty, long, ratio, copy, markup, script, numbers, language or "
    "duplicate; may be repeated.",
)
def clean(output, **options):
    """Drop pairs of a corpus that are unlikely to be translations.

    Of the training split it drops blank or very long sides, sides of unlike lengths, copies of the
    source, other scripts, left-over markup, other numbers, and repeated pairs. A table says what
    each rule dropped, with examples, and cleaning.json in FOLDER has it too. Other splits are
    copied without lines that are blank or not UTF-8. Training takes FOLDER as its --data.

    \b
    keras-mt clean --data my_corpus --source en --target de --output cleaned
    keras-mt clean --data memory.tmx.gz --source en --target de --output cleaned --without numbers
    """
    from keras_mt.data.cleaning import clean

    clean(output=output, report=click.echo, **options)
    click.echo(f"wrote {output}")
