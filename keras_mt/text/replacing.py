"""Puts spans of a source into the places of their words in its translation."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.claims import Claim, Claims
from keras_mt.text.glossary import particles
from keras_mt.text.words import Words, best_gap

# Marks that no space comes behind, and before; “ closes, too, as in German.
_OPENING, _CLOSING = r"(?:[(\[{„¿¡]|(?<!\S)[“«])", r"[)\]},.;:!?…”»。、]"
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


class Replacing:
    """Puts spans into the places of the words that they claim in a translation.

    Args:
        claims: The words of what was read and of the translation.
        found: The claim of each span.
        plain: The words of the plain text, each span a unit.
    """

    def __init__(self, claims: Claims, found: Sequence[Claim], plain: Words):
        self._claims, self._plain, self._spans = claims, plain, claims.spans
        self._source, self._target = claims.source, claims.target
        self._shares = claims.shares.copy()
        # Characters of the translation, start and end, the text that replaces them, and its span.
        self._edits: list[tuple[int, int, str, int | None]] = []
        placed = [(k, claim) for k, claim in enumerate(found) if claim.warning != "compound"]
        for k, claim in placed:
            only = np.arange(len(self._source)) == self._source.units[k]
            self._shares[[*claim.words, *claim.others]] = only
        for k, claim in placed:
            (self._replace if claim.words else self._insert)(k, claim)
            for t in claim.others:
                self._remove(t)

    def _replace(self, k, claim):
        """Puts a span in the place of words; a term that stands there stays in its form."""
        target, span = self._target, self._spans[k]
        start, end = target.starts[claim.words[0]], target.ends[claim.words[-1]]
        word, text = target.text[start:end], span.target
        if span.kind == "term" and claim.stands:
            text = word
        elif span.kind == "term":
            is_first = word[0].isupper() and _SENTENCE_START.search(target.text[:start])
            if is_first and text.split()[0].islower():
                text = text[0].upper() + text[1:]
            before, after = _ELIDED.fullmatch(word).groups(default="")
            text = before + text + after + particles(word)[-1]
        self._edits.append((start, end, text, k))

    def _remove(self, t):
        """Removes a word of the translation, with the white space on one side."""
        text, start, end = self._target.text, self._target.starts[t], self._target.ends[t]
        if text[:start][-1:].isspace():
            start -= 1
        elif text[end:][:1].isspace():
            end += 1
        self._edits.append((start, end, "", None))

    def _insert(self, k, _):
        """Puts a span between the words that its neighbours became, spaced as in the source."""
        target, span, column = self._target, self._spans[k], self._source.units[k]
        begin, end = self._line_of(column)
        left, right = self._plain.text[: span.start][-1:], self._plain.text[span.unit[1] :][:1]
        spaces = not left.strip(), not right.strip()
        low, high = np.searchsorted(target.starts, (begin, end))
        gap = best_gap(self._shares, column, column + 1, spaces, range(low, high + 1))
        beside = [*target.starts, end] if spaces == (True, False) else [begin, *target.ends]
        place = int(max(self._claims.locked, min(max(beside[gap], begin), end)))
        # Between marks, too, it does not touch a letter.
        needs_space = rf"\S(?<!{_OPENING})\Z" if spaces[0] else r"\w\Z"
        if re.search(needs_space, target.text[:place]) and not left.isalnum():
            self._edits.append((place, place, " ", None))
        self._edits.append((place, place, span.target, k))
        needs_space = rf"(?!{_CLOSING})\S" if spaces[1] else r"\w"
        if re.match(needs_space, target.text[place:]) and not right.isalnum():
            self._edits.append((place, place, " ", None))

    def _line_of(self, column):
        """The characters of the target's line of a source word; all where lines differ."""
        source, target = self._source.text, self._target.text
        lines = [line.span() for line in re.finditer("(?m)^.*$", target)]
        if len(lines) != source.count("\n") + 1:
            return 0, len(target)
        return lines[source.count("\n", 0, self._source.starts[column])]

    def result(self) -> tuple[Words, np.ndarray]:
        """The words of the result, and their shares of the words of the plain text."""
        text, origins, units, place = "", [], {}, 0  # Of each character its place before, or -1.
        last = len(self._target.text), 0, "", None
        for start, end, new, k in [*sorted(self._edits, key=lambda edit: edit[:2]), last]:
            text += self._target.text[place:start]
            if k is not None:
                units[k] = len(text), len(text) + len(new)
            text += new
            origins += [*range(place, start), *[-1] * len(new)]
            place = max(place, end)
        result = Words(text, [*units.values()])
        firsts = np.array(origins, int)[result.starts]
        rows = np.searchsorted(self._target.starts, firsts, "right") - 1
        shares = np.pad(self._shares, ((0, 1), (0, 0)))[rows]  # A last row for what is new.
        columns = self._source.units[[*units]]
        shares[:, columns] = 0
        shares[result.units, columns] = 1
        return result, shares
