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

    `names` has the present name, with its module, of each former one.
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


def renamed(former: str, function: Callable) -> Callable:
    """A function or method under its former name, which warns.

    >>> renamed("size", len)("abc")  # Warns: size is now len.
    3
    """

    @functools.wraps(function)
    def deprecated(*args, **kwargs):
        warnings.warn(f"{former} is now {function.__name__}.", DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return deprecated


def current_keywords(
    names: Mapping[str, str], given: Mapping[str, Any], stacklevel: int
) -> dict[str, Any]:
    """Keywords by their present names; each that came by its former one warns.

    `names` has the present name of each former one; `stacklevel` counts from this function.
    TypeError if one is given by both names.
    """
    current = {}
    for name, value in given.items():
        present = names.get(name, name)
        if present in current:
            raise TypeError(f"{present} was given twice, once by its former name.")
        if present != name:
            warnings.warn(f"{name} is now {present}.", DeprecationWarning, stacklevel)
        current[present] = value
    return current


def former_keywords(**names: str) -> Callable[[Callable], Callable]:
    """A decorator for a function whose keywords have other names now.

    >>> @former_keywords(rate="learning_rate")
    ... def train(learning_rate=1.0):
    ...     return learning_rate
    >>> train(rate=2.0)  # Warns: rate is now learning_rate.
    2.0
    """

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            return function(*args, **current_keywords(names, kwargs, stacklevel=3))

        return call

    return decorate
