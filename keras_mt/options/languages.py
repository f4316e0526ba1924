"""The languages of a multilingual model, as options and as arguments."""

import dataclasses
from collections.abc import Sequence

from keras_mt.errors import InputError
from keras_mt.options.fields import option, suggestion


@dataclasses.dataclass(frozen=True)
class LanguageOptions:
    """The languages that a multilingual model translates between."""

    source_language: str | None = option(
        None,
        "The source's language, for a multilingual model: one of its codes, such as eng_Latn.",
        shown="the run's, if it has one",
        config_name="source_language",
        inherited=True,
        metavar="CODE",
    )
    target_language: str | None = option(
        None,
        "The target's language, likewise.",
        shown="the run's, if it has one",
        config_name="target_language",
        inherited=True,
        metavar="CODE",
    )


def check_language(name: str, code: str | None, languages: Sequence[str]) -> None:
    """Raises ValueError, which names the argument, for a code that is not among the languages.

    None is refused if there are languages.
    """
    if not languages:
        if code is not None:
            raise InputError(
                f"{name} is for models of several languages, which this one is not: leave it out. "
                f"Received: {name}={code!r}"
            )
    elif code is None:
        raise InputError(
            f"{name} must be given (--{name.replace('_', '-')} on the command line), since the "
            f"model has several languages: give one of its codes, such as {languages[0]}."
        )
    elif code not in languages:
        raise InputError(
            f"{name} must be a code of the model's languages. Received: {name}={code!r}"
            f"{suggestion(str(code), languages)}"
        )
