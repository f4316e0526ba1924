"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

import importlib
from typing import Any

from keras_mt.translation.base import AssessedHypothesis, Hypothesis

# These import Keras, which running an export does not need.
_LAZY = {"Score": "translator", "Shortlist": "translator", "Translator": "translator"}
__all__ = ["AssessedHypothesis", "Hypothesis", "Score", "Shortlist", "Translator"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_mt.translation' has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.translation.{_LAZY[name]}"), name)
