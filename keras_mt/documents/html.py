"""HTML: texts and the attributes that readers see; all else stays to the letter."""

import html
import itertools
import re

from keras_mt.documents.document import TextDocument, byte_order_mark
from keras_mt.text.fragment import FragmentBuilder
from keras_mt.text.markup import INLINE, VOID, Token, Tokens, add_tokens

_ATTRIBUTES = frozenset(
    """alt aria-description aria-label aria-placeholder aria-roledescription aria-valuetext label
    placeholder summary title""".split()  # noqa: SIM905
)
_META = frozenset(
    """description keywords og:description og:image:alt og:title twitter:description
    twitter:image:alt twitter:title""".split()  # noqa: SIM905
)
_BUTTONS = frozenset(["button", "reset", "submit"])
_CHARSET = re.compile(
    rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)""",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t\r\n\f]+")
_QUOTES = {'"': "&quot;", "'": "&#39;"}


class HtmlDocument(TextDocument):
    """A page: a text is what stands in a block, or an attribute that readers see."""

    def encoding_of(self, data: bytes) -> tuple[str, bytes]:
        if found := byte_order_mark(data):
            return found
        declared = _CHARSET.search(data[:4096])
        # A page that names none and needs none gets no letters that would need one.
        name = "ascii" if data.isascii() else "utf-8"
        if declared:
            name = (declared[1] or declared[2]).decode("ascii")
        # As browsers have it: a page that can be read so far is not in UTF-16, and Latin-1 is
        # Windows-1252.
        if name.lower() in ("iso-8859-1", "latin1", "us-ascii"):
            name = "windows-1252"
        if name.lower().startswith(("utf-16", "utf-32")):
            name = "utf-8"
        return name, b""

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding, "xmlcharrefreplace")

    def parse(self, source: str) -> None:
        self._tokens = Tokens(source)
        languages = (self._tokens.value(token, "lang") for token in self._tokens)
        language = next(filter(None, languages), "")
        bounds, begin = _bounds(self._tokens), 0
        for i, token in enumerate([*self._tokens, Token("text", 0, 0)]):
            if i in bounds or i == len(self._tokens):
                self._add_run(begin, i)
                begin = i + 1
            if not token.stays:
                self._add_attributes(token, language)

    def _add_attributes(self, token, language):
        """Units for the attributes of a tag that are text, and its language."""
        code = self.target_language
        for name, (start, end) in token.attributes.items():
            if name in ("lang", "xml:lang"):
                if code and self.source[start:end].lower() == language:
                    self.replace(start, end, lambda: code)
            elif self._is_text(token, name):
                self._add_attribute(start, end)

    def _is_text(self, token, name):
        if token.name == "meta" and name == "content":
            return not _META.isdisjoint(self._tokens.value(token, n) for n in ("name", "property"))
        is_label = token.name == "input" and self._tokens.value(token, "type") in _BUTTONS
        return name in _ATTRIBUTES or (name == "value" and is_label)

    def _add_attribute(self, start, end):
        number = self.add(_SPACE.sub(" ", html.unescape(self.source[start:end])))
        is_quoted = self.source[start - 1] in _QUOTES
        mark = self.source[start - 1] if is_quoted else '"'

        def write():
            new = html.escape(self.text(number), quote=False).replace(mark, _QUOTES[mark])
            return new if is_quoted else f'"{new}"'

        self.replace(start, end, write, number)

    def _add_run(self, begin, end):
        """A unit of the tokens between two bounds, less what has no text at its ends."""
        while begin < end and self._is_bare(self._tokens[begin]):
            begin += 1
        while begin < end and self._is_bare(self._tokens[end - 1]):
            end -= 1
        run = self._tokens[begin:end]
        if all(token.stays for token in run if token.kind == "text"):
            return
        builder = FragmentBuilder()
        add_tokens(builder, run, self._text_of)
        number = self.add(builder)
        self.replace(run[0].start, run[-1].end, lambda: self._translated(number), number)

    def _translated(self, number):
        written = ""
        for kind, what in self.parts(number):
            if kind == "text":
                written += html.escape(what, quote=False)
            else:
                last = what.partner if kind == "kept" and what.partner else what
                written += self.rendered(what.start, last.end)
        return written

    def _is_bare(self, token):
        return token.kind == "alone" or (token.kind == "text" and not self._text_of(token).strip())

    def _text_of(self, token):
        return html.unescape(_SPACE.sub(" ", self.source[token.start : token.end]))


def _bounds(tokens):
    """The numbers of the tags at which a text ends.

    These are the tags of blocks, and those whose elements are not whole in a text.
    """
    found, inside = set(), -1
    for i, token in enumerate(tokens):
        if i > inside and token.name:
            tags = () if token.kind == "alone" or token.name in VOID else (token, token.partner)
            is_whole = all(tag and tag.start < tag.end for tag in tags)
            if token.name not in INLINE or not is_whole:
                found.add(i)
            elif token.kind == "start" and token.is_kept:
                inside = token.partner.index
    counts = list(itertools.accumulate((i in found for i in range(len(tokens))), initial=0))
    for i, token in enumerate(tokens):
        if token.kind == "start" and counts[token.partner.index] > counts[i + 1]:
            found |= {i, token.partner.index}
    return found
