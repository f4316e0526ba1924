"""Parallel text: corpora, tokenization and batching."""

from keras_mt.data import phrasebook
from keras_mt.data.batching import Batches
from keras_mt.data.corpus import load_corpus

__all__ = ["Batches", "load_corpus", "phrasebook"]
