"""Spans of a text: terms of a glossary, and what stays as it is."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_mt.text.glossary import Glossary
from keras_mt.text.words import WITHOUT_SPACES

# Control characters that a source has for the model, and no cleaned text:
# U+0001  before a term that stands behind its word, for a model that reads terms;
# U+0002  behind that term;
# U+0003  before white space, or behind a mark that ends sentences without any: none ends there.
# Inside the graph there are also
# U+0004  what U+0003 becomes where it counts;
# U+0005  a slot: around a term, or in its place.
TERM, TERM_END, GUARD, NO_END, SLOT = "\x01", "\x02", "\x03", "\x04", "\x05"
_EDGE = r"(?a:\b)"  # Scripts without spaces go on behind it.
LETTER = rf"[^\W{WITHOUT_SPACES}]"
# Characters of an address, and its last one: no punctuation of the sentence around it.
_IN_URL = rf"""[^\s<>"(){WITHOUT_SPACES}，）]"""  # noqa: RUF001
_URL_END = rf"""[^\s<>"'().,;:!?…*}}\]»”’{WITHOUT_SPACES}，）]"""  # noqa: RUF001
_BRACKETS = rf"\({_IN_URL}*\)"
_PATH = rf"(?:{_IN_URL}|{_BRACKETS})*(?:{_URL_END}|{_BRACKETS})"
_PICTURE = "[\U0001f300-\U0001faff\u2600-\u27bf\u231a-\u231b\u23e9-\u23f3\u2b50]"
_PICTURE += "[\ufe0f\U0001f3fb-\U0001f3ff]*"
# The kinds that `keep` may name; where several fit, the first counts.
KINDS = {
    "email": rf"(?<!{LETTER})(?<![.%+-])(?:{LETTER}|[.%+-])*{LETTER}"
    rf"@(?:{LETTER}|-)+(?:\.(?:{LETTER}|-)+)*\.[^\W\d_{WITHOUT_SPACES}]{{2,}}",
    "url": rf"(?:(?:https?|ftp)://|www\.){_PATH}|"
    r"(?<![a-zA-Z0-9-])(?:[a-zA-Z0-9-]+\.)+(?:com|org|net|edu|gov|info|io)"
    rf"{_EDGE}(?:/(?:{_PATH})?)?",
    "placeholder": r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}|\$[A-Za-z_][A-Za-z0-9_]*|"
    r"%\([A-Za-z0-9_]+\)[-+#0-9.]*[sdifouxXeEgGcr]|%[A-Z_][A-Z0-9_]*%|"
    rf"%(?:[0-9]+\$)?[-+#0]*[0-9]*(?:\.[0-9]+)?l{{0,2}}[sdifuxXeEgGc@]{_EDGE}",
    # +49 30 1234567, 030/1234567, (555) 123-4567.
    "phone": rf"\+[0-9](?:[ ()./-]{{0,2}}[0-9]){{6,14}}{_EDGE}|"
    rf"\(?{_EDGE}0[0-9]{{1,5}}\)?[ /-]{{1,3}}[0-9](?:[ -]?[0-9]){{3,9}}{_EDGE}|"
    rf"\(?{_EDGE}[0-9]{{3}}\)?[ .-][0-9]{{3}}[.-][0-9]{{4}}{_EDGE}",
    "number": rf"\+[0-9][0-9 ()/-]*[0-9]{_EDGE}|"
    rf"{_EDGE}[0-9]+(?:[.,:/'’-][0-9]+)+{_EDGE}|{_EDGE}[0-9]{{2,}}{_EDGE}",
    "emoji": rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*",
}
# What a text with a span of a kind has; the kinds' own patterns take long to compile and to search.
_SIGNS = {"email": "@", "url": r"://|www\.|\.[cegino]", "placeholder": "[{$%]", "phone": "[0-9]"}
_SIGNS |= {"number": "[0-9]", "emoji": "[\u231a-\u2bff\U0001f1e6-\U0001faff]"}
# A protected text with one of these is no prose.
_CODE = re.compile(r"[^\w\s.,:;!?'’“”&+-]|_")


class Span(NamedTuple):
    """A part of a text whose translation is given: its first character, and the one after its last.

    The kind is "term"; "kept" for what a glossary or markup says to keep, "code" where markup keeps
    what is no prose; or the name in `KINDS`.
    """

    start: int
    end: int
    target: str  # What stands for it in the translation.
    kind: str
    read: str = ""  # What a model reads in its place; of a term, with a genitive or a particle.

    @property
    def unit(self) -> tuple[int, int]:
        """Its place in the text, with what is read of the word."""
        return self.start, self.start + len(self.read) if self.kind == "term" else self.end


def find_spans(
    text: str,
    glossary: Glossary | None = None,
    keep: Iterable[str] = (),
    protected: Sequence[tuple[int, int]] = (),
) -> tuple[Span, ...]:
    """The spans of a text, in order: terms, the kinds `keep`, and protected places as they are.

    None has a part of another. Terms go before the kinds that they overlap, but none is a part of a
    span.
    """
    kept = [(a, b, text[a:b]) for a, b in protected]
    spans = [Span(*each, "code" if _CODE.search(each[2]) else "kept") for each in kept]
    masked = _masked(text, protected)  # No kind goes on, and no term, where all is protected.
    kinds = _of_kinds(masked, keep)
    terms = [] if glossary is None else glossary.find(masked, [kind[:2] for kind in kinds])
    terms = [Span(a, b, t.target or text[a:b], "term" if t.target else "kept") for a, b, t in terms]
    for others in (terms, [Span(a, b, text[a:b], kind) for a, b, kind in kinds]):
        spans += [x for x in others if not any(x.start < s.end and s.start < x.end for s in spans)]
    return tuple(sorted(spans))


def whole_lines(spans: Sequence[Span], text: str) -> tuple[Span, ...]:
    """Spans of a text, in which a line of kept spans without other words is one span."""
    spans, rest = [*spans], _masked(text, [span[:2] for span in spans if span.kind != "term"])
    for line in re.finditer(r"(?!\s)[^\n]*(?<!\s)", text):
        within = [s for s in spans if line.start() <= s.start and s.end <= line.end()]
        has_words = any(map(str.isalnum, rest[slice(*line.span())]))
        if within and not has_words and all(span.kind != "term" for span in within):
            spans = [span for span in spans if span not in within]
            spans.append(Span(*line.span(), line[0], "kept"))
    return tuple(sorted(spans))


def _masked(text, places):
    """A text with spaces in some places."""
    for start, end in places:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _of_kinds(text, keep):
    """The places of the kinds; neighbours without a letter between them are one: `{a}-{b}`."""
    kinds = [kind for kind in KINDS if kind in {*keep} and re.search(_SIGNS[kind], text)]
    expression = "|".join(f"(?P<{kind}>{KINDS[kind]})" for kind in kinds)
    found = []
    for match in re.finditer(expression, text) if expression else ():
        start, end = match.span()
        if found and not re.search(r"[^\W\d_]|\s", text[found[-1][1] : start]):
            start = found.pop()[0]
        found.append((start, end, match.lastgroup))
    return found
