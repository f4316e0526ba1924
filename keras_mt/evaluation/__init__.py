"""Measuring translations: sacreBLEU's scores and tests, and two systems side by side."""

from keras_mt.evaluation.comparison import Bucket, Comparison, Difference
from keras_mt.evaluation.external import command_words, external_scores
from keras_mt.evaluation.scoring import Scorer, file_name, table, write_files
from keras_mt.evaluation.terms import terms_kept

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
