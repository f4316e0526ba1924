"""Training a translator from a corpus into a run folder, and going on where it stopped."""

from keras_mt.training.run import train

__all__ = ["train"]
