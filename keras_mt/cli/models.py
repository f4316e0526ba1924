"""Translators from the run folders and exports that a command is given."""

import os

from keras_mt.cli.options import given
from keras_mt.errors import InputError
from keras_mt.files import find_saved_model, is_run


def load_run(
    path, ensemble=(), architecture=(), dtype="float32", shortlist=None, glossary=None, **search
):
    """A translator from a run folder, with the command's options."""
    from keras_mt.alignment import Shortlist
    from keras_mt.text import Glossary
    from keras_mt.translation import Translator

    if glossary:
        search["glossary"] = Glossary.load(glossary)
    if shortlist:
        search["shortlist"] = Shortlist.load(shortlist)
    return Translator.load([path, *ensemble], architecture, dtype, **given(search))


def load_translator(path, search, corpus=()):
    """A translator from a run folder or an export, with the command's options.

    Where these say nothing, it translates between the languages of `corpus`, if it has both.
    """
    # Batches run side by side, one per core, so one thread each is best; also for a single line,
    # whose matrix products are small. The environment variable overrides this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    if not is_export(path):
        if not is_run(path):
            raise FileNotFoundError(f"{path} is neither a run folder nor a SavedModel.")
        return ready(load_run(path, **search), search, corpus)
    from keras_mt.text import Glossary
    from keras_mt.translation.exported import ExportedTranslator

    own = {name: search[name] for name in ("source_language", "target_language")}
    if search.get("glossary"):
        own["glossary"] = Glossary.load(search["glossary"])
    if fixed := given(search).keys() - own.keys():
        names = ", ".join(f"`{name}`" for name in search if name in fixed)
        raise InputError(
            f"{find_saved_model(path)} was exported with fixed options: give {names} to "
            "`keras-mt export`, or use the run folder."
        )
    return ready(ExportedTranslator(path, **own), search, corpus)


def is_export(path):
    return not is_run(path) and find_saved_model(path) is not None


def ready(translator, search=None, corpus=()):
    """The translator; raises ValueError if it still needs a language."""
    if corpus and {*corpus} <= {*translator.languages}:
        translator.source_language = search["source_language"] or corpus[0]
        translator.target_language = search["target_language"] or corpus[1]
    translator.hypotheses([])
    return translator


def splits_sentences(translator):
    """Whether a translator, or an export according to its card, splits lines into sentences."""
    if hasattr(translator, "split_sentences"):
        return translator.split_sentences
    return translator.card.get("options", {}).get("split_sentences", False)
