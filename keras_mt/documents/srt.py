"""Subtitles (SRT): sentences over several cues are one text, and broken again by length."""

import html
import itertools
import math
import re

from keras_mt.documents.document import TextDocument, has_words
from keras_mt.errors import InputError
from keras_mt.text.fragment import FragmentBuilder

_TIME, _END = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}", r"(?:\r\n|\r|\n|\Z)"
_TIMING = rf"[ \t]*({_TIME})[ \t]+-->[ \t]+({_TIME})(?:[ \t][^\r\n]*)?{_END}"
# A cue's text ends at an empty line, or at the next cue: its times, or its number before these.
_TEXT_LINE = rf"(?!(?:[ \t]*\d+[ \t]*{_END})?{_TIMING})[^\r\n]*\S[^\r\n]*"
_CUE = rf"(?:\A|(?<=[\r\n])){_TIMING}(?P<text>{_TEXT_LINE}(?:{_END}{_TEXT_LINE})*)"
_LINE = re.compile(r"[^\r\n]+")
_MARKUP = re.compile(r"<[^<>\n]*>|\{\\[^{}\n]*\}")
# What somebody's words begin with, where others may come before: a dash, a name in capitals.
_NAME = r"[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^:<\na-zß-öø-ÿα-ωа-я]{1,30}:[ \t]+"
_TURN = re.compile(rf"[ \t]*(?:[-\u2010\u2013\u2014][ \t]*(?:{_NAME})?|{_NAME})(?=\S)")
# Voices, and times within a text, are of their cue alone.
_ALONE = re.compile(r"<v[ .]|<\d")
_ENDED = re.compile(r"[.!?…。！？♪♫:][\"'”’»)\]]*\s*$|\)\s*$|\]\s*$")
# Letters of scripts without spaces are words by themselves.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿][、。！？」』）]*|[^\s぀-ヿ㐀-鿿豈-﫿]+")
_WIDTH = 42  # How long a line may be, if the source has none that is longer.
_MAX_CUES = 6  # What a sentence may stand in.
_MAX_GAP = 3.0  # Seconds between two cues of a sentence.


class SrtDocument(TextDocument):
    """Subtitles: a text is a sentence over its cues, or what a speaker says in one."""

    has_entities = False  # Whether text has those of HTML.

    def parse(self, source: str) -> None:
        self._newline = "\r\n" if "\r\n" in source else "\n"
        found = re.finditer(_CUE, source)
        # The times at which each cue begins and ends, and the places where its text does.
        cues = [(_seconds(m[1]), _seconds(m[2]), *m.span("text")) for m in found]
        if not cues and source.strip():
            raise InputError("it has no times (00:00:01,000 --> 00:00:02,000) of subtitles.")
        group = []
        for cue, following in itertools.pairwise([*cues, None]):
            group.append(cue)
            if following is None or len(group) == _MAX_CUES or self._is_end(cue, following):
                self._add_group(group)
                group = []

    def _is_end(self, cue, following):
        """True if a cue's sentence does not go on in the next one."""
        texts = [self.source[start:end] for _, _, start, end in (cue, following)]
        return bool(
            _ENDED.search(_MARKUP.sub("", texts[0]))
            or not 0 <= following[0] - cue[1] <= _MAX_GAP
            or any(not has_words(_MARKUP.sub("", text)) for text in texts)
            or any(_ALONE.search(text) or _turns(text) for text in texts)
        )

    def _add_group(self, cues):
        start, end = cues[0][2:]
        turns = _turns(self.source[start:end])
        if not turns:
            self._add([cue[2:] for cue in cues])
        for first, last in turns:
            self._add([(start + first, start + last)])

    def _add(self, places):
        """A unit of the texts at some places of the source."""
        texts = [self.source[start:end] for start, end in places]
        # An element that ends where another like it begins is one.
        joined = re.sub(r"</(i|b|u)> <\1>", " ", " ".join(" ".join(texts).split()))
        number = self.add(self._built(joined), f"text {joined[:60]!r}")
        if number is None:
            return
        shown = [self._decoded(_MARKUP.sub("", text)).splitlines() for text in texts]
        sizes = [[len(line) for line in each] for each in shown]
        if turn := _TURN.match(shown[0][0]):
            sizes[0][0] -= turn.end()

        for i, (start, end) in enumerate(places):
            self.replace(
                start, end, lambda i=i: self._divided(self.parts(number), sizes)[i], number
            )

    def _built(self, text):
        """A text with its markup; what shows who speaks is markup, too."""
        marks, place = list(_MARKUP.finditer(text)), 0
        while mark := _MARKUP.match(text, place):
            place = mark.end()
        if turn := _TURN.match(text, place):
            marks = sorted([*marks, turn], key=re.Match.start)
        partners, builder, last = _partners(marks), FragmentBuilder(), 0
        for i, mark in enumerate(marks):
            builder.text(self._decoded(text[last : mark.start()]))
            last = mark.end()
            if i not in partners:
                builder.keep(mark[0])
            elif partners[i] > i:
                builder.open((mark[0], marks[partners[i]][0]))
            else:
                builder.close((marks[partners[i]][0], mark[0]))
        builder.text(self._decoded(text[last:]))
        return builder

    def _decoded(self, text):
        return html.unescape(text) if self.has_entities else text

    def _divided(self, parts, sizes):
        """A translation's text for each cue: lines, and elements that are whole in each."""
        text = "".join(what for kind, what in parts if kind == "text")
        words = [match.span() for match in _WORD.finditer(text)]
        # The places of words that begin a cue, True, or another line.
        breaks = {}
        for cue, lengths in zip(_shares(words, list(map(sum, sizes))), sizes, strict=True):
            for i, line in enumerate(_lines(cue, lengths)):
                breaks[line[0][0]] = i == 0
        breaks.pop(next(iter(breaks), None), None)
        cues, opened, place = [""], [], 0
        for kind, what in parts:
            size = len(what) if kind == "text" else 0
            bounds = [place, *(b for b in breaks if place < b < place + size), place + size]
            for start, end in itertools.pairwise(bounds):
                if kind != "end" and start in breaks:
                    cues[-1] = cues[-1].rstrip()
                    if breaks.pop(start):
                        cues[-1] += "".join(last for _, last in reversed(opened))
                        cues.append("".join(first for first, _ in opened))
                    else:
                        cues[-1] += self._newline
                if kind == "text":
                    piece = text[start:end]
                    cues[-1] += html.escape(piece, quote=False) if self.has_entities else piece
                else:
                    cues[-1] += what if kind == "kept" else what[kind == "end"]
            if kind == "start":
                opened.append(what)
            elif kind == "end":
                opened.pop()
            place += size
        return cues + ["…"] * (len(sizes) - len(cues))


