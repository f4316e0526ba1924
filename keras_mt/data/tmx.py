"""Translation memories (TMX 1.4), read as a stream."""

import os
import re
from collections.abc import Iterator
from xml.etree.ElementTree import TreeBuilder
from xml.parsers import expat

from keras_mt.compressed import open_read
from keras_mt.errors import CorpusError

_CHUNK = 1 << 16
# Markup of the document's own format, whose content is no text, in a segment.
_CODES = {"bpt", "ept", "it", "ph", "ut"}


class _Units:
    """Takes events of the parser; `ended` are the translation units that have ended."""

    def __init__(self, path: str | os.PathLike):
        self._path, self._unit, self.ended = path, None, []

    def start(self, name, attributes):
        if name == "tu":
            self._unit = TreeBuilder()
        if self._unit is not None:
            self._unit.start(name, attributes)

    def data(self, text):
        if self._unit is not None:
            self._unit.data(text)

    def end(self, name):
        if self._unit is not None:
            element = self._unit.end(name)
            if name == "tu":
                self._unit = self.ended.append(element)

    def refuse(self, *_):
        raise CorpusError(
            f"{self._path} declares entities, or uses those of another file, which may hold far "
            "more text: replace each by the text that it stands for."
        )


def tmx_pairs(path: str | os.PathLike, source: str, target: str) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a translation memory; units without both languages are left out.

    White space is folded, and the markup of a document's own format (`bpt`, `ph` and so on) left
    out. `en` also stands for `en-US` and `EN_gb`, unless that is the other language; the first
    variant of a unit is taken.
    """
    units, seen, found, chunk = _Units(path), set(), False, b"<"
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = units.start, units.end
    parser.CharacterDataHandler = units.data
    parser.EntityDeclHandler = parser.ExternalEntityRefHandler = units.refuse
    parser.SkippedEntityHandler = units.refuse
    with open_read(path) as file:
        while chunk:
            chunk = file.read(_CHUNK)
            try:
                parser.Parse(chunk, not chunk)
            except expat.ExpatError as error:
                raise CorpusError(f"{path}:{error.lineno} is no XML: {error}") from error
            except CorpusError:
                raise
            except (LookupError, ValueError) as error:  # Of the encoding that it names.
                raise CorpusError(f"{path}: {error}: convert it to UTF-8.") from error
            for unit in units.ended:
                texts = _texts(unit, (source, target), seen)
                if len(texts) == 2:
                    found = True
                    yield texts[source], texts[target]
            units.ended.clear()
    if not found:
        raise CorpusError(
            f"{path} has no unit with both {source!r} and {target!r}; its languages are "
            f"{', '.join(sorted(seen)) or 'none'}."
        )


def _texts(unit, languages, seen):
    """The text of a unit in each of two languages that it has; its codes are added to `seen`."""
    texts = {}
    for variant in unit.iter("tuv"):
        code, segment = variant.get("xml:lang", variant.get("lang", "")), variant.find("seg")
        seen.add(code)
        matching = [language for language in languages if _matches(code, language)]
        if matching and segment is not None:
            text = re.sub("[ \t\r\n]+", " ", _text_of(segment)).strip(" ")
            texts.setdefault(max(matching, key=len), text.encode("utf-8"))
    return texts


def _matches(code, language):
    """True if a unit's code is the language, or one of its regional variants."""
    code, language = (text.replace("_", "-").lower() for text in (code, language))
    return code == language or code.startswith(f"{language}-")


def _text_of(element):
    """The text of an element and behind it, without that of a document's own markup."""
    parts = [] if element.tag in _CODES else [element.text or "", *map(_text_of, element)]
    return "".join([*parts, element.tail or ""])
