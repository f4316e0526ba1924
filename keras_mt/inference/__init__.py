"""From texts to rows of ids and back, and what a search or a score asks of a model."""

from keras_mt.inference.heads import best_head
from keras_mt.inference.predictors import Predictor

__all__ = ["Predictor", "best_head"]
