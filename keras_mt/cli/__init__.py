"""The command `keras-mt`: a thin layer over training, evaluation, export and translation."""

import click

from keras_mt.cli import (
    align,
    average,
    back_translate,
    clean,
    compare,
    demo,
    evaluate,
    export,
    import_,
    score,
    shortlist,
    train,
    translate,
    translate_files,
)
from keras_mt.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main():
    """Train a translator, measure it, export it, translate with it.

    \b
    keras-mt train --data phrasebook --source pt --target en --output runs/pt_en
    keras-mt evaluate runs/pt_en --data phrasebook --source pt --target en --split test
    keras-mt export runs/pt_en saved_models/pt_en/1
    echo "O livro está em cima da mesa." | keras-mt translate saved_models/pt_en
    """


main.add_command(align.align)
main.add_command(average.average)
main.add_command(back_translate.back_translate)
main.add_command(clean.clean)
main.add_command(compare.compare)
main.add_command(demo.demo)
main.add_command(evaluate.evaluate)
main.add_command(export.export)
main.add_command(import_.import_)
main.add_command(score.score)
main.add_command(shortlist.shortlist)
main.add_command(train.train)
main.add_command(translate.translate)
main.add_command(translate_files.translate_files)
