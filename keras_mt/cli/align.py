"""`keras-mt align`."""

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.lines import check_standard_input, columns_of, row_blocks
from keras_mt.cli.models import load_run, ready
from keras_mt.cli.options import architecture_option, ensemble_option, options_of
from keras_mt.cli.output import Output, to_json
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"), required=False)
@ensemble_option
@architecture_option
@options_of(LanguageOptions)
def align(run_dir, source, target, **search):
    """Show which source tokens each target token attends to.

    For each line of SOURCE, writes a JSON object with the pieces of both sides and `attention`: one
    row per target piece, which sums to 1 over the source pieces. Without TARGET, the model's own
    translation is aligned. A line that is refused gives an object with the error, and a message.

    \b
    keras-mt align runs/en_de in.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt > alignments.jsonl
    """
    files = [file for file in (source, target) if file is not None]
    check_standard_input(*files)
    translator = ready(load_run(run_dir, **search))
    with Output() as output:
        for rows in row_blocks(*files):
            results = translator.align(*columns_of(rows))
            for i, (row, alignment) in enumerate(zip(rows, results, strict=True)):
                if error := row.error or results.refusals.get(i):
                    output.refuse(row, error, to_json({"error": error}))
                    continue
                pieces, target_pieces, attention = alignment
                weights = [[round(float(weight), 4) for weight in weights] for weights in attention]
                fields = {"source": pieces, "target": target_pieces, "attention": weights}
                output.write(row, to_json(fields))
