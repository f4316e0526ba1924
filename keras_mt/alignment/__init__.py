"""Word alignments, and what is learned from them."""

from keras_mt.alignment.aligner import Aligner
from keras_mt.alignment.pharaoh import pharaoh_line, read_pharaoh, write_pharaoh
from keras_mt.alignment.shortlist import Shortlist
from keras_mt.alignment.symmetrization import grow_diag_final_and

__all__ = [
    "Aligner",
    "Shortlist",
    "grow_diag_final_and",
    "pharaoh_line",
    "read_pharaoh",
    "write_pharaoh",
]
