"""The options of training and of search, each declared once for the command, Python and the docs.

This room imports neither keras nor tensorflow, so that the command's help appears at once.
"""

from keras_mt.options.search import (
    LOOPS,
    MAX_LINE_BYTES,
    NO_HYPOTHESIS,
    LanguageOptions,
    SearchOptions,
    TranslationOptions,
    check_language,
)
from keras_mt.options.training import TrainingOptions

__all__ = [
    "LOOPS",
    "MAX_LINE_BYTES",
    "NO_HYPOTHESIS",
    "LanguageOptions",
    "SearchOptions",
    "TrainingOptions",
    "TranslationOptions",
    "check_language",
]
