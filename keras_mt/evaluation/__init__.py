"""Measuring translations: sacreBLEU's scores and tests, and the terms that are kept."""

from keras_mt.evaluation.scoring import Scorer, table, write_files
from keras_mt.evaluation.terms import terms_kept

__all__ = ["Scorer", "table", "terms_kept", "write_files"]
