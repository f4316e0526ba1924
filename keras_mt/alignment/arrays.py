"""Objects that consist of arrays alone, and are saved as them."""

import os
from typing import ClassVar, Self
from zipfile import BadZipFile

import numpy as np

from keras_mt.errors import InputError
from keras_mt.files import atomic_write


class SavedArrays:
    """An object whose constructor takes the arrays `_fields`, which are also its attributes.

    `_kind` is what a message calls the class.
    """

    _fields: ClassVar[tuple[str, ...]]
    _kind: ClassVar[str]

    def __reduce__(self) -> tuple:
        return type(self), tuple(getattr(self, name) for name in self._fields)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file in NumPy's `.npz` format, whatever its name."""
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **{name: getattr(self, name) for name in self._fields})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote.

        Raises:
            FileNotFoundError: If the file is missing.
            ValueError: If it is not such a file.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(*(file[name] for name in cls._fields))
        except FileNotFoundError:
            raise
        except (ValueError, TypeError, AttributeError, KeyError, OSError, EOFError, BadZipFile):
            raise InputError(f"{path} is not {cls._kind}, or damaged: write it again.") from None
