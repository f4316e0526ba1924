"""The place of a text's elements in its translation."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_mt.text.words import Words, best_gap, line_numbers


class Placing:
    """Puts the nodes of a `Fragment` into its translation, by the `shares` of `word_alignment`.

    Where both texts have as many lines, words of one line belong to those of the same.
    """

    def __init__(self, source: Words, target: Words, shares: np.ndarray):
        self._source, self._target, self._shares = source, target, shares
        self._lines, self._target_lines = line_numbers(source, target)

    def written(self, root: Any) -> str:
        """The translation with the children of a root node in it."""
        return self._inside(root, 0, len(self._target), 0, len(self._target.text))

    def _inside(self, parent, low, high, begin, end):
        """The target's characters from begin to end, words low to high, with the children in it."""
        target = self._target
        windows = self._windows(parent, low, high)
        within = {g for a, b in windows.values() for g in range(a + 1, b)}
        allowed = [g for g in range(low, high + 1) if g not in within]
        items = []
        for i, node in enumerate(parent.children):
            if i in windows:
                a, b = windows[i]
                start, stop = target.starts[a], target.ends[b - 1]
                is_kept = node.kept is not None
                inner = "".join(node.kept) if is_kept else self._inside(node, a, b, start, stop)
                items.append((start, stop, node.head + inner + node.tail))
            else:
                g = self._gap(node, self._words_of(parent), allowed)
                left = target.ends[g - 1] if g > low else begin
                right = target.starts[g] if g < high else end
                items.append(self._between(node, left, right))
        written, place = [], begin
        for start, stop, text in sorted(items, key=lambda item: item[:2]):
            written += [_encoded(target.text[place : max(place, start)]), text]
            place = max(place, stop)
        return "".join([*written, _encoded(target.text[place:end])])

    def _words_of(self, node):
        """The source words that a node has a part of: the first, and that after the last."""
        if not self._source.text[node.start : node.end].strip():
            return 0, 0
        first = np.searchsorted(self._source.ends, node.start, "right")
        return int(first), int(np.searchsorted(self._source.starts, node.end, "left"))

    def _windows(self, parent, low, high):
        """The target words of each child that gets some, by its number: a pair."""
        words = {i: self._words_of(node) for i, node in enumerate(parent.children)}
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

    def _gap(self, node, bounds, allowed):
        """The target word that a node without words goes before."""
        source = self._source
        first, last = np.searchsorted(source.starts, (node.start, node.end))
        if first <= bounds[0]:
            return allowed[0]
        if last >= bounds[1]:
            return allowed[-1]
        spaces = _spaces(source.text, node.start, node.end)
        return best_gap(self._shares, first, last, spaces, allowed)

    def _between(self, node, left, right):
        """A node between two places of the target: the characters that it replaces, and itself."""
        before, after = _spaces(self._source.text, node.start, node.end)
        written = self._alone(node)
        if not (before or after):
            return left, right if node.end > node.start else left, written
        if before and after and right - left > 1:
            return left + 1, left + 1, written
        place = right if before else left
        is_last = place == len(self._target.text)
        return place, place, written + " " * (before and after and not is_last)

    def _alone(self, node):
        """A node without words of the target."""
        inner = "".join(map(self._alone, node.children) if node.kept is None else node.kept)
        own = self._source.text[node.start : node.end]
        if node.tail and not own.strip():  # Its white space, if nothing else is in it.
            inner = inner or own
        return node.head + inner + node.tail


def _spaces(text, start, end):
    """True for white space before a part of a text, and for such after it."""
    return text[:start][-1:].isspace(), text[end:][:1].isspace()


def _all(here: np.ndarray) -> tuple[int, int] | None:
    """The first index that is true, and that after the last; None if others lie between."""
    found = np.flatnonzero(here)
    return (found[0], found[-1] + 1) if here.any() and here[found[0] : found[-1]].all() else None


def _encoded(text):
    return html.escape(text, quote=False)


def _longest(gains: Sequence[float]) -> int:
    """The number of first values with the greatest sum, 0 if none is above 0."""
    return int(np.argmax([0.0, *np.cumsum(gains)]))


def _run(values: Sequence[bool]) -> int:
    """The number of first values that are true."""
    return int(np.argmin([*values, False]))
