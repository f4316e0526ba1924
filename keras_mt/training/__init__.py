"""Training a translator from a corpus into a run folder, and resuming where it stopped."""

from keras_mt.training.compiling import compile_for_translation
from keras_mt.training.distribution import distribute, distributed
from keras_mt.training.session import train

__all__ = ["compile_for_translation", "distribute", "distributed", "train"]
