"""The parts that the formats of documents share."""

import bisect
import codecs
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_mt.documents.formats import DocumentOptions, Refusal, Unit
from keras_mt.errors import InputError

MAX_BYTES = 64 << 20
_MARKS = frozenset("[]{}<>|\\^~=_*@")
_PART = re.compile(
    r'<(?P<end>/?)(?P<name>span|br|x)(?: id="(?P<id>\d+)")?(?P<kept> translate="no")?/?>'
)


class DocumentError(InputError):
    """A document is not what its format says, or more than what is read: the message says what."""


class Document:
    """A document that was read: its `units`, and how it is written with their translations.

    `refusals` name what could not be read or written; they are complete after `write`.
    """

    def __init__(self, data: bytes, options: DocumentOptions | None = None):
        if len(data) > MAX_BYTES:
            raise DocumentError(
                f"a document may have {MAX_BYTES >> 20} MiB at most. This has more: divide it."
            )
        self.options = options or DocumentOptions()
        self.units: list[Unit] = []
        self.refusals: list[Refusal] = []
        self.read(data)

    def read(self, data: bytes) -> None:
        """Fills `units` from the file's bytes; DocumentError if it is none of the format."""
        raise NotImplementedError

    def write(self, translations: Sequence[str | None]) -> bytes:
        """The file with a translation for each of `units`; None leaves the text as it is."""
        raise NotImplementedError

    def add(self, text: str, markup: str | None = None, where: str = "") -> int:
        """Adds a unit; its number is returned."""
        self.units.append(Unit(text, markup, where or f"text {len(self.units) + 1}: {text[:60]}"))
        return len(self.units) - 1

    def add_inline(self, inline: "Inline", where: str = "") -> tuple[int, tuple[str, str]]:
        """Adds a unit; its number, and the white space before and after it, are returned."""
        text, markup = inline.content
        around = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return self.add(text.strip(), markup, where), around


def functions_of(document: type[Document]) -> tuple[Callable, Callable]:
    """The functions `units` and `write` of the format (see `Format`) that a class reads."""

    def units(path: Path, options: DocumentOptions) -> list[Unit]:
        return document(_bytes_of(path), options).units

    def write(
        path: Path, output: Path, translations: Sequence[str | None], options: DocumentOptions
    ) -> list[Refusal]:
        read = document(_bytes_of(path), options)
        output.write_bytes(read.write(translations))
        return read.refusals

    return units, write


def _bytes_of(path):
    with open(path, "rb") as file:
        return file.read(MAX_BYTES + 1)


