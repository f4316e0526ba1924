"""Tokenizers and sentence splitting, which run inside the graph; and markup, which does not."""

import importlib
from typing import Any

from keras_mt.text.base import BaseTokenizer
from keras_mt.text.markup import Fragment

# These import tensorflow_text, and Keras with it, which running an export does not need.
_LAZY = {"PretrainedTokenizer": "pretrained", "Tokenizer": "tokenizer"}
__all__ = ["BaseTokenizer", "Fragment", "PretrainedTokenizer", "Tokenizer"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.text.{_LAZY[name]}"), name)
