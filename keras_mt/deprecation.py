"""Former names, which work for one more version and say what they are called now."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def moved(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module, for names that now stand elsewhere.

    >>> getattribute = moved("keras_mt.data", {"Tokenizer": "keras_mt.text.Tokenizer"})
    >>> getattribute("Tokenizer").__name__  # Warns: keras_mt.data.Tokenizer is now ...
    'Tokenizer'

    Args:
        module: The module's `__name__`.
        names: The present name, with its module, of each former one.

    Returns:
        A function from a name to what it stands for.
    """

    def getattribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, present = names[name].rpartition(".")
        warnings.warn(
            f"{module}.{name} is now {names[name]}: the former name works in this version only.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(home), present)

    return getattribute
