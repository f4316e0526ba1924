"""Markdown: paragraphs, headings and cells of tables; all else stays to the letter."""

import itertools
import re

from keras_mt.documents.document import Refusal, TextDocument, has_words
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n(?:.*\r?\n)*?\1[ \t]*(?:\r?\n|\Z)")
# What stays within a text: a footnote's reference, and formulas.
_KEPT = re.compile(r"\[\^[^\]\s]+\]|\$\$(?s:.+?)\$\$|\$(?=\S)(?:\\.|[^$\n\\])+?(?<=\S)\$(?!\d)")
# What stays before a paragraph: a check box, a footnote's name, a kind of note.
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:[ \t]*")
_HEAD = re.compile(rf"\[[ xX]\][ \t]+|{_FOOTNOTE.pattern}|\[![A-Z]+\][ \t]*(?:\n|\Z)")
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<!\w)_|_(?!\w)|~(?=~)|&(?=#?\w+;)")
# What makes a line a block of another kind, where it stands first.
_BLOCK = re.compile(r"(\d*)(#{1,6}(?:\s|$)|[-+](?:\s|$)|>|=+\s*$|-+\s*$|:::|[.)](?:\s|$))")


class MarkdownDocument(TextDocument):
    """CommonMark with tables and strikethrough: a text is a paragraph or a cell."""

    def parse(self, source: str) -> None:
        require("markdown_it", "documents", "Markdown")
        from markdown_it import MarkdownIt, rules_inline

        # Without `text_join` an escape is a token of its own.
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.disable("text_join")
        rules = self._parser.inline.ruler
        for name in ("newline", "escape", "link", "image", "html_inline"):
            rules.at(name, _noting_source(getattr(rules_inline, name)))
        rules.at("backticks", _noting_source(rules_inline.backtick))
        rules.before("escape", "kept", _noting_source(_keep))
        rules = self._parser.block.ruler
        rules.at("reference", _reference)
        rules.before("reference", "footnote", _footnote, {"alt": ["paragraph"]})
        front = _FRONT_MATTER.match(source)
        begin = front.end() if front else 0
        ends = re.compile(r"\r\n|\n|\r").finditer(source, begin)
        starts = [begin, *(match.end() for match in ends), len(source)]
        self._env = {}
        place = begin
        for block, token in itertools.pairwise(self._parser.parse(source[begin:], self._env)):
            if token.type == "inline":
                first, last = token.map
                place = max(place, starts[first])
                end = starts[min(last, len(starts) - 1)]
                place = self._add_inline(token.content, place, end, block.type)

    def _add_inline(self, content, start, end, kind):
        """A unit for the content of a block; where it ends in the source is returned."""
        head = _HEAD.match(content) if kind == "paragraph_open" else None
        begin = head.end() if head else 0
        if not has_words(content[begin:]):
            return start
        spans, place, in_cell = [], start, kind in ("td_open", "th_open")
        for line in content.split("\n"):
            written = line.strip().replace("|", "\\|") if in_cell else line.strip()
            found = self.source.find(written, place, end)
            if found < 0:
                where = f"line {self.source.count(chr(10), 0, start) + 1}"
                reason = "its markup is not found in the file: it stays as it is"
                self.refusals.append(Refusal(where, reason, content))
                return start
            place = found + len(written)
            spans.append((found, place))
        second = spans[1][0] if len(spans) > 1 else 0
        line = 1 + max(self.source.rfind("\n", 0, second), self.source.rfind("\r", 0, second))
        (whole,) = self._parser.parseInline(content[begin:], self._env)
        builder, alts = self._built(whole.children, self.source[line:second])
        number = self.add(builder)

        def write():
            parts = None if number is None else self.parts(number)
            return self._written(builder.parts() if parts is None else parts, in_cell)

        lines, _, rest = (head[0] if head else "").rpartition("\n")
        first = spans[1 if lines else 0][0] + len(rest)
        self.replace(first, place, write, number, *alts)
        return place

    def _built(self, tokens, prefix):
        """A text of inline tokens, and the units of what its pictures show.

        `prefix` is what a further line of the block begins with.
        """
        builder, alts, tokens = FragmentBuilder(), [], iter(tokens)
        for token in tokens:
            written = token.meta.get("source", "").replace("\n", " ")
            if token.type in ("text", "text_special", "softbreak"):
                builder.text(token.content or " ")
            elif token.type == "hardbreak":
                mark = "\\" if written.startswith("\\") else "  "
                builder.keep(f"{mark}\n{prefix}", is_space=True)
            elif token.type == "link_open" and token.markup == "autolink":
                address = next(tokens).content
                next(tokens)  # Its end.
                builder.keep(f"<{address}>", address)
            elif token.type == "link_open":
                builder.open("[")
            elif token.type == "link_close":
                builder.close(_link_end(written, token.meta["label"].replace("\n", " ")))
            elif token.type == "image":
                label = token.content.replace("\n", " ")
                end, alt = _link_end(written[1:], label), " ".join(label.split())
                # Markup in what a picture shows is not shown.
                number = None if re.search(r"[\\`*_\[\]<&]", alt) else self.add(alt)
                builder.keep(f"![{label}{end}" if number is None else (number, end))
                alts.append(number)
            elif token.nesting == 0:  # Code, HTML, formulas, marks of footnotes.
                shown = token.content if token.type == "code_inline" else written.strip("$")
                is_shown = token.type != "html_inline" and not written.startswith("[^")
                builder.keep(written, shown if is_shown else "")
            elif token.nesting == 1:
                builder.open(token.markup)
            else:
                builder.close(token.markup)
        return builder, alts

    def _written(self, parts, in_cell):
        """A translation's source on one line, without what would be markup by chance."""
        written = ""
        for kind, what in parts:
            if kind == "text":
                text = _SPECIAL.sub(r"\\\g<0>", " ".join(what.splitlines()))
                text = _KEPT.sub(r"\\\g<0>", text)  # Of these, a formula is left.
                if not written or written.endswith("\n"):
                    match = _BLOCK.match(text)
                    text = f"{match[1]}\\{text[match.end(1) :]}" if match else text
                written += text
            elif isinstance(what, tuple):
                number, end = what
                written += f"![{self.text(number)}{end}"
            else:
                written += what
        return written.replace("|", "\\|") if in_cell else written


def _noting_source(rule):
    """An inline rule whose last token knows its source, and, of a link, its label."""

    def noting(state, silent):
        start = state.pos
        found = rule(state, silent)
        if found and not silent and state.tokens:
            meta = state.tokens[-1].meta
            meta["source"] = state.src[start : state.pos]
            if meta["source"].startswith("["):
                end = state.md.helpers.parseLinkLabel(state, start, True)
                meta["label"] = state.src[start + 1 : end]
        return found

    return noting


def _link_end(source, label):
    """The end of `[label](address)`; what would name a link by its label gets a name."""
    end = source[len(label) + 1 :]
    return f"][{label}]" if end in ("]", "][]") else end


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
