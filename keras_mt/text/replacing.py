"""Puts spans of a source into the places of the words that they became in its translation."""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.glossary import PARTICLE, particles
from keras_mt.text.spans import LETTER, Span
from keras_mt.text.words import Words, best_gap, letters

_UNCLEAR = 0.3  # A word with this much of the best word's share could be the span's, too.
_SHARED = 0.5  # A word belongs to two, if the lesser share is this much of the greater.
_WEAK = 0.3  # A share that is little evidence.
_SURE = 0.6  # The share that makes another word than its number a kept span's.
# Endings of a term. Longer ones are none: models that read terms write "Altarar".
_ENDING = rf"(?:e?[mnrs]?|[\u0370-\u06ff]{{1,2}}|{PARTICLE})"
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


class Claim(NamedTuple):
    """The words of a translation that a span of its source became."""

    words: range = range(0)  # The span takes their place; without any it is inserted.
    others: Sequence[int] = ()  # More of its words, elsewhere; they are removed.
    stands: bool = False  # The translation has it already, or what was read in its place.
    warning: str | None = None


@dataclasses.dataclass
class Claims:
    """Finds the words of a translation that the spans of its source became.

    No two spans have the same word.
    """

    source: Words  # What was read, each span a unit.
    target: Words  # Its translation, each of `find_forms` a unit.
    shares: np.ndarray  # The share of each target word that belongs to each source word.
    spans: Sequence[Span]
    trusted: bool = True  # Whether the shares are those of attention that aligns words.
    annotated: bool = False  # Whether the model read the terms.
    locked: int = 0  # The number of the translation's first characters that do not change.

    def __post_init__(self) -> None:
        self._free = self.target.real & (self.target.starts >= self.locked)
        self._weighed = self.shares.copy()  # By falls, if there are any.
        self._claims, self._taken = {}, np.zeros(len(self.target), bool)

    @functools.cached_property
    def unclear(self) -> list[int]:
        """The spans with a great share of more target words than they have words.

        If shares are not trusted, all spans with some share.
        """
        found = []
        for k, c in enumerate(self.source.units):
            best = np.sort(np.pad(self.shares[:, c], (self._limit(k) + 1, 0)))[::-1]
            several = best[self._limit(k)] > _UNCLEAR * best[0]
            if (several or not self.trusted) and best[0] > 0 and not self._standing(k):
                found.append(k)
        return found

    def heed(self, falls: Sequence[np.ndarray]) -> None:
        """Weighs target words by their falls in log-probability without each `unclear` span."""
        doubt = 0 if self.trusted else 0.5  # Attention that is not trusted counts for less.
        for k, fall in zip(self.unclear, falls, strict=True):
            c = self.source.units[k]
            mine = (self.shares[:, c] + doubt) * np.maximum(fall, 0) * self._free
            if mine.any():
                self._weighed[:, c] = mine / mine.max()

    def claimed(self) -> list[Claim]:
        """The claim of each span. Words that stand there already go first, then the best pairs."""
        spans = range(len(self.spans))
        self._claim([(k, t) for k in spans for t in self._standing(k)], stands=True)
        for k, t in self._compounds():  # Of several spans each may have one.
            self._claims[k], self._taken[t] = Claim(range(t, t + 1), (), True, "compound"), True
        mine, best = self._weighed[:, self.source.units], self._weighed.max(axis=1, initial=1e-9)
        own = (mine == best[:, None]) & self._free[:, None]
        # A number that the model left out may have no word.
        numbers = [s.kind != "term" and s.read not in ("", s.target) for s in self.spans]
        own &= ~np.array(numbers, bool) | (self.shares[:, self.source.units] > _SURE)
        self._claim([(k, t) for t, k in np.argwhere(own)])
        for k, claim in self._claims.items():
            if claim.warning is None:
                self._claims[k] = self._with_more(k, claim)
        # A span that was left out of the source became no word.
        none = (Claim(warning="inserted" if self.spans[k].read else None) for k in spans)
        return [self._claims.get(k, claim) for k, claim in enumerate(none)]

    def _share(self, k, t):
        return self._weighed[t, self.source.units[k]]

    def _claim(self, pairs, stands=False):
        """Takes pairs of a span and a word, the best first, of which neither is taken yet."""
        for k, t in sorted(pairs, key=lambda pair: -self._share(*pair)):
            if k not in self._claims and not self._taken[t]:
                self._claims[k], self._taken[t] = Claim(range(t, t + 1), stands=stands), True

    def _standing(self, k):
        """The words that are the span already.

        A term may have any form, but must not be another word's, unless the model read it. Of a
        kept span what was read in its place counts too, but not in the prefix.
        """
        span = self.spans[k]
        if span.kind != "term":
            exact = [t for t in self.target.units if self.target[t] == span.target]
            return exact + self._copies(k)
        form = re.compile(_form(span), re.IGNORECASE)
        found = [t for t in self.target.units if form.fullmatch(_without_accents(self.target[t]))]
        others = np.delete(self._weighed, self.source.units[k], axis=1).max(axis=1, initial=0)
        return [t for t in found if self.annotated or others[t] <= max(0.5, self._share(k, t))]

    def _copies(self, k):
        """The words behind the prefix that were read in the place of a span."""
        after = [t for t in self.target.units if self.target.starts[t] >= self.locked]
        return [t for t in after if self.target[t] == self.spans[k].read]

    def _compounds(self):
        """Pairs of a term and its best word, where this is also another's best, and longer."""
        shares = self._weighed * (self._free & ~self._taken)[:, None]
        if not self.trusted or not shares.size:
            return []
        found, best = [], shares.argmax(axis=0)
        for k, (c, span) in enumerate(zip(self.source.units, self.spans, strict=True)):
            t = int(best[c])
            mine, others = shares[t, c], np.delete(shares[t] * (best == t), c)
            alike = (others > _SHARED * mine) & (others < mine / _SHARED)
            is_shared = mine >= _WEAK and alike.any()
            is_longer = len(letters(self.target[t])) > len(letters(span.target))
            if is_shared and is_longer and span.kind == "term" and k not in self._claims:
                found.append((k, t))
        return found

    def _with_more(self, k, claim):
        """A claim with the other words that attention gives to the span, and with all copies."""
        (t,), span = claim.words, self.spans[k]
        mine = self.shares[:, self.source.units[k]] * (self._free & ~self._taken)
        sure = {*np.flatnonzero(mine > 0.5)}
        # Nothing remains of what was read as it is; of some scripts any number is a word.
        is_read = self.annotated and (claim.stands or self._limit(k) > 1)
        is_alone = self.target.alone[t] and not claim.stands
        if is_read or is_alone or span.read == span.target:
            more = {*_grown(claim.words, sure)} - {t}
        elif claim.stands:
            more = set()
        else:
            more = {i for i in np.argsort(-mine)[: self._limit(k) - 1] if i in sure}
        if span.kind not in ("term", "kept"):
            more |= {i for i in self._copies(k) if not self._taken[i]}
        words = claim.words if claim.stands else _grown(claim.words, more)
        self._taken[[*more]] = True
        is_weak = not claim.stands and self._share(k, t) < _WEAK
        return Claim(words, sorted(more - {*words}), claim.stands, "weak" if is_weak else None)

    def _limit(self, k):
        """The most words of a span: as many as the longer of its source and its target has."""
        sides = self.spans[k].read, self.spans[k].target if self.spans[k].kind == "term" else ""
        return max(1, *(Words(side).real.sum() for side in sides))


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


