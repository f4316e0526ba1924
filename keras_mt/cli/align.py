"""`keras-mt align`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import Model, architecture_option, ensemble_option, options_of
from keras_mt.cli.output import error_as_json, to_json, write_answers
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("model", type=Model(), metavar="RUN_DIR_OR_EXPORT")
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"), required=False)
@click.option(
    "--pharaoh",
    is_flag=True,
    help="Write links of words, such as 0-0 1-2, instead of attention; it needs TARGET.",
)
@ensemble_option
@architecture_option
@options_of(LanguageOptions)
def align(model, source, target, pharaoh, **options):
    """Show which source tokens each target token attends to.

    For each line of SOURCE, writes a JSON object with the pieces of both sides and `attention`: one
    row per target piece, which sums to 1 over the source pieces. Without TARGET, the model's own
    translation is aligned. A line that is skipped gives an object with the error, and a message.

    With --pharaoh it writes the links of each line's words, which white space separates. A link is
    the index of a target word, from 0, after that of the source word that it attends to most. A
    line that is skipped is blank then.

    \b
    keras-mt align runs/en_de in.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt --pharaoh > links.txt
    """
    if pharaoh and target is None:
        raise click.UsageError("--pharaoh needs TARGET, whose words the links are of.")
    files = [file for file in (source, target) if file is not None]
    check_standard_input(*files)
    translator = load_translator(model, options)
    if pharaoh:
        from keras_mt.alignment.pharaoh import pharaoh_line

        write_answers(translator.align_words, files, lambda row, links: pharaoh_line(links))
    else:
        write_answers(translator.align, files, _as_json, error_as_json)


def _as_json(row, alignment):
    pieces, target_pieces, attention = alignment
    weights = [[round(float(x), 4) for x in weights] for weights in attention]
    return to_json({"source": pieces, "target": target_pieces, "attention": weights})
