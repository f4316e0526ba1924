"""HTML: texts and the attributes that readers see; all else stays to the letter."""

import collections
import dataclasses
import html
import itertools
import re

from keras_mt.documents.base import Inline, TextDocument, byte_order_mark, functions_of, has_words
from keras_mt.text.elements import HIDDEN, INLINE, KEPT, RAW, SINGLE, VOID

_ATTRIBUTES = frozenset(
    """alt aria-description aria-label aria-placeholder aria-roledescription aria-valuetext label
    placeholder summary title""".split()  # noqa: SIM905
)
_META = frozenset(
    """description keywords og:description og:image:alt og:title twitter:description
    twitter:image:alt twitter:title""".split()  # noqa: SIM905
)
_BUTTONS = frozenset(["button", "reset", "submit"])

_BEGIN = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?P<rest>(?:[^>=]|=\s*+(?:"[^"]*"|'[^']*'|(?!["'])))*+)>""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s"'=/<>]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""")
_CHARSET = re.compile(
    rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)""",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t\r\n\f]+")


@dataclasses.dataclass
class _Token:
    """A text, a tag or another piece of the source, from `start` to `end`."""

    start: int
    end: int
    kind: str  # text, start, end or other.
    name: str = ""
    attributes: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    stays: bool = False  # Whether it is within what is not to be translated.
    index: int = 0  # Of a start tag.
    partner: int | None = None  # Of a start tag the index of its end tag, and the other way round.
    boundary: bool = False  # Whether a text ends here.


class HtmlDocument(TextDocument):
    """A page. Its encoding is by its byte order mark, its declaration, or UTF-8.

    `title`, `alt`, `placeholder` and the like, and the descriptions in `meta`, are texts too;
    `lang` becomes the target's code.
    """

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
        self._tokens = _tokens(source)
        self._nest()
        self._bound()
        names = (self._value(t, "lang") for t in self._tokens if "lang" in t.attributes)
        language = next(names, "").lower()
        begin = 0
        for i, token in enumerate([*self._tokens, _Token(0, 0, "other", boundary=True)]):
            if token.boundary:
                self._add_run(begin, i)
                begin = i + 1
            if token.kind == "start" and not token.stays:
                self._add_attributes(token, language)

    def _nest(self):
        """Finds which tags belong together, and what stays."""
        opened, names = [_Token(0, 0, "start")], collections.Counter()

        def close():
            names[opened[-1].name] -= 1
            return opened.pop()

        for i, token in enumerate(self._tokens):
            token.stays = opened[-1].stays
            if token.kind == "start":
                values = {n: self._value(token, n).lower() for n in token.attributes}
                if token.name in SINGLE and opened[-1].name == token.name:
                    close()
                    token.stays = opened[-1].stays
                if values.get("translate") in ("no", "yes"):
                    token.stays = values["translate"] == "no"
                classes = values.get("class", "").split()
                token.stays |= token.name in KEPT or "notranslate" in classes
                if token.name not in VOID:
                    token.index = i
                    opened.append(token)
                    names[token.name] += 1
            elif token.kind == "end" and names[token.name]:
                while opened[-1].name != token.name:
                    close()
                begun = close()
                begun.partner, token.partner, token.stays = i, begun.index, begun.stays

    def _value(self, token, name):
        start, end = token.attributes[name]
        return html.unescape(self.source[start:end])

    def _add_attributes(self, token, language):
        """Units for the attributes of a start tag that are text, and its language."""
        code = self.options.target_language
        for name, (start, end) in token.attributes.items():
            if name in ("lang", "xml:lang"):
                if code and self.source[start:end].lower() == language:
                    self.replace(start, end, lambda _: code)
            elif self._is_text(token, name):
                self._add_attribute(start, end)
        if code and token.name == "html" and "lang" not in token.attributes:
            place = token.start + len("<html")
            self.replace(place, place, lambda _: f' lang="{code}"')

    def _is_text(self, token, name):
        if name in _ATTRIBUTES:
            return True
        values = {n: self._value(token, n).lower() for n in token.attributes}
        if token.name == "meta" and name == "content":
            return bool(_META & {values.get("name"), values.get("property")})
        return token.name == "input" and name == "value" and values.get("type") in _BUTTONS

    def _add_attribute(self, start, end):
        text = _SPACE.sub(" ", html.unescape(self.source[start:end])).strip()
        if not has_words(text):
            return
        number = self.add(text)

        def write(translations):
            new = translations[number]
            if new is None or new == text:
                return None
            new = new.replace("&", "&amp;").replace("<", "&lt;")
            if self.source[start - 1] == "'":
                return new.replace("'", "&#39;")
            new = new.replace('"', "&quot;")
            return new if self.source[start - 1] == '"' else f'"{new}"'

        self.replace(start, end, write)

    def _bound(self):
        """Ends texts at the tags of blocks, and at those whose elements are not whole in a text."""
        tokens, inside = self._tokens, -1
        for i, token in enumerate(tokens):
            if i > inside and token.kind in ("start", "end"):
                alone = token.name not in VOID and token.partner is None
                token.boundary = token.name not in INLINE or alone
                if _is_kept(token) and not token.boundary and token.partner is not None:
                    inside = token.partner
        counts = list(itertools.accumulate((token.boundary for token in tokens), initial=0))
        for i, token in enumerate(tokens):
            end = token.partner if token.kind == "start" else None
            if end is not None and counts[end] > counts[i + 1]:
                token.boundary = tokens[end].boundary = True

    def _add_run(self, begin, end):
        """A unit of the tokens between two bounds, less what has no text at its ends."""
        tokens = self._tokens
        while begin < end:
            if self._is_bare(begin):
                begin += 1
            elif self._is_bare(end - 1):
                end -= 1
            elif tokens[begin].partner == end - 1 and not _is_kept(tokens[begin]):
                begin, end = begin + 1, end - 1
            else:
                break
        texts = [self.source[t.start : t.end] for t in tokens[begin:end] if t.kind == "text"]
        stay = all(t.stays for t in tokens[begin:end] if t.kind == "text")
        if stay or not has_words(html.unescape("".join(texts))):
            return
        inline = self._inline(begin, end)
        number, around = self.add_inline(inline)
        left, right = (" " * bool(space) for space in around)

        def write(translations):
            new = translations[number]
            if new is None or new == self.units[number].text:
                return None
            parts = [
                what if kind == "text" else self.rendered(*what, translations)
                for kind, what in inline.parts(new)
            ]
            return "".join([left, *parts, right])

        self.replace(tokens[begin].start, tokens[end - 1].end, write)

    def _is_bare(self, i):
        """True for a token at the end of a run that need not be part of it."""
        token = self._tokens[i]
        if token.kind == "text":
            return not self.source[token.start : token.end].strip()
        return token.kind == "other" or token.name in VOID

    def _inline(self, begin, end):
        inline, i = Inline(), begin
        while i < end:
            token = self._tokens[i]
            place = (token.start, token.end)
            if token.kind == "text":
                text = _SPACE.sub(" ", self.source[token.start : token.end])
                inline.text(text.replace("<", "&lt;").replace(">", "&gt;"), escaped=True)
            elif _is_kept(token) and token.partner is not None:
                i = token.partner
                inner = re.sub("<[^<>]*>", "", self.source[token.end : self._tokens[i].start])
                place = (token.start, self._tokens[i].end)
                if token.name in ("svg", "template") or not inner.strip():
                    inline.single(place)
                else:
                    inline.kept(place, _SPACE.sub(" ", html.unescape(inner)))
            elif token.kind == "start" and token.partner is not None:
                inline.open(place)
            elif token.kind == "end" and token.partner is not None:
                inline.close(place)
            else:
                inline.single(place, space=token.name == "br")
            i += 1
        return inline


