"""Tokenizers and sentences, inside the graph; terms, kept spans and markup, without TensorFlow."""

from keras_mt.extras import lazy
from keras_mt.text.fragment import Element, Fragment
from keras_mt.text.glossary import Glossary, Term
from keras_mt.text.replacing import Placed
from keras_mt.text.source import Alignment, Source, Translated

__all__ = ["Alignment", "Element", "Fragment", "Glossary", "Placed", "Source", "Term", "Translated"]
__all__ += ["BaseTokenizer", "Tokenizer"]

# These import TensorFlow.
_HOMES = {
    "BaseTokenizer": "base_tokenizer",
    "PretrainedTokenizer": "pretrained",
    "Tokenizer": "tokenizer",
}
__getattr__ = lazy(__name__, _HOMES)
