"""Word alignments, and what is learned from them."""

from keras_mt.extras import lazy

# Links are read off attention without TensorFlow and Keras, which these import.
_HOMES = {"Aligner": "aligner", "Shortlist": "shortlist"}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES), __all__.copy
