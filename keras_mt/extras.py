"""Optional dependencies, the error when one is missing, and what TensorFlow reads at its import."""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from keras_mt.errors import MissingError


def require(module: str, extra: str, what: str) -> ModuleType:
    """Imports a module; MissingError, which names the `extra` to install, if it is missing."""
    with needed(what, f"'keras_mt[{extra}]'", module):
        return importlib.import_module(module)


@contextlib.contextmanager
def needed(what: str, package: str = "keras_mt", module: str | None = None) -> Iterator[None]:
    """Raises MissingError where an import fails: what needs it, and the package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = module or (error.name or str(error)).partition(".")[0]
        raise MissingError(
            f"{what} needs {missing}, which is not installed: pip install {package}"
        ) from None


def require_backend(what: str) -> None:
    """Raises ImportError, which says what to do, unless Keras is on its tensorflow backend."""
    with needed(what):
        import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportError(
            f"{what} needs Keras on its tensorflow backend, and the backend is "
            f"{keras.backend.backend()}: set the environment variable KERAS_BACKEND=tensorflow."
        )


def lazy(room: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` of a room: each name is imported from its module when it is asked for."""

    def get(name):
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        with needed(f"{room}.{name}"):
            module = importlib.import_module(f"{room}.{homes[name]}")
        return module if name == homes[name] else getattr(module, name)

    return get


def use_onednn() -> None:
    """Turns oneDNN on for TensorFlow, if that is not imported yet and the user has not chosen.

    Below AVX-512 it is off on x86, and a tied table is packed anew for each product.
    """
    if os.uname().machine == "x86_64":
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
