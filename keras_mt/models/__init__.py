"""The layers composed into functional Keras models."""

from keras_mt.models.transformer import PRESETS, Transformer

__all__ = ["PRESETS", "Transformer"]
