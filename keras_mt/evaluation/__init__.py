"""Measuring translations: sacreBLEU's scores and tests, and other tools on the same files."""

from keras_mt.evaluation.scoring import Scorer, table, write_files

__all__ = ["Scorer", "table", "write_files"]
