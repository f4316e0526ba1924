"""Translators from the run folders and exports that a command is given."""

import os

from keras_mt.cli.options import given
from keras_mt.cli.progress import waiting
from keras_mt.convert.hub import hub_name, local_run
from keras_mt.errors import InputError
from keras_mt.files import find_export, is_litert, is_run
from keras_mt.logs import hushed


def load_run(path, ensemble=(), architecture=(), dtype="float32", shortlist=None, **options):
    """A translator from a run folder, with the command's options."""
    from keras_mt.alignment import Shortlist
    from keras_mt.translation import Translator

    options["shortlist"] = shortlist and Shortlist.load(shortlist)
    return Translator.load([path, *ensemble], architecture, dtype, **given(options))


def load_model(path, glossary=None, **options):
    """A translator from a run folder or an export, of which a language may be missing."""
    from keras_mt.text import Glossary

    # Batches run side by side, one per core, so one thread each is best; also for a single line,
    # whose matrix products are small. The environment variable overrides this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    load = load_run if kind_of(path) == "run" else _load_export
    return load(path, glossary=glossary and Glossary.load(glossary), **options)


def load_translator(path, options, corpus=()):
    """A translator from a run folder or an export, with the command's options.

    Where these say nothing, it translates between the languages of `corpus`, if it has both.
    """
    path = local_run(path)  # It says itself what it fetches.
    with waiting(f"loading {path}"):
        translator = load_model(path, **options)
    if corpus and {*corpus} <= {*translator.languages}:
        for name, code in zip(("source_language", "target_language"), corpus, strict=True):
            setattr(translator, name, options[name] or code)
    translator.hypotheses([])  # It refuses a language that is missing.
    return translator


def _load_export(path, source_language=None, target_language=None, glossary=None, **others):
    from keras_mt.translation.exported import ExportedTranslator

    if fixed := given(others):
        names = ", ".join(f"`{name}`" for name in fixed)
        raise InputError(
            f"{path} was exported with fixed options: give {names} to `keras-mt export`, or use "
            "the run folder."
        )
    with hushed():  # LiteRT says what it runs on.
        return ExportedTranslator(path, source_language, target_language, glossary)


def kind_of(path):
    """`"run"`, `"saved_model"` or `"litert"`, by name or files; else FileNotFoundError."""
    if is_run(path) or hub_name(path):
        return "run"
    if not find_export(path):
        raise FileNotFoundError(f"{path} is neither a run folder nor an export.")
    return "litert" if is_litert(path) else "saved_model"
