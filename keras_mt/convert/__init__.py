"""Other formats, each imported when it is used: the command's help needs `formats` alone."""

import importlib
from typing import Any

_HOMES = {"export": "formats"}
_HOMES |= dict.fromkeys(("from_huggingface", "from_marian", "import_model"), "imports")

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_mt.convert' has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_mt.convert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
