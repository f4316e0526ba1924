"""Documents: read into texts, and written with their translations."""

import bisect
import codecs
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_mt.errors import InputError
from keras_mt.text.fragment import Element, Fragment, FragmentBuilder
from keras_mt.text.source import Source

MAX_BYTES = 64 << 20
_BYTE_ORDER_MARKS = (
    ("utf-8", codecs.BOM_UTF8),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
)
_MARKS = frozenset("[]{}<>|\\^~=_*@")
Write = Callable[[], str | None]  # What stands in the place of a part; None for the part itself.


class Unit(NamedTuple):
    """A text that is translated by itself, of a document a `Fragment`; its name in errors.

    A line that is refused has the reason, too.
    """

    text: str
    where: str = ""
    error: str | None = None


class Refusal(NamedTuple):
    """A text that has no translation in the output, and why."""

    where: str
    reason: str
    text: str = ""


class Document:
    """A document of some format: its texts, and how it is written with their translations.

    A format is a subclass: `read` calls `add` for each text, and `written` asks for the `parts` of
    each translation.

    Args:
        data: The bytes of the file; InputError if they are none of the format.
        target_language: The code of the translations' language, or None where it is unknown.
        retranslate: Whether entries that have a translation get a new one.

    Attributes:
        units: The texts, a list of `Unit`.
        refusals: What could not be read or written, a list of `Refusal`; complete after `write`.

    Example:

    >>> class Shout(Document):
    ...     def read(self, data):
    ...         self.add(data.decode())
    ...     def written(self):
    ...         return "".join(what for _, what in self.parts(0)).encode()
    >>> Shout(b" a dog ").write(["A DOG!"])
    b' A DOG! '
    """

    def __init__(self, data: bytes, target_language: str | None = None, retranslate: bool = False):
        if len(data) > MAX_BYTES:
            raise InputError(f"a document may have {MAX_BYTES >> 20} MiB at most: divide it.")
        self.target_language, self.retranslate = target_language, retranslate
        self.units: list[Unit] = []
        self.refusals: list[Refusal] = []
        self._frames: list[_Frame] = []
        self._translations: Sequence[str | None] = ()
        self.read(data)

    def read(self, data: bytes) -> None:
        """Adds the texts of the file, in a fixed order."""
        raise NotImplementedError

    def written(self) -> bytes:
        """The file with its translations."""
        raise NotImplementedError

    def write(self, translations: Sequence[str | None]) -> bytes:
        """The file with a translation for each of `units`; None leaves the text as it is."""
        self._translations = translations
        return self.written()

    def add(self, content: str | FragmentBuilder, where: str = "") -> int | None:
        """Adds a text; returns its number, or None if it has no word and stays as it is.

        The unit leaves out white space and elements without words at its ends, and an
        element around all of it.
        """
        if isinstance(content, str):
            text, content = content, FragmentBuilder()
            content.text(text)
        if not has_words("".join(what for kind, what in content.parts() if kind == "text")):
            return None
        frame, number = _Frame(content), len(self.units)
        self._frames.append(frame)
        self.units.append(Unit(frame.text, where or f"text {number + 1}: {frame.text[:60]}"))
        return number

    def parts(self, number: int) -> list[tuple[str, Any]] | None:
        """The parts of a translation, text and markup; None where there is none."""
        new = self._translations[number]
        return None if new is None else self._frames[number].around(new)

    def text(self, number: int) -> str:
        """The text of a translation that has no elements; the text itself where there is none."""
        return "".join(x for _, x in self.parts(number) or [("text", self.units[number].text)])

    def is_new(self, number: int | None) -> bool:
        """True if there is such a unit, and a translation that is not the text itself."""
        if number is None:
            return False
        text, new = self.units[number].text, self._translations[number]
        same = new == text and getattr(new, "elements", text.elements) == text.elements
        return new is not None and not same


