"""Documents: read into texts, and written with their translations."""

import bisect
import codecs
import dataclasses
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_mt.errors import InputError
from keras_mt.text.fragment import Fragment, FragmentBuilder
from keras_mt.text.source import Source

MAX_BYTES = 64 << 20
_MARKS = frozenset("[]{}<>|\\^~=_*@")


class Unit(NamedTuple):
    """A text that is translated by itself: a paragraph, an entry, a title, a line.

    Attributes:
        text: The text; of a document a `keras_mt.text.Fragment`, with its inline elements.
        where: How an error names it, such as `msgid "Save"`.

    Example:

    >>> Unit("A man sleeps.", "line 3").where
    'line 3'
    """

    text: str
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


class DocumentError(InputError):
    """The file is not what its format says, or more than what is read: the message says what."""


class Document:
    """A document of some format: its texts, and how it is written with their translations.

    A format is a subclass: `read` calls `add` for each text, and `written` asks for the `parts` of
    each translation.

    Args:
        data: The bytes of the file; DocumentError if they are none of the format.
        options: A `DocumentOptions`, or None for the defaults.

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

    def __init__(self, data: bytes, options: DocumentOptions | None = None):
        if len(data) > MAX_BYTES:
            raise DocumentError(
                f"a document may have {MAX_BYTES >> 20} MiB at most. This has more: divide it."
            )
        self.options = options or DocumentOptions()
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
        return "".join(
            what for _, what in self.parts(number) or [("text", self.units[number].text)]
        )

    def is_new(self, number: int) -> bool:
        """True if there is a translation that is not the text itself."""
        text, new = self.units[number].text, self._translations[number]
        same = new == text and getattr(new, "elements", text.elements) == text.elements
        return new is not None and not same


class _Frame:
    """A unit's text, and what stands around it: white space, elements without words or of all."""

    def __init__(self, builder: FragmentBuilder):
        self._builder, whole = builder, builder.fragment
        parts = [(kind, what, _shown(kind, what, whole)) for kind, what in whole.parts()]
        first, last = 0, len(parts)
        while first < last:
            ends = parts[first], parts[last - 1]
            if ends[0][0] in ("text", "kept") and not ends[0][2].strip():
                first += 1
            elif ends[1][0] in ("text", "kept") and not ends[1][2].strip():
                last -= 1
            elif ends[0][0] == "start" and ends[0][1] == ends[1][1]:
                first, last = first + 1, last - 1
            else:
                break
        sizes = [sum(len(part[2]) for part in some) for some in (parts[:first], parts[:last])]
        cut = whole.cut(*sizes)
        self._before = [part[:2] for part in parts[:first]]
        self._before.append(("text", cut[: len(cut) - len(cut.lstrip())]))
        self._after = [("text", cut[len(cut.rstrip()) :])]
        self._after += [part[:2] for part in parts[last:]]
        # The elements of the unit by their numbers in the whole.
        self._numbers = sorted(p[1] for p in parts[first:last] if p[0] in ("start", "kept"))
        parents = {-1: -1} | {number: i for i, number in enumerate(self._numbers)}
        elements = [cut.elements[number] for number in self._numbers]
        elements = [e._replace(parent=parents.get(e.parent, -1)) for e in elements]
        self.text = Fragment(cut, elements).stripped()

    def around(self, translation: str) -> list[tuple[str, Any]]:
        """The parts of a translation with what stands around it."""
        if self._numbers and not isinstance(translation, Fragment):
            # Of a function that knows of no elements: letters and places say where they are.
            translation = Source(self.text).translated(translation).text
        inner = Fragment(translation, getattr(translation, "elements", ())).stripped().parts()
        numbered = [(k, what if k == "text" else self._numbers[what]) for k, what in inner]
        parts = [*self._before, *numbered, *self._after]
        return [part for part in map(self._builder.with_markup, parts) if part != ("text", "")]


def _shown(kind, what, fragment):
    """The text that a part of a fragment covers."""
    if kind == "kept":
        return fragment[slice(*fragment.elements[what][:2])]
    return what if kind == "text" else ""


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
            raise DocumentError("It has NUL characters, so it is not a text file.")
        self._replacements: list[tuple[int, int, Callable[[], str | None]]] = []
        self.parse(self.source)

    def encoding_of(self, data: bytes) -> tuple[str, bytes]:
        """The encoding's name, and the byte order mark that the file begins with."""
        return byte_order_mark(data) or ("utf-8", b"")

    def parse(self, source: str) -> None:
        """Finds the units of the text."""
        raise NotImplementedError

    def replace(self, start: int, end: int, write: Callable[[], str | None]) -> None:
        """Has what `write` returns in the place of source[start:end], unless it is None."""
        self._replacements.append((start, end, write))

    def encode(self, text: str) -> bytes:
        """The bytes of the written text."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise DocumentError(
                f"Its encoding {self.encoding} has no {text[error.start]!r}, which the translation "
                f"needs: {self.to_utf8}."
            ) from error

    def rendered(self, start: int, end: int) -> str:
        """source[start:end] with what is replaced within it."""
        written, last = [], start
        place = bisect.bisect_left(self._replacements, start, key=lambda part: part[0])
        for i in range(place, len(self._replacements)):
            first, stop, write = self._replacements[i]
            if first >= end:
                break
            if first < last or stop > end:
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


def lost_marks(text: str, translation: str) -> str:
    """The marks and symbols of a text that its translation lacks, with spaces between them.

    Letters, digits and punctuation, which translations may change, do not count.
    """
    marks = [
        Counter(c for c in side if c in _MARKS or unicodedata.category(c) == "So")
        for side in (text, translation)
    ]
    return " ".join((marks[0] - marks[1]).elements())


def has_words(text: str) -> bool:
    """True if a text has a letter."""
    return any(map(str.isalpha, text))
