"""Texts with inline elements, such as bold words and links: the places of these in the text."""

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from keras_mt.errors import InputError

_MAX_DEPTH = 256  # Elements in each other.


class Element(NamedTuple):
    """The place of an inline element in a text.

    Attributes:
        start: Its first character.
        end: The one after its last.
        parent: The number of the element around it; -1 for none.
        kept: Whether it stays as it is, with all that is in its place.

    Example:

    >>> Element(2, 5)
    Element(start=2, end=5, parent=-1, kept=False)
    """

    start: int
    end: int
    parent: int = -1
    kept: bool = False


class Fragment(str):
    """A text with inline elements: a str that knows their places.

    Its translation is a fragment with the same elements, in the same order, in other places.

    Args:
        text: The text, str.
        elements: An `Element` for each, after the one around it.

    Example:

    >>> fragment = Fragment("A red ball", [Element(2, 5)])
    >>> [*fragment.parts()]
    [('text', 'A '), ('start', 0), ('text', 'red'), ('end', 0), ('text', ' ball')]
    """

    elements: tuple[Element, ...]

    def __new__(cls, text: str, elements: Iterable[Element] = ()) -> Self:
        self = super().__new__(cls, text)
        self.elements = tuple(elements)
        return self

    def cut(self, start: int, end: int) -> Self:
        """The text from start to end, with all elements, those outside at its bounds."""
        places = [[min(max(p, start), end) - start for p in e[:2]] for e in self.elements]
        moved = [Element(*p, *e[2:]) for p, e in zip(places, self.elements, strict=True)]
        return type(self)(self[start:end], moved)

    def stripped(self) -> Self:
        """The text without the white space at its ends."""
        return self.cut(len(self) - len(self.lstrip()), len(self.rstrip()) or len(self))

    def parts(self) -> Iterator[tuple[str, Any]]:
        """The parts in order: `("text", str)`, and `start`, `end` or `kept` with a number."""
        children = children_of(self.elements)

        def parts_of(parent, place, end):
            for i in sorted(children[parent], key=lambda i: self.elements[i][:2]):
                element = self.elements[i]
                if place < element.start:
                    yield "text", self[place : element.start]
                if element.kept:
                    yield "kept", i
                else:
                    yield "start", i
                    yield from parts_of(i, element.start, element.end)
                    yield "end", i
                place = max(place, element.end)
            if place < end:
                yield "text", self[place:end]

        return parts_of(-1, 0, len(self))


def children_of(elements: Sequence[Element]) -> dict[int, list[int]]:
    """The numbers of the elements directly in each one, by its number; in the text itself, -1."""
    children = collections.defaultdict(list)
    for i, element in enumerate(elements):
        children[element.parent].append(i)
    return children


class FragmentBuilder:
    """Builds a fragment, and remembers the markup that each of its elements stands for."""

    def __init__(self) -> None:
        self._text, self._elements, self._open = "", [], []
        self._markup: list[tuple[Any, Any]] = []  # At the start and at the end of each element.
        self._begins_line = False

    @property
    def fragment(self) -> Fragment:
        """The fragment, when all its elements are closed."""
        return Fragment(self._text, self._elements).cut(0, len(self._text) - self._begins_line)

    def text(self, text: str) -> None:
        """Adds text."""
        text = text.lstrip() if self._begins_line else text
        self._text += text
        self._begins_line &= not text

    def end_line(self) -> None:
        """Has a new line begin with the next text."""
        if self._text.strip() and not self._begins_line:
            self._text += "\n"
            self._begins_line = True

    def open(self, markup: Any) -> None:
        """Begins an element."""
        if len(self._open) == _MAX_DEPTH:
            raise InputError(f"A text has more than {_MAX_DEPTH} elements in each other.")
        self._open.append(self._add(markup))

    def close(self, markup: Any = None) -> None:
        """Ends the element that was begun last; `markup` is that at its end, if it is another."""
        i = self._open.pop()
        self._elements[i] = self._elements[i]._replace(end=len(self._text))
        if markup is not None:
            self._markup[i] = self._markup[i][0], markup

    def keep(self, markup: Any, text: str = "", is_space: bool = False) -> None:
        """Adds an element that stays as it is, with the text that a translator may see of it.

        One that `is_space` is a space in the text where none separates it from the word before it.
        """
        i = self._add(markup)
        separates = is_space and self._text and not self._text[-1].isspace()
        self.text(" " if separates else text)
        self._elements[i] = self._elements[i]._replace(end=len(self._text), kept=True)

    def _add(self, markup):
        place = len(self._text)
        self._elements.append(Element(place, place, self._open[-1] if self._open else -1))
        self._markup.append((markup, markup))
        return len(self._elements) - 1

    def parts(self) -> Iterator[tuple[str, Any]]:
        """The parts of the fragment, with markup in the place of elements' numbers."""
        return map(self.with_markup, self.fragment.parts())

    def with_markup(self, part: tuple[str, Any]) -> tuple[str, Any]:
        """A part as of `Fragment.parts`, with markup in the place of the element's number."""
        kind, what = part
        return kind, what if kind == "text" else self._markup[what][kind == "end"]
