"""Translators from the run folders and exports that a command is given."""

import os

from keras_mt.cli.options import given
from keras_mt.errors import InputError
from keras_mt.files import find_saved_model, is_run


def load_run(path, ensemble=(), architecture=(), dtype="float32", shortlist=None, **options):
    """A translator from a run folder, with the command's options."""
    from keras_mt.alignment import Shortlist
    from keras_mt.translation import Translator

    options = _given(options)
    if shortlist:
        options["shortlist"] = Shortlist.load(shortlist)
    return Translator.load([path, *ensemble], architecture, dtype, **options)


def load_translator(path, options, corpus=()):
    """A translator from a run folder or an export, with the command's options.

    Where these say nothing, it translates between the languages of `corpus`, if it has both.
    """
    # Batches run side by side, one per core, so one thread each is best; also for a single line,
    # whose matrix products are small. The environment variable overrides this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    if not (is_run(path) or is_export(path)):
        raise FileNotFoundError(f"{path} is neither a run folder nor a SavedModel.")
    translator = _load_export(path, options) if is_export(path) else load_run(path, **options)
    if corpus and {*corpus} <= {*translator.languages}:
        for name, code in zip(("source_language", "target_language"), corpus, strict=True):
            setattr(translator, name, options[name] or code)
    return ready(translator)


def _load_export(path, options):
    from keras_mt.translation.exported import ExportedTranslator

    own = "source_language", "target_language", "glossary"
    if fixed := [name for name in given(options) if name not in own]:
        names = ", ".join(f"`{name}`" for name in fixed)
        raise InputError(
            f"{find_saved_model(path)} was exported with fixed options: give {names} to "
            "`keras-mt export`, or use the run folder."
        )
    return ExportedTranslator(path, **_given(options))


def _given(options):
    """The options that are given, with the glossary that is read from its file."""
    from keras_mt.text import Glossary

    options = given(options)
    return options | {n: Glossary.load(options[n]) for n in ("glossary",) if n in options}


def is_export(path):
    return not is_run(path) and find_saved_model(path) is not None


def ready(translator):
    """The translator; raises ValueError if it still needs a language."""
    translator.hypotheses([])
    return translator
