"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

from typing import Any

from keras_mt.translation.base import AssessedHypothesis, Hypothesis

__all__ = ["AssessedHypothesis", "Hypothesis", "Score", "Translator"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'keras_mt.translation' has no attribute {name!r}")
    # These import Keras, which running an export does not need.
    from keras_mt.translation import translator

    return getattr(translator, name)
