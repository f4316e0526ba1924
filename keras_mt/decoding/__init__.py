"""Search for the best output of any model that predicts one token at a time."""

from keras_mt.decoding.beam_search import NO_HYPOTHESIS, Hypotheses, beam_search
from keras_mt.decoding.search_tree import SearchNode, search_tree
from keras_mt.options import MAX_LENGTH_PENALTY, SearchOptions

__all__ = [
    "MAX_LENGTH_PENALTY",
    "NO_HYPOTHESIS",
    "Hypotheses",
    "SearchNode",
    "SearchOptions",
    "beam_search",
    "search_tree",
]