class _Frame:
    """A unit's text, and what stands around it: white space, elements without words or of all."""

    def __init__(self, builder: FragmentBuilder):
        self._builder, self._whole = builder, builder.fragment
        text, elements = self._whole, self._whole.elements
        start, end = self._bounds = len(text) - len(text.lstrip()), len(text.rstrip())
        around = {-1}
        for i, e in enumerate(elements):
            is_of_all = not e.kept and e.start <= start and end <= e.end
            if e.parent in around and (is_of_all or e.end <= start or end <= e.start):
                around.add(i)
        self._within = [i for i in range(len(elements)) if i not in around]
        numbers = {number: i for i, number in enumerate(self._within)}
        within = [elements[i] for i in self._within]
        within = [e._replace(parent=numbers.get(e.parent, -1)) for e in within]
        self.text = Fragment(text, within).stripped()

    def around(self, translation: str) -> list[tuple[str, Any]]:
        """The parts of a translation with what stands around it."""
        if self._within and not isinstance(translation, Fragment):
            # Of a function that knows of no elements: letters and places say where they are.
            translation = Source(self.text).translated(translation).text
        new = Fragment(translation, getattr(translation, "elements", ())).stripped()
        lost = () if new.elements else self._within
        start, end = self._bounds
        grown, elements = len(new) - (end - start), []
        for e in self._whole.elements:
            places = [place + grown * (place > start) for place in e[:2]]
            elements.append(Element(*places, *e[2:]))
        for i, e in zip(self._within, new.elements or [Element(0, 0)] * len(lost), strict=True):
            elements[i] = elements[i]._replace(start=start + e.start, end=start + e.end)
        whole = Fragment(self._whole[:start] + new + self._whole[end:], elements)
        parts = [part for part in whole.parts() if part[0] == "text" or part[1] not in lost]
        return [*map(self._builder.with_markup, parts)]


class TextDocument(Document):
    """A text of which parts are replaced, while all else stays to the letter.

    `parse` calls `replace` for each part.
    """

    def read(self, data: bytes) -> None:
        self.encoding, self._bom = self.encoding_of(data)
        try:
            self.source = data[len(self._bom) :].decode(self.encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise InputError(
                f"It is not in the encoding {self.encoding}: {error}: convert it to UTF-8."
            ) from error
        if "\0" in self.source:
            raise InputError("It has NUL characters, so it is not a text file.")
        self._replacements: list[tuple[int, int, Write, tuple]] = []
        self.parse(self.source)

    def encoding_of(self, data: bytes) -> tuple[str, bytes]:
        """The encoding's name, and the byte order mark that the file begins with."""
        return byte_order_mark(data) or ("utf-8", b"")

    def parse(self, source: str) -> None:
        """Finds the units of the text."""
        raise NotImplementedError

    def replace(self, start: int, end: int, write: Write, *numbers: int | None) -> None:
        """Has what `write` returns in the place of source[start:end], unless it is None.

        With the numbers of units it is not called unless one of these has a new translation.
        """
        self._replacements.append((start, end, write, numbers))

    def encode(self, text: str) -> bytes:
        """The bytes of the written text."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise InputError(
                f"Its encoding {self.encoding} has no {text[error.start]!r}: convert it to UTF-8."
            ) from error

    def rendered(self, start: int, end: int) -> str:
        """source[start:end] with what is replaced within it."""
        written, last = [], start
        place = bisect.bisect_left(self._replacements, start, key=lambda part: part[0])
        for i in range(place, len(self._replacements)):
            first, stop, write, numbers = self._replacements[i]
            if first >= end:
                break
            if first < last or stop > end or (numbers and not any(map(self.is_new, numbers))):
                continue
            if (new := write()) is not None:
                written += [self.source[last:first], new]
                last = stop
        return "".join([*written, self.source[last:end]])

    def written(self) -> bytes:
        # One that holds others comes before them: it writes them itself.
        self._replacements.sort(key=lambda part: (part[0], -part[1]))
        return self._bom + self.encode(self.rendered(0, len(self.source)))


def byte_order_mark(data: bytes) -> tuple[str, bytes] | None:
    """The encoding that a byte order mark names, and the mark; None where there is none."""
    return next((found for found in _BYTE_ORDER_MARKS if data.startswith(found[1])), None)


def lost_marks(text: str, translation: str) -> str:
    """The marks and symbols of a text that its translation lacks, with spaces between them.

    Letters, digits and punctuation, which translations may change, do not count.
    """
    lost = (Counter(text) - Counter(translation)).elements()
    return " ".join(c for c in lost if c in _MARKS or unicodedata.category(c) == "So")


def has_words(text: str) -> bool:
    """True if a text has a letter."""
    return any(map(str.isalpha, text))
