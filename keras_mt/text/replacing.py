"""The words of a translation that spans of its source became, replaced by what stands for them."""

from typing import NamedTuple

import numpy as np

from keras_mt.text.spans import Span
from keras_mt.text.words import Words


class Placed(NamedTuple):
    """A term or a kept span of a translation.

    Attributes:
        source: What it is in the source.
        target: What was put into the translation for it.
        warning: None; "inserted" if no word of the translation was its own; "compound" if the
            translation was left with a longer word for it and others; "weak" if its place is
            uncertain.

    Example:

    >>> Placed("dog", "Köter").warning is None
    True
    """

    source: str
    target: str
    warning: str | None = None


class _Edit(NamedTuple):
    """A part of the translation, characters from start to end, that a text replaces."""

    start: int
    end: int
    text: str
    span: int  # The number of the span that the text is of.


class Replacing:
    """Puts spans into a translation, by the `shares` of `word_alignment`.

    Args:
        source, target: The words of what was read, and of the translation.
        shares: The share of each target word that belongs to each source word.
        spans: The spans.
        places: The place of each in what was read.
        locked: The number of the translation's first characters that do not change.
    """

    def __init__(
        self,
        source: Words,
        target: Words,
        shares: np.ndarray,
        spans: tuple[Span, ...],
        places: list[tuple[int, int]],
        locked: int = 0,
    ):
        self._source, self._target, self._shares = source, target, shares
        self._spans, self._places = spans, places
        self._edits: list[_Edit] = []
        self._warnings: list[str | None] = [None] * len(spans)
        free = target.real & (target.starts >= locked)
        for k, span in enumerate(spans):
            mine = (shares[:, self._words_of(k)].sum(axis=1) + 1e-9) * free
            if mine.any():
                t = int(mine.argmax())
                free[t] = False
                start, end = target.starts[t], target.ends[t]
                self._edits.append(_Edit(start, end, span.target, k))
            else:
                self._warnings[k] = "inserted"
                end = len(target.text)
                space = " " * bool(target.text.strip())
                self._edits.append(_Edit(end, end, space + span.target, k))
        self.text, self._origins = self._edited()

    @property
    def placed(self) -> tuple[Placed, ...]:
        """What was placed."""
        sides = zip(self._spans, self._places, self._warnings, strict=True)
        return tuple(Placed(self._source.text[a:b], s.target, w) for s, (a, b), w in sides)

    def _words_of(self, k):
        """The source words of a span, boolean."""
        start, end = self._places[k]
        return (self._source.starts >= start) & (self._source.ends <= end)

    def _edited(self):
        """The translation with the edits, and for each character the one that it was before.

        -1 - k for those of span k.
        """
        text, origins, place = "", [], 0
        for start, end, new, k in sorted(self._edits):
            text += self._target.text[place:start] + new
            origins += [*range(place, start), *[-1 - k] * len(new)]
            place = max(place, end)
        text += self._target.text[place:]
        return text, np.array([*origins, *range(place, len(self._target.text))], int)

    def aligned(self, plain: Words) -> tuple[Words, np.ndarray]:
        """The words of the result, and their shares of those of the plain text."""
        bounds = np.flatnonzero(np.diff(self._origins)) + 1
        result = Words(self.text, bounds[self._origins[bounds] * self._origins[bounds - 1] <= 0])
        origins = self._origins[result.starts]
        rows = np.searchsorted(self._target.starts, origins, "right") - 1
        columns, owners = self._columns(plain)
        shares = self._shares[rows][:, columns] * (origins >= 0)[:, None]
        for _, _, _, k in self._edits:
            mine, ours = np.flatnonzero(origins == -1 - k), np.flatnonzero(owners == k)
            shares[:, ours] = 0
            if len(mine) == len(ours):
                shares[mine, ours] = 1
            else:
                shares[np.ix_(mine, ours)] = 1 / max(1, len(ours))
        return result, shares

    def _columns(self, plain):
        """For each word of the plain text that of what was read, and its span, -1 for none."""
        owners = np.full(len(plain), -1)
        shifts = np.zeros(len(plain), int)
        for k, (span, (start, end)) in enumerate(zip(self._spans, self._places, strict=True)):
            owners[(plain.starts >= span.start) & (plain.starts < span.end)] = k
            shifts[plain.starts >= span.start] = start - span.start
            shifts[plain.starts >= span.end] = end - span.end
        columns = np.searchsorted(self._source.starts, plain.starts + shifts, "right") - 1
        return columns, owners
