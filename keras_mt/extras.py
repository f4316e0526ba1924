"""Optional dependencies, and the error when one is missing."""

import importlib.util

from keras_mt.errors import InputError


def require(module: str, extra: str, what: str) -> None:
    """Raises ValueError if an optional module, which `extra` of keras_mt installs, is missing.

    >>> require("keras", "onnx", "A model")
    >>> require("none", "onnx", "It")
    Traceback (most recent call last):
    ...
    keras_mt.errors.InputError: It needs none, which is not installed: pip install 'keras_mt[onnx]'
    """
    try:
        missing = importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # The package that it is in.
        missing = True
    if missing:
        raise InputError(
            f"{what} needs {module}, which is not installed: pip install 'keras_mt[{extra}]'"
        )


def require_backend(what: str) -> None:
    """Raises ImportError, which says what to do, unless Keras is on its tensorflow backend."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportError(
            f"{what} needs Keras on its tensorflow backend, and the backend is "
            f"{keras.backend.backend()}: set the environment variable KERAS_BACKEND=tensorflow."
        )
