"""The formats of documents, by name and suffix."""

import importlib
import os
from pathlib import Path

from keras_mt.compressed import strip_compression
from keras_mt.documents.document import Document

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


def format_of(path: str | os.PathLike) -> str | None:
    """The name of the format that a file's suffix, before `.gz` or `.zst`, tells.

    A compressed file of another suffix, such as `corpus.de.gz`, has lines; but an archive has none.
    """
    plain = strip_compression(path)
    suffix = Path(plain).suffix.lower()
    has_lines = plain != str(path) and suffix != ".tar"
    known = (name for name, suffixes in FORMATS.items() if suffix in suffixes)
    return next(known, "lines" if has_lines else None)


def document_class(name: str) -> type[Document]:
    """The class of a format, imported when it is needed, with its library."""
    module = importlib.import_module(f"keras_mt.documents.{name}")
    return getattr(module, f"{name.capitalize()}Document")
