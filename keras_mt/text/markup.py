"""HTML read as tags and texts, and fragments of it as texts with inline elements."""

import dataclasses
import html
import re
from collections.abc import Callable, Sequence

from keras_mt.text.fragment import Fragment, FragmentBuilder

# Elements within a text.
INLINE = frozenset(
    """a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math
    q rb rp rt ruby s samp small span strike strong sub sup svg time tt u var wbr""".split()  # noqa: SIM905
)
# A text ends at their bounds. It does at those of elements in no list in a page, where scripts make
# them anything; in a fragment these, such as `<x/>`, stand for something within the text.
BLOCKS = frozenset(
    """address area article aside audio base basefont bgsound blockquote body button canvas caption
    center col colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure
    footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html input keygen legend li
    link main map menu meta meter nav noscript object ol optgroup option output p param picture pre
    progress search section select slot source summary table tbody td template tfoot th thead title
    tr track ul video""".split()  # noqa: SIM905
)
# Without an end tag.
VOID = frozenset(
    """area base basefont bgsound br col embed frame hr img input keygen link meta param source
    track wbr""".split()  # noqa: SIM905
)
# Where one of these begins, one of the same name ends.
SINGLE = frozenset(["dd", "dt", "li", "option", "p", "td", "th", "tr"])
# Their content stays as it is.
KEPT = frozenset(["code", "kbd", "math", "pre", "samp", "svg", "template", "var"])
# Their content is not markup; of these, only a title is text.
RAW = frozenset(["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"])
HIDDEN = RAW - {"title"}
_INVISIBLE = frozenset(["svg", "template"]) | HIDDEN
_DEPTH = 200  # No element stands in more than that; one that would ends the one around it.

# The start of a comment; another declaration or an instruction; an end tag or a start tag.
_TAG = re.compile(
    r"""<!--|<(?:!(?!--)|\?)[^<>]*>
    |<(?P<end>/?)(?P<name>[a-zA-Z][^\s/<>]*+)
    (?P<rest>(?:=\s*+(?:"[^"]*"|'[^']*'|(?!["'\s]))|[^<>=])*+)>""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s"'=/<>]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""")
# A value without quotes takes the slash before the end of its tag.
_BARE_VALUE = re.compile(r"""=\s*[^\s"'=]+/$""")
_NO_ENTITY = re.compile(r"&(?!(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]\w*);)")


@dataclasses.dataclass(eq=False)
class Token:
    """A piece of a source; an end tag that is left out is empty, where its element ends.

    Kinds: `text`, `start`, `end`, `stray` (an end alone), `alone` (a void element, a comment).
    """

    kind: str
    start: int
    end: int
    name: str = ""
    attributes: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)  # Places.
    stays: bool = False  # Whether it is part of an element that is not translated.
    index: int = 0
    partner: "Token | None" = None  # The end tag of a start tag, and the other way round.

    @property
    def is_kept(self) -> bool:
        """True for a tag of an element that stays as it is."""
        return self.stays or self.name in HIDDEN


