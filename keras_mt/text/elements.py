"""The places of a text's elements in its translation."""

from collections.abc import Sequence

import numpy as np

from keras_mt.text.fragment import Element, Fragment, children_of
from keras_mt.text.words import Words, best_gap, line_numbers


class Placing:
    """Puts the elements of a source into its translation, around the words that their own became.

    Those are the run of words with the greatest sum of shares over one half that holds the one most
    of whose share is the element's. Elements keep their nesting, and never cross; lines keep
    theirs, if both texts have as many. What has no words goes between what stood before and behind
    it, as far as it can be. `shares` are those of `word_alignment`; `target` holds the text of all
    kept elements.
    """

    def __init__(
        self, elements: Sequence[Element], source: Words, target: Words, shares: np.ndarray
    ):
        self._elements, self._children = elements, children_of(elements)
        self._source, self._target, self._shares = source, target, shares
        self._lines, self._target_lines = line_numbers(source, target)
        self._text, self._places = "", {}  # What is written so far, and the elements in it.

    def result(self) -> Fragment:
        """The translation with the elements."""
        self._write(-1, 0, len(self._target), 0, len(self._target.text))
        moved = [Element(*self._places[i], *e[2:]) for i, e in enumerate(self._elements)]
        return Fragment(self._text, moved)

    def _write(self, parent, low, high, begin, end):
        """Writes the target's characters from begin to end, words low to high, around children."""
        target = self._target
        windows = self._windows(parent, low, high)
        within = {g for a, b in windows.values() for g in range(a + 1, b)}
        allowed = [g for g in range(low, high + 1) if g not in within]
        items = []
        for i in self._children[parent]:
            if i in windows:
                a, b = windows[i]
                items.append((target.starts[a], target.ends[b - 1], i, ""))
            elif (place := self._moved(i, begin, end)) is not None:
                items.append((*place, i, ""))
            else:
                g = self._gap(i, self._words_of(parent), allowed)
                left = target.ends[g - 1] if g > low else begin
                right = target.starts[g] if g < high else end
                start, stop, space = self._between(i, left, right)
                items.append((start, stop, i, space))
        place = begin
        for start, stop, i, space in sorted(items, key=lambda item: item[:2]):
            self._text += target.text[place : max(place, start)]
            first, place = len(self._text), max(place, start)
            if i in windows and not self._elements[i].kept:
                self._write(i, *windows[i], start, stop)
            else:
                self._text += target.text[place:stop]
                self._place_within(i, first, moves=self._moved(i, begin, end) is not None)
            self._places[i] = first, len(self._text)
            self._text += space
            place = max(place, stop)
        self._text += target.text[place:end]

    def _place_within(self, i, first, moves):
        """Gives all elements in one its place, or, if it `moves`, theirs behind its start."""
        for child in self._children[i]:
            behind = self._elements[child].start - self._elements[i].start if moves else 0
            size = self._elements[child].end - self._elements[child].start if moves else 0
            self._places[child] = first + behind, first + behind + size
            self._place_within(child, first + behind, moves)

    def _shift(self, i):
        """How far the kept span moves that an element is a part of; None for others."""
        start, end = self._elements[i][:2]
        units = self._source.units
        for w in units[self._source.starts[units] <= start][-1:]:
            first, last = self._source.starts[w], self._source.ends[w]
            t = np.argmax(self._shares[:, w])
            is_part = first < end <= last and start < last and end - start < last - first
            if is_part and self._target[t] == self._source[w]:
                return self._target.starts[t] - first
        return None

    def _moved(self, i, begin, end):
        """The new place of a part of a kept span, if that lies between begin and end; else None."""
        shift, (start, stop) = self._shift(i), self._elements[i][:2]
        if shift is None or start + shift < begin or stop + shift > end:
            return None
        return start + shift, stop + shift

    def _span(self, i):
        """The characters of an element; of the text itself, -1."""
        return (0, len(self._source.text)) if i < 0 else self._elements[i][:2]

    def _words_of(self, i):
        """The source words that an element has a part of: the first, and that after the last."""
        start, end = self._span(i)
        if not self._source.text[start:end].strip():
            return 0, 0
        first = np.searchsorted(self._source.ends, start, "right")
        return int(first), int(np.searchsorted(self._source.starts, end, "left"))

    def _windows(self, parent, low, high):
        """The target words of each child that gets some, by its number: a pair."""
        children = [i for i in self._children[parent] if self._shift(i) is None]
        words = {i: self._words_of(i) for i in children}
        words = {i: (first, last) for i, (first, last) in words.items() if last > first}
        shares = {i: self._shares[:, a:b].sum(axis=1) for i, (a, b) in words.items()}
        free = np.zeros(len(self._target), bool)
        free[low:high] = True
        windows = {}
        for i in sorted(words, key=lambda i: -max(shares[i][low:high], default=0)):
            first, last = self._lines[[words[i][0], words[i][1] - 1]]
            here = free & (self._target_lines >= first) & (self._target_lines <= last)
            if words[i] == self._words_of(parent) or self._are_lines(*words[i]):
                window = _all(here)
            else:
                window = self._window(words[i], shares[i], here)
            if window:
                windows[i] = window
                free[slice(*window)] = False
        return windows

    def _are_lines(self, first, last):
        """True if source words, the first and that after the last, are whole lines."""
        before, after = self._lines[:first], self._lines[last:]
        return not (self._lines[first] in before[-1:] or self._lines[last - 1] in after[:1])

    def _window(self, words, shares, free):
        """The free target words that belong to source words, a pair; None if there is none."""
        real = self._source.real[slice(*words)]
        mine = free & (self._target.real == real.any()) & (shares > 0)
        if not mine.any():
            return None
        anchor = int(np.argmax(np.where(mine, shares, -1)))
        gains = np.where(self._target.real, shares - 0.5, 0.0)
        gains[~free] = -np.inf
        a = anchor - _longest(gains[:anchor][::-1])
        b = anchor + 1 + _longest(gains[anchor + 1 :])
        if real.any():  # As many marks as the element has at its bounds.
            marks = free & ~self._target.real
            a -= min(_run(~real), _run(marks[:a][::-1]))
            b += min(_run(~real[::-1]), _run(marks[b:]))
        return a, b

    def _gap(self, i, bounds, allowed):
        """The target word that an element without words goes before."""
        start, end = self._span(i)
        first, last = np.searchsorted(self._source.starts, (start, end))
        if first <= bounds[0]:
            return allowed[0]
        if last >= bounds[1]:
            return allowed[-1]
        return best_gap(self._shares, first, last, self._has_spaces(i), allowed)

    def _between(self, i, left, right):
        """The place of an element between two words, and a space behind it where one is missing."""
        before, after = self._has_spaces(i)
        if not (before or after):
            return left, right if len(range(*self._span(i))) else left, ""
        if before and after and right - left > 1:
            return left + 1, left + 1, ""
        place = right if before else left
        is_last = place == len(self._target.text)
        return place, place, " " * (before and after and not is_last)

    def _has_spaces(self, i):
        """True for white space before an element, and for such behind it."""
        start, end = self._span(i)
        return self._source.text[:start][-1:].isspace(), self._source.text[end:][:1].isspace()


def _all(here: np.ndarray) -> tuple[int, int] | None:
    """The first index that is true, and that after the last; None if others lie between."""
    found = np.flatnonzero(here)
    return (found[0], found[-1] + 1) if here.any() and here[found[0] : found[-1]].all() else None


def _longest(gains: Sequence[float]) -> int:
    """The number of first values with the greatest sum, 0 if none is above 0."""
    return int(np.argmax([0.0, *np.cumsum(gains)]))


def _run(values: Sequence[bool]) -> int:
    """The number of first values that are true."""
    return int(np.argmin([*values, False]))