class TextDocument(Document):
    """A text of which parts are replaced, while all else stays to the letter.

    `parse` calls `replace` for each part.
    """

    # What errors say after the name of the encoding, and of what to do.
    encoding_from, to_utf8 = "", "convert it to UTF-8"

    def read(self, data: bytes) -> None:
        self.encoding, self._bom = self.encoding_of(data)
        try:
            self.source = data[len(self._bom) :].decode(self.encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise DocumentError(
                f"It is not in the encoding {self.encoding}{self.encoding_from}: {error}: "
                f"{self.to_utf8}."
            ) from error
        if "\0" in self.source:
            raise DocumentError("It has zero characters, and so is no text.")
        self._parts = []
        self.parse(self.source)

    def encoding_of(self, data: bytes) -> tuple[str, bytes]:
        """The encoding's name, and the byte order mark that the file begins with."""
        return byte_order_mark(data) or ("utf-8", b"")

    def parse(self, source: str) -> None:
        """Finds the units of the text."""
        raise NotImplementedError

    def replace(
        self, start: int, end: int, write: Callable[[Sequence[str | None]], str | None]
    ) -> None:
        """Has `write(translations)` in the place of source[start:end], unless it is None."""
        self._parts.append((start, end, write))

    def encode(self, text: str) -> bytes:
        """The bytes of the written text."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise DocumentError(
                f"Its encoding {self.encoding} has no {text[error.start]!r}, which the translation "
                f"needs: {self.to_utf8}."
            ) from error

    def rendered(self, start: int, end: int, translations: Sequence[str | None]) -> str:
        """source[start:end] with what is replaced within it."""
        written, last = [], start
        place = bisect.bisect_left(self._parts, start, key=lambda part: part[0])
        for i in range(place, len(self._parts)):
            first, stop, write = self._parts[i]
            if first >= end:
                break
            if first < last or stop > end:
                continue
            new = write(translations)
            if new is not None:
                written += [self.source[last:first], new]
                last = stop
        return "".join([*written, self.source[last:end]])

    def write(self, translations: Sequence[str | None]) -> bytes:
        # One that holds others comes before them: it writes them itself.
        self._parts.sort(key=lambda part: (part[0], -part[1]))
        return self._bom + self.encode(self.rendered(0, len(self.source), translations))


class Inline:
    """A fragment of HTML whose elements stand for markup of the document's own, of any type."""

    def __init__(self) -> None:
        self._written, self._markup, self._open = [], [], []

    @property
    def content(self) -> tuple[str, str | None]:
        """The text of a `Unit` and its `markup`: it is plain where nothing is marked up."""
        fragment = "".join(self._written)
        return (fragment, "html") if self._markup else (html.unescape(fragment), None)

    def text(self, text: str, escaped: bool = False) -> None:
        """Adds text, which may be HTML already."""
        self._written.append(text if escaped else html.escape(text, quote=False))

    def open(self, start: Any) -> None:
        """Begins an element."""
        self._open.append(len(self._markup))
        self._written.append(f'<span id="{len(self._markup)}">')
        self._markup.append((start, None))

    def close(self, end: Any) -> None:
        """Ends the element that was begun last."""
        number = self._open.pop()
        self._markup[number] = (self._markup[number][0], end)
        self._written.append("</span>")

    def single(self, markup: Any, space: bool = False) -> None:
        """Adds what has no text; `space`: between words it stands for a space."""
        name = "br" if space else "x"
        self._written.append(f'<{name} id="{len(self._markup)}"/>')
        self._markup.append((markup, None))

    def kept(self, markup: Any, text: str) -> None:
        """Adds what stays as it is, with the text that a translator may see of it."""
        self._written.append(
            f'<span id="{len(self._markup)}" translate="no">{html.escape(text, quote=False)}</span>'
        )
        self._markup.append((markup, None))

    def parts(self, translation: str) -> Iterator[tuple[str, Any]]:
        """The parts of a translation: `("text", HTML)`, and the markup with start, end or single.

        What stays is single too.
        """
        if not self._markup:
            translation = html.escape(translation, quote=False)
        place, opened, kept = 0, [], False
        for match in _PART.finditer(translation):
            if text := "" if kept else translation[place : match.start()]:
                yield "text", text
            place = match.end()
            if match["end"]:
                if kept:
                    kept = False
                elif opened:
                    yield "end", self._markup[opened.pop()][1]
            elif match["id"] and not kept:
                number = int(match["id"])
                start, is_element = self._markup[number][0], match["name"] == "span"
                kept = bool(match["kept"])
                if is_element and not kept:
                    opened.append(number)
                yield "start" if is_element and not kept else "single", start
        if text := translation[place:]:
            yield "text", text


def byte_order_mark(data: bytes) -> tuple[str, bytes] | None:
    """The encoding that a byte order mark names, and the mark; None where there is none."""
    for encoding, bom in (
        ("utf-8", codecs.BOM_UTF8),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-32-be", codecs.BOM_UTF32_BE),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ):
        if data.startswith(bom):
            return encoding, bom
    return None


def lost_marks(unit: Unit, translation: str) -> str:
    """The marks and symbols of a unit that its translation lacks, with spaces between them.

    Letters, digits and punctuation, which translations may change, do not count.
    """
    texts = unit.text, translation
    if unit.markup:
        texts = (html.unescape(re.sub("<[^<>]*>", "", text)) for text in texts)
    marks = [
        Counter(mark for mark in text if mark in _MARKS or unicodedata.category(mark) == "So")
        for text in texts
    ]
    return " ".join((marks[0] - marks[1]).elements())


def has_words(text: str) -> bool:
    """True if a text has a letter: without one it stays as it is."""
    return any(character.isalpha() for character in text)
