"""Text to ids and back, and into sentences: all of it runs in the graph."""

from keras_mt.text.base import BaseTokenizer
from keras_mt.text.pretrained import PretrainedTokenizer
from keras_mt.text.tokenizer import Tokenizer

__all__ = ["BaseTokenizer", "PretrainedTokenizer", "Tokenizer"]
