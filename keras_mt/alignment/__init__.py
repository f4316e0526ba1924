"""Word alignments, and what is learned from them."""

from keras_mt.alignment.aligner import Aligner
from keras_mt.alignment.pharaoh import write_pharaoh
from keras_mt.alignment.shortlist import Shortlist

__all__ = ["Aligner", "Shortlist", "write_pharaoh"]
