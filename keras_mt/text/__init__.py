"""Tokenizers and sentence splitting, all of which run inside the graph."""

from keras_mt.text.base import BaseTokenizer
from keras_mt.text.pretrained import PretrainedTokenizer
from keras_mt.text.tokenizer import Tokenizer

__all__ = ["BaseTokenizer", "PretrainedTokenizer", "Tokenizer"]
