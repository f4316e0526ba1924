"""Texts to be translated, whose terms, kept spans and markup are put into the translations."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.glossary import Glossary
from keras_mt.text.markup import Fragment
from keras_mt.text.replacing import Placed, Replacing
from keras_mt.text.spans import Span, find_spans
from keras_mt.text.words import Words, word_alignment

# Control characters of a source that no text contains. Before white space: no sentence ends there;
# around a term behind its word, for a model that `reads_terms`.
GUARD, TERM, TERM_END = "\x03", "\x01", "\x02"
_CONTROL = {i: " " for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n\r"}
_PLACES_OF_ENDS = re.compile(r"(?=\s)|(?<=[。！？])(?=.)", re.DOTALL)


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

    >>> Source("Say {x}!", keep=["placeholder"]).translated("Sag!").placed
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
    ):
        self._written = text
        self._fragment = Fragment(text) if markup else None
        plain = self._fragment.text if self._fragment else text
        self.plain = plain.translate(_CONTROL)
        protected = self._fragment.protected if self._fragment else ()
        self.spans: tuple[Span, ...] = find_spans(self.plain, glossary, keep, protected)
        self.is_plain = not self.spans and self._fragment is None
        # What is read, without control characters, and the place of each span in it.
        self._read, self._places = "", []
        self.text, terms, end = "", [], 0
        for span in self.spans:
            self._add(self.plain[end : span.start])
            start, end = len(self._read), span.end
            self._add(self.plain[span.start : span.end], _PLACES_OF_ENDS)
            self._places.append((start, len(self._read)))
            terms.append((len(self.text), span.target))
        self._add(self.plain[end:])
        rest = "".join(self.plain[a:b] for a, b in self._between())
        kept = self.spans and all(span.kind != "term" for span in self.spans)
        self.passes = bool(kept) and not any(map(str.isalnum, rest))
        has_markup = self._fragment is not None and self._fragment.has_markup
        self.needs_alignment = bool(self.spans or has_markup) and not self.passes
        if annotate:
            self._annotate(terms)

    def _add(self, text, guarded=None):
        self._read += text
        self.text += guarded.sub(GUARD, text) if guarded else text

    def _between(self):
        """The places of the plain text that no span has."""
        ends = [0, *(place for span in self.spans for place in span[:2]), len(self.plain)]
        return zip(ends[::2], ends[1::2], strict=True)

    def _annotate(self, terms):
        """Writes each term behind the word, as white space ends it, that it ends in."""
        for start, target in reversed(terms):
            end = re.compile(rf"{GUARD}?\s|\Z").search(self.text, start).start()
            term = f"{TERM}{_PLACES_OF_ENDS.sub(GUARD, target)}{TERM_END}"
            self.text = self.text[:end] + term + self.text[end:]

    def probes(
        self, translation: str, alignment: Alignment | None = None, trusted: bool = False
    ) -> list[str]:
        """Texts like `text`, each without the words of a span whose place is unclear.

        How much less probable each piece of the translation is, given one of these, says what the
        span became (Li et al. 2019, https://aclanthology.org/P19-1124).

        Args:
            translation: A translation of `text`.
            alignment: An `Alignment` of both, or None.
            trusted: Whether its attention is that of a head that was guided or chosen.

        Returns:
            The texts; none if all is clear.
        """
        return []

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
        if self.passes:
            placed = tuple(Placed(span.target, span.target) for span in self.spans)
            return Translated(self._written, placed)
        source = Words(self._read, [place for pair in self._places for place in pair])
        target = Words(translation)
        pieces, target_pieces, attention = _without_terms(alignment)
        shares = word_alignment(source, target, pieces, target_pieces, attention)
        replacing = Replacing(source, target, shares, self.spans, self._places, len(prefix))
        text, placed = replacing.text, replacing.placed
        if self._fragment:
            plain = Words(self.plain, [place for span in self.spans for place in span[:2]])
            text = self._fragment.written(plain, *replacing.aligned(plain))
        return Translated(text, placed)


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
    attention = np.zeros((len(alignment.target_pieces), max(1, len(pieces))))
    np.add.at(attention.T, columns, np.asarray(alignment.attention, float).T)
    return pieces, alignment.target_pieces, attention
