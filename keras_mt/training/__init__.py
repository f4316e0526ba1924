"""Training a translator from a corpus into a run folder, and resuming where it stopped."""

from keras_mt.options import TrainingOptions
from keras_mt.training.callbacks import TranslationScores
from keras_mt.training.checkpoints import average_run
from keras_mt.training.compiling import compile_for_translation
from keras_mt.training.distribution import distribute, distributed, is_chief
from keras_mt.training.recipe import recommend
from keras_mt.training.session import train

__all__ = [
    "TrainingOptions",
    "TranslationScores",
    "average_run",
    "compile_for_translation",
    "distribute",
    "distributed",
    "is_chief",
    "recommend",
    "train",
]
