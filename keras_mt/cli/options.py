"""The options of the commands: those that several share, and those of a dataclass of options."""

import contextlib
import dataclasses
import json
import re

import click

from keras_mt.convert.hub import hub_name
from keras_mt.options import TranslationOptions
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


def option(field):
    """The click option for a field of a dataclass of options; its value is None unless given."""
    metadata = field.metadata
    flag = metadata["flag"] or "--" + field.name.replace("_", "-")
    default = metadata["default_text"] if field.default is None else field.default
    default = "" if isinstance(default, bool) else f"  [default: {default}]"
    settings = {"default": None, "help": metadata["help"] + default, "metavar": metadata["metavar"]}
    if field_type(field) is bool:
        settings["is_flag"] = True
    elif field_type(field) in (int, float):
        settings["type"] = field_type(field)
    elif metadata["choices"]:
        settings["type"] = click.Choice(metadata["choices"], case_sensitive=False)
    elif metadata["metavar"] == "FILE":
        settings["type"] = click.File("rb")
    elif metadata["metavar"] == "KEY=VALUE":
        settings.update(multiple=True, callback=_settings)
    elif not isinstance(field_type(field), type):  # A sequence of integers.
        settings.update(type=int, multiple=True)
    return click.option(flag, field.name, **settings)


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


def options_of(cls):
    """A decorator that adds a click option for each field of a dataclass."""

    def decorate(function):
        for field in reversed(dataclasses.fields(cls)):
            function = option(field)(function)
        return function

    return decorate


DATA_HELP = (
    "tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG files, a .tsv or .tmx file, or phrasebook "
    "(the embedded corpus, pt and en); files may be compressed, .gz or .zst."
)
SOURCE_HELP = "Language code of the source, such as en."
TARGET_HELP = "Language code of the target, such as de."


def data_options(function):
    for flag, text in (("target", TARGET_HELP), ("source", SOURCE_HELP), ("data", DATA_HELP)):
        function = click.option(f"--{flag}", required=True, help=text)(function)
    return function


def file_option(flag, text, **settings):
    file = click.Path(exists=True, dir_okay=False)
    return click.option(flag, type=file, metavar="FILE", help=text, **settings)


class Model(click.Path):
    """A folder, or the name of a model on the hub."""

    def __init__(self):
        super().__init__(exists=True)

    def convert(self, value, param, ctx):
        return value if hub_name(value) else super().convert(value, param, ctx)


ensemble_option = click.option(
    "--ensemble",
    multiple=True,
    type=Model(),
    metavar="RUN_DIR",
    help="Another run with the same tokenizer, to average probabilities with; may be repeated.",
)
shortlist_option = file_option(
    "--shortlist",
    "A file that `keras-mt shortlist` wrote. Only the target tokens that it lists for the source's "
    "tokens get logits, which is faster with a large vocabulary.",
)
glossary_option = file_option(
    "--glossary",
    "Terms of the translations: lines SOURCE<TAB>TARGET, or SOURCE alone for a term that stays as "
    "it is.",
)
architecture_option = click.option(
    "--architecture",
    multiple=True,
    metavar="MODULE:CLASS",
    help="The model's class, if it is your own; may be repeated.",
)


def search_options(function):
    function = shortlist_option(ensemble_option(architecture_option(function)))
    return options_of(TranslationOptions)(function)


def given(options):
    """The options that are given, by name."""
    return {name: value for name, value in options.items() if value not in (None, ())}
