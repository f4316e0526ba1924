"""The formats of documents, by name and suffix; each is a module with two functions."""

import dataclasses
import importlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from keras_mt.compressed import strip_compression
from keras_mt.errors import InputError

# The module keras_mt.documents.NAME of each format, and its suffixes.
FORMATS = {
    "lines": (".txt",),
    "html": (".html", ".htm", ".xhtml"),
    "docx": (".docx",),
    "po": (".po", ".pot"),
    "srt": (".srt",),
    "vtt": (".vtt",),
    "markdown": (".md", ".markdown"),
    "xliff": (".xlf", ".xliff"),
}


class Unit(NamedTuple):
    """A text of a document that is translated by itself: a paragraph, an entry, a title.

    Attributes:
        text: The text.
        markup: "html" if it is a fragment of HTML (see `keras_mt.text.Source`); None if plain.
        where: How an error names it, such as `msgid "Save"`.

    Example:

    >>> Unit("A <b>man</b> sleeps.", "html", "paragraph 3").markup
    'html'
    """

    text: str
    markup: str | None = None
    where: str = ""


class Refusal(NamedTuple):
    """A text that has no translation in the output, and why.

    Example:

    >>> Refusal("line 3", "not UTF-8 at byte 7", "caf�").where
    'line 3'
    """

    where: str
    reason: str
    text: str = ""


@dataclasses.dataclass(frozen=True)
class DocumentOptions:
    """The options of documents that a format may need.

    Args:
        target_language: The code of the translations' language, or None where it is unknown.
        overwrite: Whether entries that have a translation get a new one.

    Example:

    >>> DocumentOptions(target_language="de").overwrite
    False
    """

    target_language: str | None = None
    overwrite: bool = False


class Format(Protocol):
    """The functions of a format's module; that of `lines`, which is streamed, is another.

    Both functions get the path of a file that is not compressed, whatever its name ends in.

    Example:

    >>> def units(path, options):
    ...     yield Unit(path.read_text(encoding="utf-8"))
    >>> def write(path, output, translations, options):
    ...     text = path.read_text(encoding="utf-8")
    ...     output.write_text(translations[0] or text, encoding="utf-8")
    ...     return []
    """

    def units(self, path: Path, options: DocumentOptions) -> Iterable[Unit]:
        """The texts of a document, in a fixed order.

        Raises:
            InputError: If it is no such document, or a limit is exceeded; the message need not
                name the file.
        """

    def write(
        self, path: Path, output: Path, translations: Sequence[str | None], options: DocumentOptions
    ) -> Iterable[Refusal]:
        """Writes the document with a translation for each unit; None for one that was refused.

        Returns:
            The translations that it could not put in; those that were None are not among them.
        """


def format_name(path: str | os.PathLike, given: str | None = None) -> str:
    """The name of a file's format: the given one, or that of its suffix.

    A compressed file whose inner suffix is unknown, such as `corpus.de.gz`, has lines.
    """
    if given is not None:
        if given not in FORMATS:
            raise InputError(f"format must be one of {', '.join(FORMATS)}. Received: {given}")
        return given
    bare = strip_compression(path)
    suffix = Path(bare).suffix.lower()
    for name, suffixes in FORMATS.items():
        if suffix in suffixes:
            return name
    if bare != str(path):
        return "lines"
    known = ", ".join(f"{name} ({' '.join(suffixes)})" for name, suffixes in FORMATS.items())
    raise InputError(
        f"{path} has no suffix of a known format: {known}. Give --format if it is one of these."
    )


def load_format(name: str) -> Format:
    """The module of a format, imported when it is needed, with its library."""
    return importlib.import_module(f"keras_mt.documents.{name}")
