"""Word alignments, and what is learned from them."""

from keras_mt.extras import lazy

__all__ = ["Aligner", "Shortlist", "write_pharaoh"]

# Links can be read off attention without TensorFlow and Keras, which the first two import.
__getattr__ = lazy(
    __name__, {"Aligner": "aligner", "Shortlist": "shortlist", "write_pharaoh": "pharaoh"}
)


def __dir__() -> list[str]:
    return __all__
