"""The options of training and of search, each declared once for the command, Python and the docs.

This room imports neither keras nor tensorflow, so that the command's help appears at once.
"""

from keras_mt.options.search import LanguageOptions, SearchOptions, TranslationOptions
from keras_mt.options.training import TrainingOptions

__all__ = ["LanguageOptions", "SearchOptions", "TrainingOptions", "TranslationOptions"]
