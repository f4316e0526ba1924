"""`keras-mt clean`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import FOLDER, data_options, option


@click.command(cls=Command)
@data_options()
@option("--output", type=FOLDER, required=True, help="Write this corpus folder.")
@option("--identify", is_flag=True, help="Also drop pairs in other languages (extra `langid`).")
@option("--without", multiple=True, metavar="RULE", help="Leave out this rule, such as numbers.")
def clean(output, **options):
    """Drop pairs that are unlikely to be translations.

    The rules, for the training split, are empty, long, ratio (sides of unlike lengths), copy (of
    the source), markup, script, numbers, language (with --identify) and duplicate. A table shows
    what each one dropped, with examples; cleaning.json in the output has it too. Other splits lose
    only lines that are blank or not UTF-8. `keras-mt train --data` takes the output.

    \b
    keras-mt clean --data my_corpus --source en --target de --output cleaned
    keras-mt clean --data memory.tmx.gz --source en --target de --output cleaned \\
        --without numbers
    """
    from keras_mt.data.cleaning import clean

    clean(output=output, report=click.echo, **options)
    click.echo(f"wrote {output}")
