"""Requests to a translator, text by text; without TensorFlow."""

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

from keras_mt.errors import InputError
from keras_mt.text.source import Source


@dataclasses.dataclass(frozen=True)
class Request:
    """A text, what is given of its translation, and their languages.

    `prefix` is what its translation begins with, `target` all of a given translation. The languages
    are None where the model has no choice. `source` has what is to be put into its translation.
    """

    text: str
    source_language: str | None = None
    target_language: str | None = None
    source: Source | None = None
    prefix: str = ""
    target: str = ""

    @property
    def read(self) -> str:
        """The text that the model reads."""
        if self.source is None:
            return self.text
        return "" if self.source.passes and not self.prefix else self.source.text

    @property
    def longest_line(self) -> int:
        """The bytes of the longest line that the model reads."""
        return max(map(len, self.read.encode().split(b"\n")))


def as_columns(columns: Mapping[str, Any]) -> tuple[bool, list[list[str]]]:
    """Columns of texts as lists; and before, True if they are of one text, a str.

    Columns but the first may be None, for "" in each place. Raises InputError, which names the
    column, for another type, a text that cannot be UTF-8, or columns that differ in length.
    """
    lists, one = [], isinstance(next(iter(columns.values())), str)
    for name, column in columns.items():
        if column is None and lists:
            texts = [""] * len(lists[0])
        elif one:
            texts = [column]
            check_text(name, column)
        else:
            texts = as_list(name, column, "a list of str" if lists else "a str or a list of str")
            for i, text in enumerate(texts):
                check_text(f"{name}[{i}]", text)
        lists.append(texts)
    if len({*map(len, lists)}) > 1:
        sizes = " and ".join(str(len(texts)) for texts in lists)
        names = " and ".join(columns)
        raise InputError(f"{names} must have the same length. Received: {sizes} texts")
    return one, lists


def check_text(name: str, text: Any) -> None:
    """Raises InputError, which names the text, if it is no str or cannot be encoded as UTF-8."""
    if not isinstance(text, str):
        raise InputError(f"{name} must be a str. Received: {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} cannot be encoded as UTF-8: {error}") from None


def as_list(name: str, values: Iterable, expected: str) -> list:
    """A list from an iterable; InputError, which names it, for anything else."""
    # A str or a tensor would be split into its elements; a set has no order.
    others = (str, bytes, Mapping, Set)
    if isinstance(values, others) or is_tensor(values) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be {expected}. Received: {type(values).__name__}")
    return list(values)


def for_each(name: str, given: Any, number: int, kind: type, expected: str) -> list[Any]:
    """A value of a kind, or None, for each of `number` texts; given is one for all, or a list."""
    if isinstance(given, kind | None):
        return [given] * number
    expected = f"{expected}, or a list with one for each text"
    values = as_list(name, given, expected)
    if len(values) != number:
        raise InputError(f"{name} must be {expected}. Received: {len(values)} for {number} texts")
    return values


def is_tensor(value: Any) -> bool:
    """True for a tensor of TensorFlow, which need not be installed."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.Tensor)
