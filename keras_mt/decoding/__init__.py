"""Search for the best output of any model that predicts one token at a time."""

from keras_mt.decoding.beam_search import Hypotheses, beam_search
from keras_mt.options.search import NO_HYPOTHESIS, SearchOptions

__all__ = ["NO_HYPOTHESIS", "Hypotheses", "SearchOptions", "beam_search"]
