"""Fields of files that are not trusted: the types of a dataclass say what a file may hold."""

import dataclasses
import reprlib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from keras_mt.errors import InputError
from keras_mt.options import TranslationOptions

_Fields = TypeVar("_Fields")
_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}
# A number with its minimum, and what it must be below.
Count = Annotated[int, 1, 2**31]
Rate = Annotated[float, 0, 1]


def refusal(where: Path | str, field: str, value: Any, expected: str) -> InputError:
    """The error for a field of a file that is not as expected."""
    received = f"{field}={reprlib.repr(value)}"
    return InputError(f"{where}: {field} must be {expected}. Received: {received}")


def argument(name: str, default: Any = dataclasses.MISSING) -> Any:
    """A field of a dataclass that gives an argument of a Transformer."""
    return dataclasses.field(default=default, metadata={"argument": name})


def model_arguments(config: Any) -> dict[str, Any]:
    """The arguments of a Transformer that the fields of a dataclass give."""
    fields = {field.name: field.metadata.get("argument") for field in dataclasses.fields(config)}
    return {name: getattr(config, field) for field, name in fields.items() if name}


def read_fields(
    cls: type[_Fields], values: Mapping[str, Any], where: Path | str, separator: str = "_"
) -> _Fields:
    """A dataclass made of the fields of a file, whose names have this separator.

    A field that is null counts as missing. Fields that the dataclass does not have are left out.
    """
    given = {}
    for field in dataclasses.fields(cls):
        name = field.name.replace("_", separator)
        value = values.get(name)
        required = field.default is field.default_factory is dataclasses.MISSING
        if value is None and not required:
            continue
        if expected := _expected(field.type, value):
            raise refusal(where, name, value, expected)
        given[field.name] = value
    return cls(**given)


def search_options(
    given: Mapping[str, Any], known: Mapping[str, tuple[str, Any]], where: Path
) -> dict[str, Any]:
    """The options of a search that a file gives.

    A value that no search takes is refused, and the message names the field. `known` gives for each
    field the option, and the file's default. A null counts as missing.
    """
    options = {option: default for option, default in known.values()}
    options |= {o: given[field] for field, (o, _) in known.items() if given.get(field) is not None}
    try:
        TranslationOptions(**options)
    except ValueError as error:
        fields = [field for field, (option, _) in known.items() if option in str(error)]
        raise InputError(f"{where}: {', '.join(fields)}: {error}") from None
    return options


def _expected(kind, value):
    """A description of what a field of this type holds, if the value is something else."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if types.NoneType in parts:  # `KIND | None`: null counts as missing.
        return _expected(parts[0], value)
    if origin is Literal:
        fits = any(type(value) is type(part) and value == part for part in parts)
        expected = " or ".join(map(repr, parts))
    elif origin is Annotated:
        number, minimum, limit = parts
        fits = not _expected(number, value) and minimum <= value < limit
        expected = f"{_NAMES[number]}, at least {minimum} and below {limit}"
    elif origin is list:
        fits = isinstance(value, list) and not any(_expected(parts[0], each) for each in value)
        expected = "a list of such values"
    else:
        fits = kind is Any or type(value) is kind or (kind is float and type(value) is int)
        expected = _NAMES.get(kind)
    return None if fits else expected
