"""Parallel text: corpora, tokenization and batching."""

from keras_mt.extras import lazy

__all__ = ["Batches", "load_corpus", "phrasebook"]

# Corpora can be read without TensorFlow, which batches import.
__getattr__ = lazy(
    __name__, {"Batches": "batching", "load_corpus": "corpus", "phrasebook": "phrasebook"}
)


def __dir__() -> list[str]:
    return __all__
