"""Translation memories (TMX 1.4), read as a stream."""

import os
import re
from collections.abc import Iterator
from xml.parsers import expat

from keras_mt.compressed import open_read
from keras_mt.errors import CorpusError

_CHUNK = 1 << 16
# Markup of the document's own format, whose content is no text, in a segment.
_CODES = {"bpt", "ept", "it", "ph", "ut"}


class _Reader:
    """Takes events of the parser; `pairs` are those of the units that have ended."""

    def __init__(self, path: str | os.PathLike, languages: tuple[str, str]):
        self._path, self._languages = path, languages
        self._texts, self._side, self._codes, self._text = {}, None, 0, None
        self.pairs, self.seen, self.depth = [], set(), 0

    def start(self, name, attributes):
        if not self.depth and name != "tmx":
            raise CorpusError(f"{self._path} is no TMX: its root is <{name}>, not <tmx>.")
        self.depth += 1
        if name == "tu":
            self._texts = {}
        elif name == "tuv":
            code = attributes.get("xml:lang", attributes.get("lang", ""))
            self.seen.add(code)
            side = self._closest(code)
            self._side = None if side in self._texts else side
        elif name == "seg":
            self._text = []
        elif name in _CODES:
            self._codes += 1

    def _closest(self, code):
        """The index of the language that a code names or is a variant of; None for others."""
        matching = [language for language in self._languages if _matches(code, language)]
        return self._languages.index(max(matching, key=len)) if matching else None

    def end(self, name):
        self.depth -= 1
        if name in _CODES:
            self._codes -= 1
        elif name == "seg":
            if self._side is not None and self._text is not None:
                text = re.sub("[ \t\r\n]+", " ", "".join(self._text)).strip(" ")
                self._texts[self._side] = text.encode("utf-8")
            self._text = None
        elif name == "tu" and len(self._texts) == 2:
            self.pairs.append((self._texts[0], self._texts[1]))

    def characters(self, text):
        if self._text is not None and not self._codes:
            self._text.append(text)

    def refuse(self, *_):
        raise CorpusError(
            f"{self._path} declares entities, or uses such of another file, which can hold far "
            "more text than the file, or other files: replace them by what they stand for."
        )


def tmx_pairs(path: str | os.PathLike, source: str, target: str) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a translation memory; units without both languages are left out.

    White space is folded, and the markup of a document's own format (`bpt`, `ph` and so on) left
    out. `en` also stands for `en-US` and `EN_gb`, unless that is the other language; the first
    variant of a unit is taken.
    """
    reader = _Reader(path, (source, target))
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.characters
    parser.EntityDeclHandler = parser.ExternalEntityRefHandler = reader.refuse
    parser.SkippedEntityHandler = reader.refuse
    count = 0
    with open_read(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            try:
                parser.Parse(chunk, not chunk)
            except expat.ExpatError as error:
                raise CorpusError(f"{path}:{error.lineno} is no XML: {error}") from error
            except CorpusError:
                raise
            except (LookupError, ValueError) as error:  # Of the encoding that it names.
                raise CorpusError(f"{path}: {error}: convert it to UTF-8.") from error
            count += len(reader.pairs)
            yield from reader.pairs
            reader.pairs.clear()
            if not chunk:
                break
    if not count:
        raise CorpusError(
            f"{path} has no unit with both {source!r} and {target!r}; its languages are "
            f"{', '.join(sorted(reader.seen)) or 'none'}."
        )


def _matches(code, language):
    """True if a unit's code is the language, or one of its regional variants."""
    code, language = (text.replace("_", "-").lower() for text in (code, language))
    return code == language or code.startswith(f"{language}-")