def _shares(words, weights):
    """The words in as many parts as weights, in about their proportion; none empty, if possible."""
    total, size = sum(weights) or 1, _size(words)
    parts, begin = [], 0
    for rest, share in zip(range(len(weights))[::-1], itertools.accumulate(weights), strict=True):
        before = [sum(word) / 2 - words[0][0] <= size * share / total for word in words]
        end = sum(before) if rest else len(words)
        end = max(min(max(end, begin + 1), len(words) - rest), min(begin + 1, len(words)))
        parts.append(words[begin:end])
        begin = end
    return parts


def _lines(words, source_lines):
    """The words in as many lines as the source has, or more where they would be too long."""
    count = math.ceil(_size(words) / max(_WIDTH, *source_lines))
    weights = source_lines if count <= len(source_lines) else [1] * count
    return [line for line in _shares(words, weights) if line]


def _size(words):
    return words[-1][1] - words[0][0] if words else 0


def _turns(text):
    """The places of the words of each speaker, by a dash or a name; none if there is none."""
    lines = [line for line in _LINE.finditer(text) if _MARKUP.sub("", line[0]).strip()]
    begins = [i for i, line in enumerate(lines) if _TURN.match(_MARKUP.sub("", line[0]))]
    if not begins:
        return []
    firsts = sorted({0, *begins})
    lasts = [*(i - 1 for i in firsts[1:]), len(lines) - 1]
    return [(lines[i].start(), lines[j].end()) for i, j in zip(firsts, lasts, strict=True)]


def _partners(marks):
    """The partner of each tag, by their indices."""
    opened, partners = [], {}
    for i, mark in enumerate(marks):
        name = re.match(r"</?([a-zA-Z]+)", mark[0])
        if name and mark[0][1] != "/":
            opened.append((name[1].lower(), i))
        elif name:
            while opened:
                other, j = opened.pop()
                if other == name[1].lower():
                    partners[i], partners[j] = j, i
                    break
    return partners


def _seconds(time):
    parts = time.replace(",", ".").split(":")
    return sum(float(part) * 60**i for i, part in enumerate(reversed(parts)))
