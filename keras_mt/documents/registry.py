"""The formats of documents, by name and suffix."""

import importlib
import os
from pathlib import Path

from keras_mt.compressed import strip_compression
from keras_mt.documents.document import Document
from keras_mt.errors import InputError

# The suffixes of each format. All but "lines" are modules of keras_mt.documents.
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


def format_of_suffix(path: str | os.PathLike) -> str | None:
    """The name of the format of a file's suffix, before `.gz` or `.zst`; None if it is unknown."""
    suffix = Path(strip_compression(path)).suffix.lower()
    return next((name for name, own in FORMATS.items() if suffix in own), None)


def format_name(path: str | os.PathLike, given: str | None = None) -> str:
    """The name of a file's format: the given one, or that of its suffix.

    A compressed file whose inner suffix is unknown, such as `corpus.de.gz`, has lines.
    """
    lines = "lines" if strip_compression(path) != str(path) else None
    name = given or format_of_suffix(path) or lines
    if name not in FORMATS:
        known = ", ".join(f"{name} ({' '.join(own)})" for name, own in FORMATS.items())
        what = f"`format` {given} is not" if given else f"{path} has no suffix of"
        raise InputError(f"{what} a known format: {known}. Give `format` one of these.")
    return name


def document_class(name: str) -> type[Document]:
    """The class of a format, imported when it is needed, with its library."""
    module = importlib.import_module(f"keras_mt.documents.{name}")
    return getattr(module, f"{name.capitalize()}Document")
