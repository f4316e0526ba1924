"""Parallel text: corpora, tokenization and batching."""

from keras_mt.data import phrasebook
from keras_mt.data.batching import Batches, CorpusCounts
from keras_mt.data.cleaning import Cleaning, clean
from keras_mt.data.corpus import has_split, load_corpus
from keras_mt.errors import CorpusError

__all__ = [
    "Batches",
    "Cleaning",
    "CorpusCounts",
    "CorpusError",
    "clean",
    "has_split",
    "load_corpus",
    "phrasebook",
]
