"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

from keras_mt.extras import lazy
from keras_mt.translation.results import Hypothesis, Results, Score

__all__ = ["ExportedTranslator", "Hypothesis", "Results", "Score", "Translator"]

# Results can be read without these, of which the latter imports TensorFlow and Keras.
__getattr__ = lazy(__name__, {"ExportedTranslator": "exported", "Translator": "translator"})
