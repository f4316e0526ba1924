"""The layers composed into functional Keras models."""

from keras_mt.models.seq2seq import Seq2Seq, built, copy_of
from keras_mt.models.transformer import PRESETS, Transformer

__all__ = ["PRESETS", "Seq2Seq", "Transformer", "built", "copy_of"]
