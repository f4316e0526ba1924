"""Errors whose message tells a user what to change, and why translators refuse a text."""

DIVERGED = "the model gives no finite probabilities. Has its training diverged?"
LINE_TOO_LONG = "a line has more than {} tokens, the model's limit: split it into lines."


class InputError(ValueError):
    """Something that a user gave is wrong: an option, a file, a text, or how they fit together.

    The message names what was given, what was expected and what to do. The command shows it in one
    line; any other ValueError is a bug, and shown as one.
    """

    __init__ = Exception.__init__  # So that AutoGraph raises it again as what it is.


class MissingError(InputError, ImportError):
    """A package that is needed and not installed; the message says by what, and what to do."""


class CorpusError(InputError):
    """A corpus that cannot be used; the message says where and why."""
