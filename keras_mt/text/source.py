"""Texts to be translated, whose terms, kept spans and markup are put into the translations."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.claims import Claims
from keras_mt.text.glossary import Glossary
from keras_mt.text.markup import Fragment
from keras_mt.text.replacing import Placed, Replacing
from keras_mt.text.spans import Span, find_spans, whole_lines
from keras_mt.text.words import Words, coverage, word_alignment

# Control characters of a source that no text contains. Before white space, and behind a mark that
# ends sentences without any: none ends there. Around a term behind its word, for a model that
# `reads_terms`.
GUARD, TERM, TERM_END = "\x03", "\x01", "\x02"
_CONTROL = {i: " " for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n\r"}
_NEUTRAL = "xx"  # Of no language.
# What is read in the place of kept spans: nothing, or a number that is not in the text.
_LEFT_OUT, _NUMBERED = ("emoji",), ("email", "url", "placeholder", "phone")
_FIRST_NUMBER = 123


class Alignment(NamedTuple):
    """A translation's alignment with what was read, as of `Translator.align`.

    Attributes:
        source_pieces: The pieces of the source, with the end piece of each segment.
        target_pieces: Those of the translation.
        attention: A float array `[target_pieces, source_pieces]`, or None for none.

    Example:

    >>> Alignment(["▁dog", "</s>"], ["▁Hund", "</s>"], np.eye(2)).attention.shape
    (2, 2)
    """

    source_pieces: Sequence[str]
    target_pieces: Sequence[str]
    attention: np.ndarray | None = None


class Translated(NamedTuple):
    """A translation with its spans and elements in their places.

    Attributes:
        text: The translation.
        placed: What was put into it, or stands in it already: a tuple of `Placed`.

    Example:

    >>> Source("Say {x}!", keep=["placeholder"]).translated("Sag 123!").placed
    (Placed(source='{x}', target='{x}', warning=None),)
    """

    text: str
    placed: tuple[Placed, ...]


class Source:
    """A text to be translated: what the model reads, and what its translation becomes.

    Terms of a glossary, spans that stay as they are, and the elements of markup are found here, and
    put into the translation of `text` by `translated`. This needs no TensorFlow, so that it
    serves any engine.

    Args:
        text: The text, str.
        glossary: A `Glossary`, or None.
        keep: Names of kinds of spans that stay as they are, such as "url": see `KINDS` in
            `keras_mt.text.spans`.
        markup: "html" for a fragment of HTML; None for plain text.
        annotate: Whether terms are written behind their words, for a model that `reads_terms`.
        trusted: Whether the attention of alignments is that of a head that was trained or chosen to
            align words. Without such, every span has a probe, and no compounds are found.

    Attributes:
        text: What the model is to read.
        plain: The text without markup.
        spans: The terms and kept spans of `plain`, a tuple of `Span`.
        is_plain: Whether a translation stays as it is.
        needs_alignment: Whether something is to be placed by an alignment.
        passes: Whether there are no words but those of kept spans: no model is needed then, and
            whatever the translation, `translated` returns the text as it is.

    Example:

    >>> source = Source("A <b>dog</b>", Glossary({"dog": "Köter"}), markup="html")
    >>> source.text
    'A dog'
    >>> source.translated("Ein Hund").text
    'Ein <b>Köter</b>'
    """

    def __init__(
        self,
        text: str,
        glossary: Glossary | None = None,
        keep: Iterable[str] = (),
        markup: str | None = None,
        annotate: bool = False,
        trusted: bool = False,
    ):
        self._written = text
        self._fragment = Fragment(text) if markup else None
        plain = self._fragment.text if self._fragment else text
        self.plain = plain.translate(_CONTROL)
        protected = self._fragment.protected if self._fragment else ()
        spans = find_spans(self.plain, glossary, keep, protected)
        self.spans: tuple[Span, ...] = whole_lines(spans, self.plain)
        self.is_plain = not self.spans and self._fragment is None
        self._annotate, self._trusted, self._known = annotate, trusted, {}
        numbers = (n for n in map(str, itertools.count(_FIRST_NUMBER)) if n not in self.plain)
        self._own = [self._read_for(span, numbers) for span in self.spans]
        self._read, self.text, self._places = self._composed()
        ends = [0, *(place for span in self.spans for place in span[:2]), len(self.plain)]
        rest = "".join(self.plain[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))
        kept = self.spans and all(span.kind != "term" for span in self.spans)
        self.passes = bool(kept) and not any(map(str.isalnum, rest))
        has_markup = self._fragment is not None and self._fragment.has_markup
        self.needs_alignment = bool(self.spans or has_markup) and not self.passes

    def _composed(self, hidden=None):
        """What is read, without and with control characters; and the place of each span in it.

        A neutral word stands in the place of the `hidden` span, a number.
        """
        read, text, places, terms, end = "", "", [], [], 0
        for k, span in enumerate(self.spans):
            before, own = self.plain[end : span.start], self._own[k]
            if not own and not re.match(r"\w", self.plain[span.end :]):
                before = before.rstrip(" ")  # Not a second space, nor one before a mark.
            own = _NEUTRAL if k == hidden else own
            places.append((len(read + before), len(read + before + own)))
            read, text = read + before + own, text + before + _guarded(own)
            if self._annotate and own == self.plain[span.start : span.end]:
                terms.append((len(text), span.target))
            end = span.end
        read, text = read + self.plain[end:], text + self.plain[end:]
        for start, target in reversed(terms):  # Behind the word, as white space ends it.
            place = re.compile(rf"{GUARD}?\s|\Z").search(text, start).start()
            text = f"{text[:place]}{TERM}{_guarded(target)}{TERM_END}{text[place:]}"
        return read, text, places

    def _read_for(self, span, numbers):
        """What is read in the place of a span."""
        sides = self.plain[: span.start].split("\n")[-1], self.plain[span.end :].split("\n")[0]
        own = self.plain[span.start : span.end]
        if span.kind == "term":
            return own
        if span.kind in _LEFT_OUT or "\n" in own or not "".join(sides).strip():
            return ""
        if span.kind in _NUMBERED:
            return next(numbers)
        return own

    def probes(self, translation: str, alignment: Alignment | None = None) -> list[str]:
        """Texts like `text`, each with another word in the place of a span that could be several.

        How much less probable each piece of the translation is, given one of these, says what the
        span became (Li et al. 2019, https://aclanthology.org/P19-1124).

        Args:
            translation: A translation of `text`.
            alignment: An `Alignment` of both, or None.

        Returns:
            The texts; none if all is clear.
        """
        if self.passes or not self.spans:
            return []
        return [self._composed(k)[1] for k in self._claims(translation, alignment).unclear]

    def translated(
        self,
        translation: str,
        alignment: Alignment | None = None,
        falls: Sequence[np.ndarray] = (),
        prefix: str = "",
    ) -> Translated:
        """A translation with terms, kept spans and elements in their places.

        Args:
            translation: A translation of `text`.
            alignment: An `Alignment` of both; without one, places and letters count.
            falls: For each of `probes` a float array `[target_pieces]`: the log-probability of each
                piece of the translation given `text`, less that given the probe.
            prefix: What the translation begins with and is to begin with.

        Returns:
            A `Translated`.
        """
        plain = Words(self.plain, [place for span in self.spans for place in span[:2]])
        if self.passes and not prefix:
            text = self._written
            if self._fragment:
                text = self._fragment.written(plain, plain, np.eye(len(plain)))
            return Translated(text, tuple(Placed(s.target, s.target) for s in self.spans))
        claims = self._claims(translation, alignment, len(prefix))
        if len(falls):
            rows = coverage(claims.target, alignment.target_pieces)
            claims.heed([fall @ rows for fall in falls])
        replacing = Replacing(claims, plain)
        text = replacing.text
        if self._fragment:
            text = self._fragment.written(plain, *replacing.aligned())
        placed = zip(self.spans, replacing.warnings, strict=True)
        return Translated(text, tuple(Placed(self.plain[a:b], t, w) for (a, b, t, _), w in placed))

    def _claims(self, translation, alignment, locked=0):
        attention = None if alignment is None else alignment.attention
        key = translation, id(attention)  # Asked for by `probes`, and again by `translated`.
        if key not in self._known:
            self._known[key] = self._aligned(translation, alignment)
        trusted = self._trusted and attention is not None
        return Claims(*self._known[key], self.spans, self._places, trusted, locked)

    def _aligned(self, translation, alignment):
        """The words of both sides, and their shares."""
        source = Words(self._read, [place for pair in self._places for place in pair])
        # What was read in the place of kept spans is a word of its own.
        spans = zip(self._own, self.spans, strict=True)
        kept = {text for own, s in spans if s.kind != "term" for text in (own, s.target)}
        kept = "|".join(map(re.escape, sorted(kept - {""}, key=len, reverse=True)))
        found = re.finditer(rf"(?<!\w)(?:{kept})(?!\w)", translation) if kept else ()
        target = Words(translation, [place for match in found for place in match.span()])
        return source, target, word_alignment(source, target, *_without_terms(alignment))


def _guarded(text):
    return re.sub(r"(?=\s)|(?<=[。！？])(?!\Z)", GUARD, text)


def _without_terms(alignment):
    """The parts of an alignment; annotated terms belong to the word before them."""
    if alignment is None or alignment.attention is None:
        return None, None, None
    pieces, columns, is_term = [], [], False
    for piece in alignment.source_pieces:
        is_term |= piece == "<0x01>"
        columns.append(max(0, len(pieces) - is_term))
        if not is_term:
            pieces.append(piece)
        is_term &= piece != "<0x02>"
    joined = np.array(columns)[:, None] == np.arange(len(pieces))
    return pieces, alignment.target_pieces, np.asarray(alignment.attention, float) @ joined
