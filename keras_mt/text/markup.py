"""HTML in texts: taken out before the translation, and put back around what the words became."""

import dataclasses
import html
import re
from typing import Self

import numpy as np

from keras_mt.text.elements import BLOCKS, HIDDEN, KEPT, SINGLE, VOID
from keras_mt.text.placing import Placing
from keras_mt.text.words import Words

# The start of a comment; another declaration or an instruction; an end tag or a start tag.
_TAG = re.compile(
    r"""<!--|<(?:!(?!--)|\?)[^<>]*>
    |<(?P<end>/?)(?P<name>[a-zA-Z][^\s/<>]*+)
    (?P<rest>(?:=\s*+(?:"[^"]*"|'[^']*'|(?!["'\s]))|[^<>=])*+)>""",
    re.DOTALL | re.VERBOSE,
)
_ENTITY = re.compile(r"&(?:#?\w+;?)?")
_ATTRIBUTE = re.compile(r"""([^\s"'=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']*))?""")
# A value without quotes takes the slash before the end of its tag.
_BARE_VALUE = re.compile(r"""=\s*[^\s"'=]+/$""")
_CLOSING = frozenset(",.;:!?…)]}'’”»%")  # What no space comes before.
_DEPTH = 200  # No element stands in more than that; one that would ends the one around it.


@dataclasses.dataclass
class _Node:
    """An element, or a comment."""

    head: str  # The start tag, or the whole if there is no end tag.
    start: int  # Where its text begins in the fragment's text.
    end: int
    tail: str = ""  # The end tag.
    name: str = ""
    children: list[Self] = dataclasses.field(default_factory=list)
    kept: list[str] | None = None  # What stands within it, if that stays as it is.


