"""The place of a text's elements in its translation."""

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_mt.text.words import Words, best_gap, line_numbers, spaces_around


class _Gap(NamedTuple):
    """Nodes without words between two words of the source, side by side."""

    start: int  # Where the text that they have, if any, begins: white space.
    end: int
    written: str  # The nodes.
    is_text: bool  # Whether one of them has a text of its own.


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
        windows = self._windows(parent, low, high)
        items = []
        for node, (a, b) in windows.values():
            start, stop = self._target.starts[a], self._target.ends[b - 1]
            is_kept = node.kept is not None
            inner = "".join(node.kept) if is_kept else self._inside(node, a, b, start, stop)
            items.append((start, stop, node.head + inner + node.tail))
        inner_gaps = {g for _, (a, b) in windows.values() for g in range(a + 1, b)}
        allowed = [g for g in range(low, high + 1) if g not in inner_gaps]
        for gap in self._gaps(parent.children, windows):
            g = self._place(gap, self._words_of(parent), allowed)
            left = self._target.ends[g - 1] if g > low else begin
            right = self._target.starts[g] if g < high else end
            items.append(self._at(gap, left, right))
        written, place = [], begin
        for start, stop, text in sorted(items, key=lambda item: item[:2]):
            written += [_encoded(self._target.text[place : max(place, start)]), text]
            place = max(place, stop)
        return "".join([*written, _encoded(self._target.text[place:end])])

    def _words_of(self, node):
        """The source words that a node has a part of: the first, and that after the last."""
        if not self._source.text[node.start : node.end].strip():
            return 0, 0
        first = np.searchsorted(self._source.ends, node.start, "right")
        return int(first), int(np.searchsorted(self._source.starts, node.end, "left"))

    def _windows(self, parent, low, high):
        """The target words of each child that gets some, by its number: the child and a pair."""
        words = {i: self._words_of(node) for i, node in enumerate(parent.children)}
        words = {i: (first, last) for i, (first, last) in words.items() if last > first}
        shares = {i: self._shares[:, a:b].sum(axis=1) for i, (a, b) in words.items()}
        free = np.zeros(len(self._target), bool)
        free[low:high] = True
        windows = {}
        for i in sorted(words, key=lambda i: -max(shares[i][low:high], default=0)):
            node, (first, last) = parent.children[i], words[i]
            lines = self._lines[first], self._lines[last - 1]
            here = free & (self._target_lines >= lines[0]) & (self._target_lines <= lines[1])
            if words[i] == self._words_of(parent) and high > low and free[low:high].all():
                window = low, high
            elif node.kept is not None:  # It was placed; no other word has a share of it.
                window = _run(here & (shares[i] > 0))
            elif self._are_lines(first, last):
                window = _run(here)
            else:
                window = self._window(words[i], shares[i], here)
            if window:
                windows[i] = node, window
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
        if not real.any():  # A mark stays the same mark, or is gone.
            marks = {self._source[i] for i in range(*words)}
            mine &= np.array([self._target[i] in marks for i in range(len(self._target))], bool)
        if not mine.any():
            return None
        anchor = int(np.argmax(np.where(mine, shares, -1)))
        gains = np.where(self._target.real, shares - 0.5, 0.0)
        gains[~free] = -np.inf
        a = anchor - _longest(gains[:anchor][::-1])
        b = anchor + 1 + _longest(gains[anchor + 1 :])
        for _ in range(_longest_run(~real)):
            if a > 0 and free[a - 1] and not self._target.real[a - 1]:
                a -= 1
        for _ in range(_longest_run(~real[::-1])):
            if b < len(free) and free[b] and not self._target.real[b]:
                b += 1
        return a, b

    def _gaps(self, children, windows):
        """The children that get no words, with those beside them."""
        gaps, former = [], None
        for i, node in enumerate(children):
            if i in windows:
                former = None
                continue
            gap = _Gap(node.start, node.end, self._alone(node), bool(node.kept))
            if former and former.end == gap.start:
                gap = _Gap(former.start, gap.end, *(former[k] + gap[k] for k in (2, 3)))
                gaps.pop()
            gaps.append(gap)
            former = gap
        return gaps

    def _alone(self, node):
        """A node without words of the target."""
        if node.kept is not None:
            return "".join([node.head, *node.kept, node.tail])
        own = self._source.text[node.start : node.end]
        inner = "".join(map(self._alone, node.children))
        if node.tail and not inner and not own.strip():
            inner = own
        return node.head + inner + node.tail

    def _place(self, gap, bounds, allowed):
        """The target word that a gap goes before."""
        source, target = self._source, self._target
        first, last = np.searchsorted(source.starts, (gap.start, gap.end))
        if first <= bounds[0]:
            return allowed[0]
        if last >= bounds[1]:
            return allowed[-1]
        spaces = spaces_around(source.text, gap.start, gap.end)
        g = best_gap(self._shares, first, last, spaces, allowed)
        while spaces[0] and 0 < g < len(target) and not target.real[g] and g + 1 in allowed:
            if target.starts[g] > target.ends[g - 1]:
                break
            g += 1  # Marks stay with the word before them.
        return g

    def _at(self, gap, left, right):
        """A gap between two places of the target: the characters that it replaces, and itself."""
        before, after = spaces_around(self._source.text, gap.start, gap.end)
        if before and after and right - left > 1:
            return left + 1, left + 1, gap.written
        if before or after:
            place = right if before else left
            text = gap.written
            if before and gap.is_text and place and not self._target.text[place - 1].isspace():
                text = f" {text}"
            is_last = place == len(self._target.text)
            return place, place, text + " " * (before and after and not is_last)
        has_space = gap.end > gap.start
        return left, right if has_space else left, gap.written


def _run(here: np.ndarray) -> tuple[int, int] | None:
    """The first index that is true, and that after the last; None if others lie between."""
    found = np.flatnonzero(here)
    if not len(found) or found[-1] - found[0] >= len(found):
        return None
    return int(found[0]), int(found[-1]) + 1


def _encoded(text):
    return html.escape(text, quote=False)


def _longest(gains: Sequence[float]) -> int:
    """The number of first values with the greatest sum, 0 if none is above 0."""
    return int(np.argmax([0.0, *np.cumsum(gains)]))


def _longest_run(values: Sequence[bool]) -> int:
    """The number of first values that are true."""
    return int(np.argmin([*values, False]))
