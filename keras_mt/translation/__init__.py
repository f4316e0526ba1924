"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

from keras_mt.translation.translator import Hypothesis, Score, Translator

__all__ = ["Hypothesis", "Score", "Translator"]
