"""Strings to strings, from a model and a tokenizer; scores and alignments of given translations."""

from keras_mt.translation.translator import AssessedHypothesis, Hypothesis, Score, Translator

__all__ = ["AssessedHypothesis", "Hypothesis", "Score", "Translator"]
