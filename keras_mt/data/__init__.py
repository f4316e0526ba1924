"""Parallel text: corpora, tokenization and batching."""

from keras_mt.extras import lazy

# Corpora can be read without TensorFlow, which batches import.
_HOMES = {"Batches": "batching", "load_corpus": "corpus", "phrasebook": "phrasebook"}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES), __all__.copy
