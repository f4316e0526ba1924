"""Parallel text: corpora, tokenization and batching."""

from keras_mt.data import phrasebook
from keras_mt.data.batching import Batches
from keras_mt.data.corpus import load_corpus
from keras_mt.errors import CorpusError

__all__ = ["Batches", "CorpusError", "load_corpus", "phrasebook"]