class Tokens(list):
    """The tokens of HTML, in order and without a gap; an incomplete tag, such as `<`, is text."""

    def __init__(self, source: str):
        super().__init__()
        self._source, self._opened = source, []
        place, last_comment = 0, source.rfind("-->")
        while match := _TAG.search(source, place):
            start, place = match.span()
            if match[0] == "<!--":
                if place <= last_comment:
                    place = source.index("-->", place) + 3
                    self._add("alone", start, place)
            elif not match["name"]:
                self._add("alone", start, place)
            elif match["end"]:
                self._end_tag(match["name"].lower(), start, place)
            else:
                place = self._start_tag(match)
        while self._opened:
            self._close(len(source), len(source))
        if self._end < len(source):
            self._add("text", self._end, len(source))

    def value(self, token: Token, attribute: str) -> str:
        """The value of a token's attribute in lower case; "" where it has none."""
        return html.unescape(self._source[slice(*token.attributes.get(attribute, (0, 0)))]).lower()

    @property
    def _end(self):
        return self[-1].end if self else 0

    def _add(self, kind, start, end, name="", attributes=None):
        """Adds a token, and the text before it."""
        if self._end < start:
            self._add("text", self._end, start)
        stays = bool(self._opened) and self._opened[-1].stays
        self.append(Token(kind, start, end, name, attributes or {}, stays, len(self)))
        return self[-1]

    def _start_tag(self, match):
        """Adds a start tag and content that is not markup; returns where these end."""
        name, rest, place = match["name"].lower(), match["rest"], match.end()
        is_closed = rest.endswith("/") and not _BARE_VALUE.search(rest)
        if self._opened and name in SINGLE and self._opened[-1].name == name:
            self._close(match.start(), match.start())
        is_alone = name in VOID or is_closed
        if len(self._opened) == _DEPTH and not is_alone:
            self._close(match.start(), match.start())
        token = self._add("alone" if is_alone else "start", *match.span(), name, _attributes(match))
        if (translate := self.value(token, "translate")) in ("no", "yes"):
            token.stays = translate == "no"
        token.stays |= name in KEPT or "notranslate" in self.value(token, "class").split()
        if is_alone:
            return place
        self._opened.append(token)
        if name in RAW:
            closing = re.compile(rf"</{name}(?=[\s/>])|\Z", re.IGNORECASE)
            place = closing.search(self._source, place).start()
            if name in HIDDEN and place > match.end():
                self._add("alone", match.end(), place)
        return place

    def _end_tag(self, name, start, end):
        if all(token.name != name for token in self._opened):
            self._add("stray", start, end, name)
            return
        while self._opened[-1].name != name:
            self._close(start, start)
        self._close(start, end)

    def _close(self, start, end):
        """Ends the element that was begun last."""
        begun = self._opened[-1]
        token = self._add("end", start, end, begun.name)
        token.partner, begun.partner = begun, token
        self._opened.pop()


def _attributes(match):
    """The places of the attributes' values; the first counts if one is there twice."""
    found = {}
    for attribute in _ATTRIBUTE.finditer(match.string, match.start("rest"), match.end("rest")):
        start, end = attribute.span(2)
        if start >= 0:
            quoted = match.string[start] in "\"'"
            found.setdefault(attribute[1].lower(), (start + quoted, end - quoted))
    return found


def add_tokens(
    builder: FragmentBuilder, tokens: Sequence[Token], text_of: Callable[[Token], str]
) -> None:
    """Adds whole elements to a fragment; the tokens of their tags are the markup."""
    skipped_to = 0
    for i, token in enumerate(tokens):
        if token.index < skipped_to:
            continue
        if token.name in BLOCKS and token.kind != "end":
            builder.end_line()
        if token.kind == "text":
            builder.text(text_of(token))
        elif token.kind == "alone":
            builder.keep(token, is_space=token.name == "br")
        elif token.kind == "start" and token.is_kept:
            skipped_to = token.partner.index
            inner = tokens[i : i + skipped_to - token.index]
            seen = (t for t in inner if t.kind == "text" and token.name not in _INVISIBLE)
            builder.keep(token, "".join(map(text_of, seen)))
        elif token.kind == "start":
            builder.open(token)
        elif token.kind == "end" and not token.partner.is_kept:
            builder.close(token)
        if token.name in BLOCKS:
            builder.end_line()


class HtmlFragment(FragmentBuilder):
    """A fragment of HTML, read as a `Fragment`; a translation of that is written as HTML again.

    A `<br>` without a space before it is a space in the text. At the bounds of blocks, such as
    `<p>`, lines end: each is translated by itself, and stays in its block.
    """

    def __init__(self, source: str):
        super().__init__()
        self._source, self._tokens = source, Tokens(source)
        add_tokens(self, self._tokens, lambda t: html.unescape(source[t.start : t.end]))

    def written(self, translation: Fragment) -> str:
        """Well-formed HTML of a translation: text with entities, and each element once."""
        if not re.search("[&<]", self._source):  # Well-formed HTML may have a single `>`.
            return translation.replace("&", "&amp;").replace("<", "&lt;")
        written = ""
        for kind, what in map(self.with_markup, translation.parts()):
            if kind == "text":
                written += html.escape(what, quote=False)
            elif kind == "kept" and what.kind == "start":
                inner = self._tokens[what.index : what.partner.index + 1]
                written += "".join(map(self._written, inner))
            else:
                written += self._written(what)
        return written

    def _written(self, token):
        """A token of well-formed HTML."""
        own = self._source[token.start : token.end]
        if token.kind == "text":
            return _NO_ENTITY.sub("&amp;", own).replace("<", "&lt;").replace(">", "&gt;")
        if token.kind == "stray":
            return ""
        return own or f"</{token.name}>"