def find_forms(text: str, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """The places in a translation that may be one of the spans already."""
    forms = {*map(_form, spans)}
    forms |= {re.escape(span.read) for span in spans if span.kind != "term" and span.read}
    forms = "|".join(sorted(forms, key=len, reverse=True)) or "(?!)"  # Without spans, nothing.
    # No letters of a longer word; beside a bracket there may be any.
    bounds = rf"(?:(?<!{LETTER})|(?!{LETTER}))", rf"(?:(?!{LETTER})|(?<!{LETTER}))"
    found = re.finditer(rf"{bounds[0]}(?i:{forms}){bounds[1]}", _without_accents(text))
    return [match.span() for match in found]


def _form(span):
    """A regular expression of the forms of a span, without accents."""
    text = r"\s+".join(map(re.escape, _without_accents(span.target).split()))
    return text + _ENDING if span.kind == "term" else text


def _without_accents(text):
    """The text without accents, of as many characters."""
    return "".join(map(_base, text))


@functools.cache
def _base(character):
    first, *marks = unicodedata.normalize("NFD", character)
    return first if marks and all(map(unicodedata.combining, marks)) else character


def _grown(words, own):
    """A range of words, with its neighbours on either side that are `own`."""
    low, high = words.start, words.stop
    while low - 1 in own:
        low -= 1
    while high in own:
        high += 1
    return range(low, high)