class Fragment:
    """A fragment of HTML: its text, and its elements to put into the text's translation.

    Comments, void elements such as `<br>`, and `script`, `style` and the like have no text. An
    element stays as it is, with all within it, if its attribute `translate` is `no`, its class has
    `notranslate`, or it is `code`, `kbd`, `samp`, `var`, `pre`, `svg`, `math` or `template`. An
    element that is not closed ends where the one around it does. An end tag that closes nothing is
    left out. What is no whole tag, such as a single `<`, is text.

    Between words that nothing else separates a `<br>` is a space in the text. At the bounds of
    blocks, such as `<p>`, lines end: each is translated by itself, and stays in its block.

    Args:
        fragment: The HTML, str.

    Attributes:
        text: Its text, with entities decoded.
        protected: The places of `text` that stay as they are, pairs of characters.
        has_markup: Whether there is more than text.

    Example:

    >>> fragment = Fragment("A <b>red</b> ball &amp; a <i>dog</i>")
    >>> fragment.text
    'A red ball & a dog'
    >>> words, others = Words(fragment.text), Words("Ein roter Ball & ein Hund")
    >>> fragment.written(words, others, np.eye(6))
    'Ein <b>roter</b> Ball &amp; ein <i>Hund</i>'
    """

    def __init__(self, fragment: str):
        self.text = ""
        self.protected: list[tuple[int, int]] = []
        self._is_plain = not re.search("[&<]", fragment)
        self._root = _Node("", 0, 0)
        self._open = [self._root]  # The elements that are not closed yet.
        # White space to come before the next text, and the node that it belongs to, if any.
        self._pending: tuple[str, _Node | None] = "", None
        self._parse(fragment)
        while len(self._open) > 1:
            self._close()
        self._root.end = len(self.text)
        self.has_markup = bool(self._root.children)

    def _parse(self, fragment):
        place, last = 0, fragment.rfind("-->")
        while match := _TAG.search(fragment, place):
            self._add_text(fragment[place : match.start()])
            place = match.end()
            if match[0] == "<!--":
                end = fragment.index("-->", place) + 3 if place <= last else place
                add = self._add_node if end > place else self._add_text
                add(fragment[match.start() : end])
                place = end
                continue
            name = (match["name"] or "").lower()
            if name in HIDDEN and not match["end"]:
                end = re.compile(rf"</{name}\s*>|\Z", re.IGNORECASE).search(fragment, place)
                closing = end[0] or f"</{match['name']}>"
                self._add_node(match[0] + fragment[place : end.start()] + closing, name)
                place = end.end()
            elif match["end"]:
                self._end_tag(name)
            else:
                self._start_tag(match, name)
        self._add_text(fragment[place:])

    def _start_tag(self, match, name):
        if name in BLOCKS:
            self._pending = "\n", None
            if name in SINGLE and self._open[-1].name == name:
                self._close()
        rest = match["rest"] or ""
        closed = rest.endswith("/") and not _BARE_VALUE.search(rest)
        if not name or name in VOID or closed:
            self._add_node(match[0], name)
            return
        if len(self._open) > _DEPTH:
            self._close()
        node = _Node(match[0], len(self.text), 0, f"</{match['name']}>", name)
        self._kept_within(match[0])
        self._open[-1].children.append(node)
        self._open.append(node)
        if _stays(name, rest) and not any(n.kept is not None for n in self._open):
            node.kept = []

    def _end_tag(self, name):
        if name in BLOCKS:
            self._pending = "\n", None
        if name in [node.name for node in self._open[1:]]:
            while self._open[-1].name != name:
                self._close()
            self._close()

    def _close(self):
        node = self._open.pop()
        node.end = len(self.text)
        if node.kept is None:
            self._kept_within(node.tail)
        elif text := self.text[node.start : node.end].strip():
            start = self.text.index(text, node.start)
            self.protected.append((start, start + len(text)))

    def _add_node(self, head, name=""):
        node = _Node(head, len(self.text), len(self.text))
        if name == "br":
            self._pending = self._pending if self._pending[0] else (" ", node)
        self._kept_within(head)
        self._open[-1].children.append(node)

    def _add_text(self, encoded):
        text = html.unescape(encoded)
        if not text:
            return
        if text.strip() or self._pending[0] != "\n":
            text = self._after_bound(text)
        self.text += text
        written = _ENTITY.sub(_entity, encoded)
        self._kept_within(written.replace("<", "&lt;").replace(">", "&gt;"))

    def _after_bound(self, text):
        """The next text, after the white space that is to come before it."""
        (space, node), self._pending = self._pending, ("", None)
        beside = self.text[len(self.text.rstrip()) :] + text[: len(text) - len(text.lstrip())]
        if not space or not self.text.strip() or "\n" in beside:
            return text
        if space == "\n" and beside:  # A space there becomes the line's end.
            if not self.text[-1].isspace():
                return "\n" + text[1:]
            self.text = self.text[:-1] + "\n"
        elif not beside and (space == "\n" or text[0] not in _CLOSING):
            for opened in self._open[1:]:
                opened.start += len(space) * (opened.start == len(self.text))
            if node:
                node.start, node.end = len(self.text), len(self.text) + 1
            self.text += space
        return text

    def _kept_within(self, written):
        for node in self._open:
            if node.kept is not None:
                node.kept.append(written)

    def written(self, source: Words, target: Words, shares: np.ndarray) -> str:
        """A translation of the text with the elements put in.

        Each element stands around the words that its words became: of the runs of words that hold
        the one most of whose share is the element's, the run with the greatest sum of shares over
        one half. Marks at its bounds go with it if the source's element has them too. Elements keep
        their nesting, and never cross. What has no text goes between two words: after what stood
        before it, and before what stood after it, as far as both can be. So does an element for
        which no word is left.

        Args:
            source, target: The words of `text`, and of its translation, which holds all that is
                `protected`.
            shares: The share of each target word that belongs to each source word: see
                `word_alignment`.

        Returns:
            Well-formed HTML: text with `&`, `<` and `>` as entities, and all elements and comments
            of the fragment, with their attributes, each once.
        """
        if self._is_plain:  # Well-formed HTML may have a single `>`.
            return target.text.replace("&", "&amp;").replace("<", "&lt;")
        return Placing(source, target, shares).written(self._root)


def _entity(match):
    """An entity as it is, and what is none, or has no end, as one."""
    text = html.unescape(match[0])
    if match[0].endswith(";") and text != match[0]:
        return match[0]
    return html.escape(text, quote=False)


def _stays(name, rest):
    """True for an element that stays as it is, by its name and the rest of its start tag."""
    values = {n.lower(): v.strip("\"'").lower() for n, v in _ATTRIBUTE.findall(rest)[::-1]}
    classes = html.unescape(values.get("class", "")).split()
    return name in KEPT or values.get("translate") == "no" or "notranslate" in classes
