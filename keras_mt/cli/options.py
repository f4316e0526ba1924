"""The options of the commands: those that several share, and those of a dataclass of options."""

import contextlib
import dataclasses
import functools
import json
import re

import click

from keras_mt.cli.help import option
from keras_mt.cli.progress import quiet_option
from keras_mt.convert.hub import hub_name
from keras_mt.options import LanguageOptions, TranslationOptions
from keras_mt.options.fields import field_type

# The words of a message that may be names of options, and what tells that they are.
_NAMES = re.compile(r"`(\w+)`|(?<![\w./`'-])(\w+)(?![\w/]|\.\w)(=?)")
_VERBS = " must ", " needs ", " goes ", " does ", " was "


def _settings(context, option, values):
    """A dict from KEY=VALUE several times: JSON if it can be parsed as such, else a string."""
    settings = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter("it must be KEY=VALUE, such as num_layers=2.")
        with contextlib.suppress(ValueError):
            value = json.loads(value)
        settings[key] = value
    return settings or None


def option_of(field):
    """The option for a field of a dataclass of options; its value is None unless given."""
    metadata = field.metadata
    flag = metadata["flag"] or "--" + field.name.replace("_", "-")
    default = metadata["default_text"] if field.default is None else field.default
    default = "yes" if default is True else default
    default = "" if default is False else f"  [default: {default}]"
    settings = {"default": None, "help": metadata["help"] + default, "metavar": metadata["metavar"]}
    if field_type(field) is bool:
        settings["is_flag"] = True
    elif field_type(field) in (int, float):
        settings["type"] = field_type(field)
    elif metadata["choices"]:
        settings["type"] = click.Choice(metadata["choices"], case_sensitive=False)
    elif metadata["metavar"] == "KEY=VALUE":
        settings.update(multiple=True, callback=_settings)
    elif not isinstance(field_type(field), type):  # A sequence of integers.
        settings.update(type=int, multiple=True)
    return option(flag, field.name, **settings)


def as_typed(message):
    """A message in which options of the running command stand as users type them.

    A name counts where it cannot be a word: with an underscore, a value (`seed=1`) or backticks, or
    before a verb at the beginning ("seed must be ...").
    """
    context = click.get_current_context(silent=True)
    params = context.command.params if context else ()
    options = {param.name: param for param in params if isinstance(param, click.Option)}

    def typed(match):
        marked, name, equals = match.groups()
        begins = match.start() == 0 and message.startswith(_VERBS, match.end())
        is_name = marked or equals or begins or "_" in name
        option = options.get(marked or name)
        return f"{option.opts[-1]}{equals or ''}" if option and is_name else match[0]

    return _NAMES.sub(typed, message)


def options_of(cls, without=()):
    """A decorator that adds the option for each field of a dataclass."""

    def decorate(function):
        for field in reversed(dataclasses.fields(cls)):
            if field.name not in without:
                function = option_of(field)(function)
        return function

    return decorate


_CORPUS = {
    "target": ("CODE", "Take the target in this language, such as de."),
    "source": ("CODE", "Take the source in this language, such as en."),
    "data": ("CORPUS", "Read this corpus: a folder of text, .tsv, .tmx, tfds:NAME or phrasebook."),
}


def data_options(required=tuple(_CORPUS), multiple=False):
    """A decorator that adds the options of a corpus, or with `multiple` of several."""

    def decorate(function):
        for name, (metavar, text) in _CORPUS.items():
            settings = {"required": name in required, "multiple": multiple and name == "data"}
            function = option(f"--{name}", metavar=metavar, help=text, **settings)(function)
        return function

    return decorate


class Model(click.Path):
    """A folder, or the name of a model on the hub."""

    def __init__(self, name):
        super().__init__(exists=True)
        self.name = name

    def convert(self, value, param, ctx):
        return value if hub_name(value) else super().convert(value, param, ctx)


RUN, MODEL = Model("run"), Model("model")  # The latter may be an export, too.
FILE = click.Path(exists=True, dir_okay=False)
FOLDER = click.Path(file_okay=False)
count_option = functools.partial(option, type=click.IntRange(min=1))

architecture_option = functools.partial(
    option, "--architecture", metavar="MODULE:CLASS", help="Load models of this class of your own."
)
_ensemble_option = option(
    "--ensemble", multiple=True, type=RUN, help="Average probabilities with this run's."
)
_shortlist_option = option(
    "--shortlist", type=FILE, help="Compute logits only of the tokens that this file lists."
)
_glossary_option = option(
    "--glossary", type=FILE, help="Use these terms: lines SOURCE<TAB>TARGET, or a term to keep."
)
markup_option = option("--markup", type=click.Choice(["html"]), help="Read each line as HTML.")
n_best_option = option_of(TranslationOptions.__dataclass_fields__["n_best"])


def model_options(function, cls=LanguageOptions, without=()):
    """Adds the options of a dataclass, and those of every command that computes with models."""
    function = _ensemble_option(architecture_option(multiple=True)(quiet_option(function)))
    return options_of(cls, without)(function)


def search_options(function):
    """Adds the options of a `Translator` but `n_best`, as of an export."""
    return model_options(_shortlist_option(function), TranslationOptions, without=("n_best",))


def translation_options(function):
    """Adds the options of what translates: those of a search, and a glossary."""
    return _glossary_option(search_options(function))


def given(options):
    """The options that are given, by name."""
    return {name: value for name, value in options.items() if value not in (None, ())}
