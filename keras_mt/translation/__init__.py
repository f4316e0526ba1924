"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

import importlib
from typing import Any

from keras_mt.deprecation import moved
from keras_mt.translation.glossary import Glossary, Term
from keras_mt.translation.results import AssessedHypothesis, Hypothesis, Results, Score

# This imports Keras, which running an export does not need.
_LAZY = {"Translator": "translator"}
__all__ = [
    "AssessedHypothesis",
    "Glossary",
    "Hypothesis",
    "Results",
    "Score",
    "Term",
    "Translator",
]

_moved = moved(__name__, {"Shortlist": "keras_mt.alignment.Shortlist"})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        return _moved(name)
    return getattr(importlib.import_module(f"keras_mt.translation.{_LAZY[name]}"), name)
