"""The command `keras-mt`: a thin layer over training, evaluation, export and translation."""

import importlib
from collections.abc import Mapping

import click

from keras_mt.cli.help import WithExamples
from keras_mt.version import __version__

_NAMES = (
    "align", "average", "clean", "evaluate", "export", "glossary", "import", "info", "score",
    "serve", "shortlist", "train", "translate", "translate-files", "trim",
)  # fmt: skip
# Each is a module here, and a function in it, of these names.
_FUNCTIONS = {name: name.replace("-", "_") for name in _NAMES} | {"import": "import_"}


class _Commands(Mapping):
    """The commands by their names, each imported when it is asked for."""

    def __getitem__(self, name):
        function = _FUNCTIONS[name]
        return getattr(importlib.import_module(f"keras_mt.cli.{function}"), function)

    def __iter__(self):
        return iter(_FUNCTIONS)

    def __len__(self):
        return len(_FUNCTIONS)


class _Group(WithExamples, click.Group):
    """All commands."""


@click.group(
    cls=_Group,
    commands=_Commands(),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__)
def main():
    """Train a translator, measure it, export it, translate with it.

    `keras-mt COMMAND --help` shows the common options, --help-all shows all.

    \b
    keras-mt train --data phrasebook --source pt --target en --output runs/pt_en
    keras-mt evaluate runs/pt_en --data phrasebook --source pt --target en
    keras-mt export runs/pt_en saved_models/pt_en/1
    echo "O livro está em cima da mesa." | keras-mt translate saved_models/pt_en
    """