units, write = functions_of(HtmlDocument)


def _is_kept(token):
    return token.kind == "start" and token.stays


def _tokens(source):
    """The source's pieces, in order, without a gap."""
    tokens, place, text = [], 0, 0

    def add(kind, start, end, *rest):
        nonlocal place, text
        if start > text:
            tokens.append(_Token(text, start, "text"))
        if end > start:
            tokens.append(_Token(start, end, kind, *rest))
        place = text = end

    while begin := _BEGIN.search(source, place):
        start = begin.start()
        if match := _TAG.match(source, start):
            name = match["name"].lower()
            add("end" if match["end"] else "start", start, match.end(), name, _attributes(match))
            if name in RAW and not match["end"]:
                closing = re.compile(rf"</{name}(?=[\s/>])|\Z", re.IGNORECASE).search(source, place)
                add("other" if name in HIDDEN else "text", place, closing.start())
            continue
        # What ends nowhere goes on to the end, as in a browser.
        for head, tail in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<", ">")):
            if source.startswith(head, start):
                end = source.find(tail, start + len(head)) + len(tail)
                break
        is_tag = source[start + 1].isalpha() or end < start + len(tail)
        add("other", start, len(source) if is_tag else end)
    add("other", len(source), len(source))
    return tokens


def _attributes(match):
    """The places of the attributes' values; the first counts if one is there twice."""
    found = {}
    for attribute in _ATTRIBUTE.finditer(match.string, match.start("rest"), match.end("rest")):
        start, end = attribute.span(2)
        if start >= 0:
            quoted = match.string[start] in "\"'"
            found.setdefault(attribute[1].lower(), (start + quoted, end - quoted))
    return found
