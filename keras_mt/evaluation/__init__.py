"""Measuring translations: sacreBLEU's scores and tests, and two systems side by side."""

from typing import Any

from keras_mt.evaluation.comparison import Bucket, Comparison, Difference
from keras_mt.evaluation.external import command_words, external_scores
from keras_mt.evaluation.scoring import Scorer, file_name, table, write_files

__all__ = [
    "Bucket",
    "Comparison",
    "Difference",
    "Scorer",
    "command_words",
    "external_scores",
    "file_name",
    "table",
    "terms_kept",
    "write_files",
]


def __getattr__(name: str) -> Any:
    if name != "terms_kept":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from keras_mt.evaluation.terms import terms_kept  # It imports TensorFlow.

    return terms_kept
