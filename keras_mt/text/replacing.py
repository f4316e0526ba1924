"""The words of a translation that spans of its source became, replaced by what stands for them."""

import re
from typing import NamedTuple

import numpy as np

from keras_mt.text.claims import Claims
from keras_mt.text.glossary import particles
from keras_mt.text.spans import KINDS
from keras_mt.text.words import Words, gap_scores

# Marks that no space comes behind, and before.
_OPENING, _CLOSING = r"(\[{“„«¿¡", r")\]},.;:!?…”»。、"
_ELIDED = re.compile(r"(\w{1,2}['’])?.*?(['’]\w{1,2})?", re.DOTALL)
_SENTENCE_START = re.compile(r"(?:^|\n|[.!?…]\W*\s)\W*\Z")


class Placed(NamedTuple):
    """A term or a kept span of a translation.

    Attributes:
        source: What it is in the source.
        target: What stands for it in the translation.
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
    """A part of the translation, characters from start to end, that a text of a span replaces."""

    start: int
    end: int
    span: int
    text: str


class Replacing:
    """Puts spans in the places of the words that they claim of a translation.

    Args:
        claims: Their claims.
        plain: The words of the plain text.

    Attributes:
        text: The translation with the spans.
        warnings: For each span a str or None, as of `Placed`.
    """

    def __init__(self, claims: Claims, plain: Words):
        self._spans, self._places, self._locked = claims.spans, claims.places, claims.locked
        self._source, self._target = claims.source, claims.target
        self._shares = claims.shares.copy()
        self._plain = plain
        self._edits: list[_Edit] = []
        found = claims.claimed()
        for claim, words in zip(found, claims.words, strict=True):
            if claim.words and claim.warning != "compound":
                self._shares[[*claim.words]] = words / max(1, words.sum())
        for k, claim in enumerate(found):
            if claim.warning == "compound":
                continue
            if not claim.words:
                self._insert(k)
                continue
            start, end = self._target.starts[claim.words[0]], self._target.ends[claim.words[-1]]
            if claim.stands and (self._spans[k].kind == "term" or start < self._locked):
                self._edits.append(_Edit(start, end, k, self._target.text[start:end]))
            else:
                self._replace(k, claim.words)
        self._remove_others(claims, {word for claim in found for word in claim.words})
        self.text, self._origins = self._edited()
        self.warnings = [claim.warning for claim in found]

    def _remove_others(self, claims, taken):
        """Leaves out what was read in the place of kept spans, wherever else it stands."""
        for k, (span, (start, end)) in enumerate(zip(self._spans, self._places, strict=True)):
            if span.kind not in KINDS:
                continue
            for words in claims.found(self._source.text[start:end]):
                first, last = self._target.starts[words[0]], self._target.ends[words[-1]]
                if first >= self._locked and not taken.intersection(words):
                    taken.update(words)
                    self._remove(k, first, last)

    def _replace(self, k, words):
        """Puts a span where the first of the words stands, and leaves the others out."""
        ordered = np.sort(words)
        for run in np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1):
            start, end = self._target.starts[run[0]], self._target.ends[run[-1]]
            if words[0] in run:
                self._edits.append(_Edit(start, end, k, self._written(k, start, end)))
            else:
                self._remove(k, start, end)

    def _written(self, k, start, end):
        """The target of a span as it is to stand in the place of some characters."""
        text, word = self._spans[k].target, self._target.text[start:end]
        if self._spans[k].kind != "term":
            return text
        is_lower = text.split()[0].islower()
        if is_lower and word[0].isupper() and _SENTENCE_START.search(self._target.text[:start]):
            text = text[0].upper() + text[1:]
        before, after = _ELIDED.fullmatch(word).groups(default="")
        return before + text + after + particles(word)[-1]

    def _remove(self, k, start, end):
        """Leaves characters of the translation out, with the white space on one side."""
        text = self._target.text
        if text[:start][-1:].isspace():
            start -= 1
        elif text[end:][:1].isspace():
            end += 1
        self._edits.append(_Edit(start, end, k, ""))

    def _insert(self, k):
        """Puts a span between the words that its neighbours became, spaced as in the source."""
        text, span = self._target.text, self._spans[k]
        sides = self._plain.text[: span.start][-1:], self._plain.text[span.end :][:1]
        before, after = (not side.strip() for side in sides)
        place = self._place(*self._places[k], before, after)
        written = self._spans[k].target
        if before and re.search(rf"[^\s{_OPENING}]\Z", text[:place]):
            written = " " + written
        if after and re.match(rf"[^\s{_CLOSING}]", text[place:]):
            written += " "
        self._edits.append(_Edit(place, place, k, written))

    def _place(self, start, end, before, after):
        """The character of the translation that a part of the source goes before."""
        source, target = self._source, self._target
        low, high = _line(source.text.count("\n", 0, start), source.text, target.text)
        lowest, highest = np.searchsorted(target.starts, (low, high))
        first, last = np.searchsorted(source.starts, (start, end))
        scores = gap_scores(self._shares, first, last, before, after)
        g = max(range(lowest, highest + 1), key=lambda g: scores[g])
        place = low if g == 0 else target.ends[g - 1]
        if before and not after and g < len(target):
            place = target.starts[g]
        return int(min(max(place, low, self._locked), high))

    def _edited(self):
        """The translation with the edits; for each character its place in the translation.

        In place of these the numbers of spans, counted down from -1.
        """
        text, origins, place = "", [], 0
        for start, end, k, new in sorted(self._edits):
            text += self._target.text[place:start] + new
            origins += [*range(place, start), *[-1 - k] * len(new)]
            place = max(place, end)
        text += self._target.text[place:]
        return text, np.array([*origins, *range(place, len(self._target.text))], int)

    def aligned(self) -> tuple[Words, np.ndarray]:
        """The words of the result, and their shares of those of the plain text."""
        bounds = np.flatnonzero(np.diff(np.minimum(self._origins, 0))) + 1
        result = Words(self.text, bounds.tolist())
        origins = self._origins[result.starts]
        rows = np.searchsorted(self._target.starts, origins, "right") - 1
        columns, owners = self._columns()
        # A row and a column for what was in neither.
        shares = np.pad(self._shares, ((0, 1), (0, 1)))[rows][:, columns]
        shares *= (origins >= 0)[:, None]
        for _, _, k, _ in self._edits:
            mine, ours = np.flatnonzero(origins == -1 - k), np.flatnonzero(owners == k)
            shares[:, ours] = 0
            if len(mine) == len(ours):
                shares[mine, ours] = 1
            else:  # In the element of the first.
                shares[np.ix_(mine, ours[:1])] = 1
        return result, shares

    def _columns(self):
        """For each word of the plain text that of what was read, and its span, -1 for none."""
        plain = self._plain
        owners = np.full(len(plain), -1)
        shifts = np.zeros(len(plain), int)
        for k, (span, (start, end)) in enumerate(zip(self._spans, self._places, strict=True)):
            owners[(plain.starts >= span.start) & (plain.starts < span.end)] = k
            shifts[plain.starts >= span.start] = start - span.start
            shifts[plain.starts >= span.end] = end - span.end
        columns = np.searchsorted(self._source.starts, plain.starts + shifts, "right") - 1
        return columns, owners


def _line(number, source, target):
    """The characters of a line of the target; all if the texts have not as many lines."""
    ends = [i for i, character in enumerate(target) if character == "\n"]
    if source.count("\n") != len(ends):
        return 0, len(target)
    return [-1, *ends][number] + 1, [*ends, len(target)][number]
