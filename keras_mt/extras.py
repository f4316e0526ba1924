"""Optional dependencies, and the error when one is missing."""

import importlib
from types import ModuleType

from keras_mt.errors import InputError


def require(module: str, extra: str, what: str) -> ModuleType:
    """Imports a module; ValueError, which names the `extra` to install, if it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise InputError(
            f"{what} needs {module}, which is not installed: pip install 'keras_mt[{extra}]'"
        ) from None


def require_backend(what: str) -> None:
    """Raises ImportError, which says what to do, unless Keras is on its tensorflow backend."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportError(
            f"{what} needs Keras on its tensorflow backend, and the backend is "
            f"{keras.backend.backend()}: set the environment variable KERAS_BACKEND=tensorflow."
        )
