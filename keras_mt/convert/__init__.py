"""Other formats: transformers' folders, in and out; SavedModels, CTranslate2, LiteRT and ONNX.

What it has is imported when it is used: the command's help needs `formats` alone.
"""

import importlib
from typing import Any

_HOMES = {
    "from_huggingface": "huggingface",
    "import_huggingface": "huggingface",
    "to_ctranslate2": "ctranslate2",
    "to_huggingface": "huggingface",
    "to_litert": "litert",
    "to_onnx": "onnx",
    "to_saved_model": "saved_model",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_mt.convert' has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.convert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
