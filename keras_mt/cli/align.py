"""`keras-mt align`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import MODEL, model_options, option
from keras_mt.cli.output import error_as_json, to_json, write_answers


@click.command(cls=Command)
@click.argument("model", type=MODEL)
@click.argument("source", type=click.File("rb"), metavar="SOURCE_FILE")
@click.argument("target", type=click.File("rb"), metavar="[TARGET_FILE]", required=False)
@option("--pharaoh", is_flag=True, help="Write links of words, such as 0-0 1-2.")
@model_options
def align(model, source, target, pharaoh, **options):
    """Show which source tokens each target token attends to.

    For each line of SOURCE_FILE it writes a JSON object with the pieces of both sides and
    `attention`: one row per target piece, which sums to 1 over the source pieces. Without
    TARGET_FILE it aligns the model's own translation. A line that is skipped gives an object with
    the error.

    With --pharaoh, a link is the index of the source word that a target word attends to most, and
    that of the target word, from 0. White space separates words. A line that is skipped is blank.

    \b
    keras-mt align runs/en_de in.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt --pharaoh > links.txt
    """
    if pharaoh and target is None:
        raise click.UsageError("--pharaoh needs TARGET_FILE, whose words it links.")
    files = [file for file in (source, target) if file is not None]
    check_standard_input(*files)
    translator = load_translator(model, options)
    if pharaoh:
        from keras_mt.alignment.links import pharaoh_line

        write_answers(translator.align_words, files, lambda row, links: pharaoh_line(links))
    else:
        write_answers(translator.align, files, _as_json, error_as_json)


def _as_json(row, alignment):
    pieces, target_pieces, attention = alignment
    weights = [[round(float(x), 4) for x in weights] for weights in attention]
    return to_json({"source": pieces, "target": target_pieces, "attention": weights})
