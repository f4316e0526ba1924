"""Fields of files that are not trusted: the types of a dataclass say what a file may hold."""

import dataclasses
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
    list: "a list",
    dict: "an object",
}


@dataclasses.dataclass(frozen=True)
class Between:
    """The limits of a number, for `Annotated`: a minimum, and what it must be below."""

    minimum: float
    below: float


Count = Annotated[int, Between(1, 2**31)]
Rate = Annotated[float, Between(0, 1)]


def refusal(where: Path | str, field: str, value: Any, expected: str) -> InputError:
    """The error for a field of a file that is not as expected."""
    return InputError(f"{where}: {field} must be {expected}. Received: {field}={value!r}")


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


def check_sizes(values: Mapping[str, Any], sizes: Mapping[str, Any], where: Path | str) -> None:
    """Refuses fields of a file that say another size than the weights have; none or 0 says none."""
    for field, size in sizes.items():
        if (values.get(field) or size) != size:
            raise refusal(where, field, values[field], f"{size}, as the weights have")


def check_search(options: Mapping[str, Any], names: Mapping[str, str], where: Path) -> None:
    """Refuses options that no search takes, by the file and its names of them."""
    try:
        TranslationOptions(**options)
    except ValueError as error:
        fields = [field for field, option in names.items() if option in str(error)]
        raise InputError(f"{where}: {', '.join(fields)}: {error}") from None


def _expected(kind, value):
    """A description of what a field of this type holds, if the value is something else."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        others = [_expected(part, value) for part in parts if part is not types.NoneType]
        return None if None in others else " or ".join(others)
    if origin is Literal:
        fits = any(type(value) is type(part) and value == part for part in parts)
        return None if fits else " or ".join(map(repr, parts))
    if origin is Annotated:
        limits = parts[1]
        if _expected(parts[0], value) is None and limits.minimum <= value < limits.below:
            return None
        return f"{_NAMES[parts[0]]}, at least {limits.minimum} and below {limits.below}"
    if origin is list:
        fits = isinstance(value, list) and not any(_expected(parts[0], each) for each in value)
        return None if fits else "a list of such values"
    fits = type(value) is kind or (kind is float and type(value) is int)
    return None if fits else _NAMES[kind]
