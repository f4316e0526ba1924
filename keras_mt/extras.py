"""Packages that only some need, and what to say where one is missing."""

import importlib.util


def require(module: str, extra: str, what: str) -> None:
    """Refuses what needs a package that is not installed, and says how to install it.

    The command that it names takes the extra from the keras_mt that is installed, be that from an
    index or from a checkout.

    Args:
        module: The package, as it is imported.
        extra: The extra of keras_mt that brings it.
        what: What needs it, as the beginning of a sentence.

    Raises:
        ValueError: If the package is not installed.

    Example:

    >>> require("keras", "demo", "A model")
    >>> require("no_such_package", "demo", "The page")
    Traceback (most recent call last):
    ...
    ValueError: The page needs no_such_package, which is not installed: pip install 'keras_mt[demo]'
    """
    if importlib.util.find_spec(module) is None:
        raise ValueError(
            f"{what} needs {module}, which is not installed: pip install 'keras_mt[{extra}]'"
        )
