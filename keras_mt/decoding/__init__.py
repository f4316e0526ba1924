"""Search for the best output of any model that predicts one token at a time."""

from keras_mt.decoding.beam_search import Hypotheses, beam_search
from keras_mt.decoding.rules import NO_HYPOTHESIS, Forced, Rule, Step
from keras_mt.options import SearchOptions

__all__ = [
    "NO_HYPOTHESIS",
    "Forced",
    "Hypotheses",
    "Rule",
    "SearchOptions",
    "Step",
    "beam_search",
]
