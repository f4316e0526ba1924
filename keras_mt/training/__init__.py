"""Training a translator from a corpus into a run folder, and going on where it stopped."""

from keras_mt.training.callbacks import TranslationScores
from keras_mt.training.distribution import distribute, distributed, is_chief
from keras_mt.training.run import average_run, train

__all__ = [
    "TranslationScores",
    "average_run",
    "distribute",
    "distributed",
    "is_chief",
    "train",
]
