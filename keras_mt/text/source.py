"""Texts to be translated, whose terms, kept spans and markup are put into the translations."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.elements import Placing
from keras_mt.text.fragment import Fragment
from keras_mt.text.glossary import Glossary
from keras_mt.text.markup import HtmlFragment
from keras_mt.text.replacing import Claims, Placed, Replacing, find_forms
from keras_mt.text.spans import GUARD, TERM, TERM_END, find_spans, whole_lines
from keras_mt.text.words import Words, coverage, word_alignment

_CONTROL = {i: " " for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n\r"}
_NEUTRAL = "xx"  # Of no language.
# Kept spans that are left out of what is read, and those that a number stands for.
_LEFT_OUT, _NUMBERED = ("emoji",), ("email", "url", "placeholder", "phone", "code")
_FIRST_NUMBER = 123
_WHOLE = re.compile(r"(?s)\S(?:.*\S)?")  # Without the white space at the ends.
# Endings that belong to a word: a genitive's, or a Korean particle.
_SUFFIX = re.compile(r"(?:['’][a-z]{1,2}(?!\w)|[가-힣]*)")


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
        text: The translation; of a `Fragment` one, too, and of HTML again HTML.
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
        text: The text, a str, which may be a `Fragment`: its elements are put into translations.
        glossary: A `Glossary`, or None.
        keep: Names of kinds of spans that stay as they are, such as "url": see `KINDS` in
            `keras_mt.text.spans`.
        markup: "html" if a plain str is a fragment of HTML (see `keras_mt.text.markup`); else None.
            A `Fragment` has its elements already.
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
        is_html = markup and not isinstance(text, Fragment)
        self._html = HtmlFragment(text) if is_html else None
        text = self._html.fragment if self._html else text
        self.plain = text.translate(_CONTROL)
        self._elements = getattr(text, "elements", ())
        kept = (_WHOLE.search(text, e.start, e.end) for e in self._elements if e.kept)
        protected = [match.span() for match in kept if match]
        spans = whole_lines(find_spans(self.plain, glossary, keep, protected), self.plain)
        numbers = (n for n in map(str, itertools.count(_FIRST_NUMBER)) if n not in self.plain)
        ends = [*(span.start for span in spans[1:]), len(self.plain)]
        reads = [self._read_for(*each, numbers) for each in zip(spans, ends, strict=False)]
        self.spans = tuple(s._replace(read=r) for s, r in zip(spans, reads, strict=True))
        self._annotate, self._trusted, self._known = annotate, trusted, {}
        self._parts = self._cut()
        self.text = self._written()
        is_kept = self.spans and all(span.kind != "term" for span in self.spans)
        self.passes = bool(is_kept) and not any(map(str.isalnum, "".join(self._parts[::2])))
        self.is_plain = not (self.spans or self._elements or self._html)
        self.needs_alignment = bool(self.spans or self._elements) and not self.passes

    def _cut(self):
        """The parts of what is read: before the first span, in its place, behind it, and so on."""
        parts, end = [], 0
        for span in self.spans:
            before, end = self.plain[end : span.start], span.unit[1]
            if not span.read and not re.match(r"\w", self.plain[end:]):
                before = before.rstrip(" ")  # Not a second space, nor one before a mark.
            parts += [before, span.read]
        return [*parts, self.plain[end:]]

    def _written(self, hidden=None):
        """The text to be read, with control characters; a hidden span is a neutral word in it."""
        parts = [*self._parts]
        for k, span in enumerate(self.spans):
            part = _NEUTRAL if k == hidden else span.read
            parts[2 * k + 1] = _guarded(part)
            if self._annotate and part == self.plain[slice(*span.unit)]:
                parts[2 * k + 1] += f"{TERM}{_guarded(span.target)}{TERM_END}"
        # An annotation stands behind the whole word.
        annotation = f"({TERM}[^{TERM_END}]*{TERM_END})"
        return re.sub(rf"{annotation}([^\s{GUARD}{TERM}]+)", r"\2\1", "".join(parts))

    def _read_for(self, span, end, numbers):
        """The text to be read in the place of a span; the next one begins at `end` or later."""
        own = self.plain[span.start : span.end]
        line = self.plain[: span.start].split("\n")[-1] + self.plain[span.end :].split("\n")[0]
        if span.kind == "term":
            return own + _SUFFIX.match(self.plain, span.end, end)[0]
        if span.kind in _LEFT_OUT or "\n" in own or not line.strip():
            return ""
        return next(numbers) if span.kind in _NUMBERED else own

    def probes(self, translation: str, alignment: Alignment | None = None) -> list[str]:
        """Texts like `text`, each with another word in the place of a span that could be several.

        How much less probable each piece of the translation is, given one of these, says what the
        span became (Li et al. 2019, https://aclanthology.org/P19-1124). None if all is clear.
        """
        unclear = [] if self.passes else self._claims(translation, alignment).unclear
        return [self._written(k) for k in unclear]

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
        if self.passes and not prefix:
            text, warnings = Fragment(self.plain, self._elements), [None] * len(self.spans)
        else:
            claims = self._claims(translation, alignment, len(prefix))
            if len(falls):
                rows = coverage(claims.target, alignment.target_pieces)
                claims.heed([fall @ rows for fall in falls])
            found, plain = claims.claimed(), Words(self.plain, [span.unit for span in self.spans])
            result, shares = Replacing(claims, found, plain).result()
            text, warnings = result.text, [claim.warning for claim in found]
            if self._elements or self._html:
                text = Placing(self._elements, plain, result, shares).result()
        if self._html:
            text = self._html.written(text)
        placed = zip(self.spans, warnings, strict=True)
        placed = (Placed(self.plain[s.start : s.end], s.target, warning) for s, warning in placed)
        return Translated(text, tuple(placed))

    def _claims(self, translation, alignment, locked=0):
        alignment = alignment or Alignment([], [])
        key = translation, id(alignment.attention)  # `probes` asks, and `translated` asks again.
        if key not in self._known:
            # With the attention itself, whose id another could have after it.
            self._known[key] = alignment.attention, self._aligned(translation, alignment)
        trusted = self._trusted and alignment.attention is not None
        return Claims(*self._known[key][1], self.spans, trusted, self._annotate, locked)

    def _aligned(self, translation, alignment):
        """The words of both sides, and their shares."""
        ends = np.cumsum([len(part) for part in self._parts])
        units = [*zip(ends[:-1:2], ends[1::2], strict=True)]
        source, words = (Words("".join(self._parts), units, whole) for whole in (True, False))
        owners = np.searchsorted(source.ends, words.starts, "right")
        target = Words(translation, find_forms(translation, self.spans))
        attention = None
        if alignment.attention is not None:
            columns = _columns(words, np.isin(owners, source.units), alignment.source_pieces)
            rows = coverage(target, alignment.target_pieces)
            attention = rows.T @ alignment.attention @ columns
        shares = word_alignment(words, target, attention)
        of_source = np.zeros((len(target), len(source)))
        np.add.at(of_source.T, owners, shares.T)
        return source, target, of_source


def _columns(words, of_spans, pieces):
    """The share of each piece of the source that each word has; a term has its annotation's."""
    pieces, numbers = np.array(pieces), np.arange(len(pieces))
    begun, ended = (np.cumsum(pieces == f"<0x0{i}>") for i in (1, 2))
    is_term = (begun > ended) | (pieces == "<0x02>")
    columns = np.zeros((len(pieces), len(words)))
    columns[~is_term] = coverage(words, pieces[~is_term])
    last = np.maximum.accumulate(numbers * columns[:, of_spans].any(axis=1))
    return columns[np.where(is_term, last, numbers)]


def _guarded(text):
    return re.sub(r"(?=\s)|(?<=[。！？])(?!\Z)", GUARD, text)
