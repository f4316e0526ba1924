"""An option: a field of a dataclass with its help and its limits."""

import dataclasses
import difflib
import inspect
import math
import operator
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from keras_mt.errors import InputError

_Function = TypeVar("_Function", bound=Callable)
_Options = TypeVar("_Options")
_BOUNDS = {
    "minimum": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
    "maximum": ("at most", operator.le),
}


def option(
    help: str,
    default: Any = None,
    *,
    minimum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str | bool] | None = None,
    default_text: str = "none",
    flag: str | None = None,
    metavar: str | None = None,
) -> Any:
    """A field of a dataclass of options; its metadata has all arguments but the default.

    `default_text` is how the help describes a default of None. The command makes `flag` from the
    name unless it is given.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    return dataclasses.field(default=default, metadata=metadata)


def field_type(field: dataclasses.Field) -> Any:
    """The type of an option, without None."""
    if not isinstance(field.type, types.UnionType):
        return field.type
    return next(part for part in typing.get_args(field.type) if part is not types.NoneType)


def validate(field: dataclasses.Field, value: Any) -> Any:
    """The value converted to the option's type; ValueError, which names it, if it is invalid."""
    name, checks = field.name, field.metadata
    if value is None and (field.default is None or types.NoneType in typing.get_args(field.type)):
        return None
    if field_type(field) is int:
        value = as_integer(name, value)
    elif field_type(field) is float:
        value = _as_number(name, value)
    elif field_type(field) is bool and not isinstance(value, bool):
        raise InputError(f"{name} must be True or False. Received: {name}={value!r}")
    elif field.type in (str, str | None) and not isinstance(value, str):
        raise InputError(f"{name} must be a string. Received: {name}={value!r}")
    bounds = [(*_BOUNDS[bound], checks[bound]) for bound in _BOUNDS if checks[bound] is not None]
    if not all(fits(value, limit) for _, fits, limit in bounds):
        expected = " and ".join(f"{words} {limit}" for words, _, limit in bounds)
        raise InputError(f"{name} must be {expected}. Received: {name}={value}")
    if choices := checks["choices"]:
        if value not in choices:
            raise InputError(
                f"{name} must be one of {', '.join(map(str, choices))}. Received: {name}={value!r}"
            )
        value = choices[choices.index(value)]  # True for 1.
    return value


def validate_all(options: Any) -> None:
    """Converts and checks each option of a dataclass, which may be frozen, as `validate` does."""
    for field in dataclasses.fields(options):
        object.__setattr__(options, field.name, validate(field, getattr(options, field.name)))


def as_integer(name: str, value: Any) -> int:
    """An int from an integer of any type; ValueError, which names it, for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer. Received: {name}={value!r}") from None


def _as_number(name, value):
    try:
        if isinstance(value, (str, bool)):
            raise TypeError
        number = float(value)
    except (TypeError, OverflowError):
        raise InputError(f"{name} must be a number. Received: {name}={value!r}") from None
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite. Received: {name}={value}")
    return number


def as_kinds(name: str, value: str | Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The kinds in a list, or in a string with commas between, in the order of those known."""
    if isinstance(value, str):
        value = [kind.strip() for kind in value.split(",")]
    for kind in value if isinstance(value, Sequence) else [value]:
        if kind not in known:
            raise InputError(f"{name} has no kind {kind!r}{suggestion(str(kind), known)}")
    return tuple(kind for kind in known if kind in value)


def documented(thing: _Function, options: type | None = None) -> _Function:
    """Fills in `{options}` in a docstring: one entry of `Args` for each option."""
    lines = []
    for field in dataclasses.fields(options or thing):
        default_text = field.metadata["default_text"]
        text = field.metadata["help"] + (f" None: {default_text}." if field.default is None else "")
        lines += textwrap.wrap(
            f"{field.name}: {text}", 92, initial_indent=" " * 4, subsequent_indent=" " * 8
        )
    # Python 3.13 has removed the indentation already.
    thing.__doc__ = inspect.cleandoc(thing.__doc__).replace("    {options}", "\n".join(lines))
    return thing


def signature(function: Callable, options: type) -> inspect.Signature:
    """The signature of a function whose `**options` are those of a dataclass."""
    *parameters, _ = inspect.signature(function).parameters.values()  # The last is `**options`.
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=field.type)
        for field in dataclasses.fields(options)
    ]
    return inspect.Signature(parameters)


def from_keywords(options_class: type[_Options], caller: str, given: Mapping[str, Any]) -> _Options:
    """The dataclass with the options given; TypeError for an unknown name, as Python's own."""
    names = [field.name for field in dataclasses.fields(options_class)]
    for name in given:
        if name not in names:
            raise TypeError(f"{caller} has no option {name!r}{suggestion(name, names)}")
    return options_class(**given)


def suggestion(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: `; did you mean ...?`, or the list of known names."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(names)}."
