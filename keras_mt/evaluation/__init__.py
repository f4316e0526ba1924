"""Measuring translations: sacreBLEU's scores and tests, and the terms that are kept."""

from typing import Any

from keras_mt.evaluation.scoring import Scorer, table, write_files

__all__ = ["Scorer", "table", "terms_kept", "write_files"]


def __getattr__(name: str) -> Any:
    if name != "terms_kept":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from keras_mt.evaluation.terms import terms_kept  # It imports TensorFlow.

    return terms_kept
