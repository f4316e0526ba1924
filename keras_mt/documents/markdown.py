"""Markdown: paragraphs, headings and cells of tables; all else stays to the letter."""

import html
import re

from keras_mt.documents.base import Inline, TextDocument, functions_of, has_words
from keras_mt.documents.formats import Refusal
from keras_mt.extras import require

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n(?:.*\r?\n)*?\1[ \t]*(?:\r?\n|\Z)")
# What stays within a text: a footnote's reference, and formulas.
_KEPT = re.compile(r"\[\^[^\]\s]+\]|\$\$(?s:.+?)\$\$|\$(?=\S)(?:\\.|[^$\n\\])+?(?<=\S)\$(?!\d)")
# What stays before a paragraph: a check box, a footnote's name, a kind of note.
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:[ \t]*")
_HEAD = re.compile(rf"\[[ xX]\][ \t]+|{_FOOTNOTE.pattern}|\[![A-Z]+\][ \t]*(?:\n|\Z)")
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<!\w)_|_(?!\w)|~(?=~)|&(?=#?\w+;)")
# What makes a line a block of another kind, where it stands first.
_BLOCK = re.compile(r"(\d*)(#{1,6}(?:\s|$)|[-+](?:\s|$)|>|=+\s*$|-+\s*$|:::|[.)](?:\s|$))")


class _UnknownError(Exception):
    """An inline token that is not found in the source."""


class MarkdownDocument(TextDocument):
    """CommonMark with tables and strikethrough.

    A paragraph of several lines becomes one line. Emphasis, links, code, formulas and HTML keep
    their markup; what a picture shows (`alt`) is a text.
    """

    def parse(self, source: str) -> None:
        require("markdown_it", "documents", "Markdown")
        from markdown_it import MarkdownIt

        # Without `text_join` an escape is a token of its own, with what was written.
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.disable("text_join")
        self._parser.inline.ruler.before("escape", "kept", _keep)
        rules = self._parser.block.ruler
        rules.at("reference", _reference)
        rules.before("reference", "footnote", _footnote, {"alt": ["paragraph"]})
        front = _FRONT_MATTER.match(source)
        begin = front.end() if front else 0
        ends = re.compile(r"\r\n|\n|\r").finditer(source, begin)
        starts = [begin, *(match.end() for match in ends), len(source)]
        self._env = {}
        kinds, place = [], begin
        for token in self._parser.parse(source[begin:], self._env):
            if token.nesting == 1:
                kinds.append(token.type)
            elif token.nesting == -1:
                kinds.pop()
            elif token.type == "inline":
                first, last = token.map
                place = max(place, starts[first])
                end = starts[min(last, len(starts) - 1)]
                place = self._add_inline(token, place, end, kinds[-1])

    def _add_inline(self, token, start, end, kind):
        """A unit for the content of a block; where it ends in the source is returned."""
        content, children = token.content, token.children
        head = _HEAD.match(content) if kind == "paragraph_open" else None
        begin = head.end() if head else 0
        if not has_words(content[begin:]):
            return start
        spans, place, in_cell = [], start, kind in ("td_open", "th_open")
        for line in content.split("\n"):
            written = line.strip().replace("|", "\\|") if in_cell else line.strip()
            found = self.source.find(written, place, end)
            if found < 0:
                return self._refuse(token, start)
            place = found + len(written)
            spans.append((found, place))
        second = spans[1][0] if len(spans) > 1 else 0
        line = 1 + max(self.source.rfind("\n", 0, second), self.source.rfind("\r", 0, second))
        if head:
            (whole,) = self._parser.parseInline(content[begin:], self._env)
            content, children = whole.content, whole.children
        cursor = _Cursor(content, self._parser, self._env, self.source[line:second])
        try:
            cursor.read(children)
        except _UnknownError:
            return self._refuse(token, start)
        alts = {text: self.add(text) for text in cursor.alts}
        texts = [t.content for t in children if t.type in ("text", "text_special")]
        number, inline = None, cursor.inline
        text, markup = inline.content
        if has_words("".join(texts)):
            number = self.add(text, markup)

        def write(translations):
            new = None if number is None else translations[number]
            new = text if new is None else new
            shown = {alt: translations[i] or alt for alt, i in alts.items()}
            if new == text and all(alt == shown[alt] for alt in alts):
                return None
            return _written(inline.parts(new), shown, in_cell)

        lines, _, rest = (head[0] if head else "").rpartition("\n")
        first = spans[1 if lines else 0][0] + len(rest)
        self.replace(first, place, write)
        return place

    def _refuse(self, token, start):
        where = f"line {self.source.count(chr(10), 0, start) + 1}"
        reason = "its markup is not found in the file: it stays as it is"
        self.refusals.append(Refusal(where, reason, token.content))
        return start


units, write = functions_of(MarkdownDocument)


def _keep(state, silent):
    """An inline rule of markdown_it for what stays within a text."""
    match = _KEPT.match(state.src, state.pos, state.posMax)
    if match and not silent:
        state.push("kept", "", 0).content = match[0]
    state.pos = match.end() if match else state.pos
    return bool(match)


def _reference(state, first, last, silent):
    """The block rule of definitions, but that a footnote is none."""
    from markdown_it.rules_block import reference

    return not _is_footnote(state, first) and reference(state, first, last, silent)


def _footnote(state, first, last, silent):
    """A block rule that ends a paragraph where a footnote begins, which is one itself."""
    return silent and _is_footnote(state, first)


def _is_footnote(state, line):
    return bool(_FOOTNOTE.match(state.src, state.bMarks[line] + state.tShift[line]))


class _Cursor:
    """Follows the tokens of a content through what was written for them."""

    def __init__(self, content: str, parser: object, env: dict, prefix: str):
        self._content, self._parser, self._env, self._prefix = content, parser, env, prefix
        self._place = 0
        self.inline, self.alts = Inline(), []

    def read(self, tokens):
        opened = []  # Where the text of each link begins.
        tokens = iter(tokens)
        for token in tokens:
            if token.type in ("text", "text_special"):  # The latter is an escape or an entity.
                self._take(re.escape(token.content if token.type == "text" else token.markup))
                self.inline.text(token.content)
            elif token.type == "softbreak":
                self._take(r"[ \t]*\n[ \t]*")
                self.inline.text(" ")
            elif token.type == "hardbreak":
                mark = self._take(r"(?:\\|[ ]{2,})\n[ \t]*")
                self.inline.single(mark.rstrip(" \t") + self._prefix, space=True)
            elif token.type == "code_inline":
                mark = re.escape(token.markup)
                written = self._take(rf"{mark}(?s:.*?)(?<!`){mark}(?!`)")
                self.inline.kept(written.replace("\n", " "), token.content)
            elif token.type == "kept":
                written = self._take(re.escape(token.content)).replace("\n", " ")
                if written.startswith("["):
                    self.inline.single(written)
                else:
                    self.inline.kept(written, written.strip("$"))
            elif token.type == "html_inline":
                self.inline.single(self._take(re.escape(token.content)))
            elif token.type == "link_open" and token.markup == "autolink":
                next(tokens), next(tokens)  # Its text and its end.
                written = self._take("<[^<>]*>")
                self.inline.kept(written, written[1:-1])
            elif token.type == "link_open":
                self.inline.open(self._take(r"\["))
                opened.append(self._place)
            elif token.type == "link_close":
                self.inline.close(self._link_end(self._content[opened.pop() : self._place]))
            elif token.type == "image":
                self._image(token)
            elif token.nesting == 1:
                self.inline.open(self._take(re.escape(token.markup)))
            elif token.nesting == -1:
                self.inline.close(self._take(re.escape(token.markup)))
            else:
                raise _UnknownError
        self._take(r"\s*\Z")

    def _take(self, pattern):
        match = re.compile(pattern).match(self._content, self._place)
        if match is None:
            raise _UnknownError
        self._place = match.end()
        return match[0]

    def _image(self, token):
        self._take(re.escape(f"![{token.content}"))
        end = self._link_end(token.content)
        alt = " ".join(token.content.split())
        # Markup in what a picture shows is not shown.
        if has_words(alt) and not re.search(r"[\\`*_\[\]<&]", alt):
            self.alts.append(alt)
        self.inline.single(("![", alt, end))

    def _link_end(self, label):
        """The end of a link or picture; what would name it by its text gets a name."""
        start = self._place
        self._take(r"\]")
        if self._content.startswith("(", self._place) and (end := self._address_end()):
            self._place = end
            return self._content[start:end].replace("\n", " ")
        names = self._env.get("references", {})
        if match := re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]").match(self._content, self._place):
            from markdown_it.common.utils import normalizeReference

            if normalizeReference(match[1]) in names:
                self._place = match.end()
                return "]" + match[0].replace("\n", " ")
        self._take(r"(?:\[\])?")
        return "][" + label.replace("\n", " ") + "]"

    def _address_end(self):
        """The place where `(address "title")` ends, or None."""
        content, end = self._content, len(self._content)
        helpers, space = self._parser.helpers, re.compile(r"\s*")
        place = space.match(content, self._place + 1).end()
        address = helpers.parseLinkDestination(content, place, end)
        if address.ok:
            place = space.match(content, address.pos).end()
            title = helpers.parseLinkTitle(content, place, end)
            if title.ok:
                place = space.match(content, title.pos).end()
        return place + 1 if content.startswith(")", place) else None


def _written(parts, alts, in_cell):
    """A translation's source on one line, without what would be markup by chance."""
    written = ""
    for kind, what in parts:
        if kind != "text":
            written += (
                what if isinstance(what, str) else what[0] + alts.get(what[1], what[1]) + what[2]
            )
            continue
        text = _SPECIAL.sub(r"\\\g<0>", " ".join(html.unescape(what).splitlines()))
        text = _KEPT.sub(r"\\\g<0>", text)  # Of these, a formula is left.
        if in_cell:
            text = text.replace("|", "\\|")
        if not written or written.endswith("\n"):
            match = _BLOCK.match(text)
            text = f"{match[1]}\\{text[match.end(1) :]}" if match else text
        written += text
    return written
