"""Former names, which work for one more version and say what they are called now."""

import functools
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


def former_keywords(**names: str) -> Callable[[Callable], Callable]:
    """A decorator for a function whose keywords have other names now.

    >>> @former_keywords(rate="learning_rate")
    ... def train(learning_rate=1.0):
    ...     return learning_rate
    >>> train(rate=2.0)  # Warns: train(rate=...) is now learning_rate.
    2.0

    Args:
        **names: The present name of each former one.
    """

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            for former in names.keys() & kwargs.keys():
                message = f"{function.__name__}({former}=...) is now {names[former]}."
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                kwargs[names[former]] = kwargs.pop(former)
            return function(*args, **kwargs)

        return call

    return decorate
