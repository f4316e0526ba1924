"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

import importlib
from typing import Any

from keras_mt.translation.results import Hypothesis, Results, Score

# These import Keras or TensorFlow, without which results can be read.
_LAZY = {"ExportedTranslator": "exported", "Translator": "translator"}
__all__ = ["ExportedTranslator", "Hypothesis", "Results", "Score", "Translator"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.translation.{_LAZY[name]}"), name)
