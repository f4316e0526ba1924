"""Tokenizers and sentences, inside the graph; terms, kept spans and markup, without TensorFlow."""

import importlib
from typing import Any

from keras_mt.text.fragment import Element, Fragment
from keras_mt.text.glossary import Glossary, Term
from keras_mt.text.replacing import Placed
from keras_mt.text.source import Alignment, Source, Translated

# These import TensorFlow.
_LAZY = {
    "BaseTokenizer": "base_tokenizer",
    "PretrainedTokenizer": "pretrained",
    "Tokenizer": "tokenizer",
}
__all__ = ["Alignment", "Element", "Fragment", "Glossary", "Placed", "Source", "Term", "Translated"]
__all__ += ["BaseTokenizer", "Tokenizer"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.text.{_LAZY[name]}"), name)
