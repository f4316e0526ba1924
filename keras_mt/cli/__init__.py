"""The command `keras-mt`: a thin layer over training, evaluation, export and translation."""

import importlib

import click

from keras_mt.version import __version__

# Each is a module here, and a function in it.
_COMMANDS = (
    *("align", "average", "clean", "evaluate", "export"),
    *("import_", "score", "shortlist", "train", "translate", "translate_files"),
)


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


for name in _COMMANDS:
    main.add_command(getattr(importlib.import_module(f"keras_mt.cli.{name}"), name))
