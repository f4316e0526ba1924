"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

import importlib
from typing import Any

from keras_mt.translation.results import Hypothesis, Results, Score

__all__ = ["Hypothesis", "Results", "Score", "Translator"]


def __getattr__(name: str) -> Any:
    if name != "Translator":  # Which imports Keras: running an export does not need it.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("keras_mt.translation.translator").Translator
