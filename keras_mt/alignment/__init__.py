"""Word alignments, and what is learned from them."""

from keras_mt.alignment.shortlist import Shortlist

__all__ = ["Shortlist"]
