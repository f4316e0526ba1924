"""Which words of a translation belong to spans of its source."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.glossary import particles
from keras_mt.text.spans import Span
from keras_mt.text.words import Words, letters

_UNCLEAR = 0.3  # A word with this much of the best one's share could be the span's, too.
_SHARED = 0.5  # A word belongs to two, if the lesser share is this much of the greater.
_WEAK = 0.3  # A share that is little evidence.
# What belongs to a word: a genitive's ending, a Korean particle.
_SUFFIX = re.compile("(?:['’][a-z]{1,2}(?!\\w)|[가-힣]*)")
_ENDING = 3  # The maximum letters that a form of a word has more than another.


class Claim(NamedTuple):
    """The target words of a span, the strongest first; none if it is to be inserted."""

    words: tuple[int, ...] = ()
    stands: bool = False  # What is to be there is there, or what was read in its place.
    warning: str | None = None


class Claims:
    """The target words of the spans of a source; no two spans have one.

    Args:
        source, target: The words of what was read, and of its translation.
        shares: The share of each target word that belongs to each source word.
        spans: The spans.
        places: The place of each in what was read, pairs of characters.
        trusted: Whether the shares are those of attention that aligns words.
        locked: The number of the translation's first characters that do not change.

    Attributes:
        words: The source words of each span, boolean `[spans, source]`.
    """

    def __init__(
        self,
        source: Words,
        target: Words,
        shares: np.ndarray,
        spans: Sequence[Span],
        places: Sequence[tuple[int, int]],
        trusted: bool = True,
        locked: int = 0,
    ):
        self.source, self.target, self.shares = source, target, shares
        self.spans, self.places, self.locked = spans, places, locked
        self._trusted = trusted
        ends = [end + len(_SUFFIX.match(source.text, end)[0]) for _, end in places]
        self.words = np.array(
            [
                (source.starts >= start) & (source.ends <= end)
                for (start, _), end in zip(places, ends, strict=True)
            ]
        ).reshape(len(spans), len(source))
        self._free = target.real & (target.starts >= locked)
        self._mine = self.words @ shares.T  # [spans, target]

    @functools.cached_property
    def unclear(self) -> list[int]:
        """The spans of which several target words have a great share; all if none is trusted."""
        best = np.sort(np.pad(self._mine, ((0, 0), (2, 0))), axis=1)[:, -2:]
        several = (best[:, 0] > _UNCLEAR * best[:, 1]) | ((best[:, 1] > 0) & (not self._trusted))
        return [k for k in np.flatnonzero(several) if not any(self._standing(k))]

    def heed(self, falls: Sequence[np.ndarray]) -> None:
        """Weighs target words by their falls in log-probability without each `unclear` span."""
        for k, fall in zip(self.unclear, falls, strict=True):
            mine = (self._mine[k] + 0.5) * np.maximum(fall, 0) * self._free
            if mine.any():
                self._mine[k] = mine / mine.max()

    def claimed(self) -> list[Claim]:
        """The claim of each span: best pairs first, and what stands there already before all."""
        spans = range(len(self.spans))
        claims: dict[int, Claim] = {}
        taken = np.zeros(len(self.target), bool)

        def claim(ways):
            for _, k, found in sorted(ways, key=lambda way: -way[0]):
                if k not in claims and not taken[[*found.words]].any():
                    claims[k] = found
                    taken[[*found.words]] = True

        claim(way for k in spans for way in self._standing(k))
        shared = {k: self._compound(k, taken) for k in spans if k not in claims}
        for k, t in shared.items():  # Of several spans each may have it.
            if t is not None:
                claims[k], taken[t] = Claim((t,), True, "compound"), True
        own = np.zeros(self._mine.shape, bool)
        for k in spans:
            own[k] = (self._mine[k] > self._others(k).max(axis=0, initial=0)) & self._free
        places = zip(*np.nonzero(own), strict=True)
        claim((self._mine[k, t], int(k), Claim((int(t),))) for k, t in places)
        for k, found in claims.items():
            if not found.stands:
                words = self._with_others(k, *found.words, own[k] & ~taken)
                taken[[*words]] = True
                is_weak = self._mine[k, words[0]] < _WEAK
                claims[k] = Claim(words, False, "weak" if is_weak else None)
        # Of what was left out of the source no word of the translation is.
        return [
            claims.get(k, Claim(warning="inserted" if end > start else None))
            for k, (start, end) in enumerate(self.places)
        ]

    def _others(self, k):
        """The shares of what else may own target words: other spans, and source words of none."""
        others = np.delete(self._mine, k, axis=0)
        return np.concatenate([others, self.shares.T[~self.words.any(axis=0)]])

    def _standing(self, k) -> Iterator[tuple[float, int, Claim]]:
        """Where the target of a term stands already, in any form, and is no other word's.

        Or what was read in the place of a kept span.
        """
        is_term = self.spans[k].kind == "term"
        wanted = self.spans[k].target if is_term else self.source.text[slice(*self.places[k])]
        others = self._others(k).max(axis=0, initial=0)
        is_others = is_term & (others > np.maximum(0.5, self._mine[k]))
        for words in self.found(wanted, _is_form if is_term else str.__eq__):
            if not is_others[words].any():
                yield self._mine[k, words].sum(), k, Claim((*words,), True)

    def found(self, text: str, is_same: Callable[[str, str], bool]) -> list[range]:
        """The target words that are those of a text."""
        wanted = [*Words(text)]
        starts = range((len(self.target) - len(wanted) + 1) if wanted else 0)
        windows = (range(t, t + len(wanted)) for t in starts)
        return [w for w in windows if all(map(is_same, map(self.target.__getitem__, w), wanted))]

    def _compound(self, k, taken):
        """The best word of a term, if it is also another's best one and longer than the term."""
        mine = self._mine[k] * (self._free & ~taken)
        if self.spans[k].kind != "term" or not self._trusted or mine.max(initial=0) < _WEAK:
            return None
        t = int(mine.argmax())
        others = self._others(k)
        others = others[others.argmax(axis=1) == t, t] / mine[t]
        is_shared = np.any((others > _SHARED) & (others < 1 / _SHARED))
        is_longer = len(letters(self.target[t])) > len(letters(self.spans[k].target))
        return t if is_shared and is_longer else None

    def _with_others(self, k, t, own):
        """A target word of a span, and others of its own."""
        own[t] = True
        if self.target.alone[t]:  # Nothing says how many of these make a word.
            own &= self.target.alone
            joined = self.target.starts[1:] == self.target.ends[:-1]
            before, after = own[:t] & joined[:t], own[t + 1 :] & joined[t:]
            run = range(t - _run(before[::-1]), t + 1 + _run(after))
            return t, *(i for i in run if i != t)
        sides = self.spans[k].target, self.source.text[slice(*self.places[k])]
        limit = max(1, *(Words(side).real.sum() for side in sides))
        mine = np.where(own, self._mine[k], 0)
        return (t, *(int(i) for i in np.argsort(-mine) if mine[i] > 0.5 and i != t))[:limit]


def _run(values):
    """The number of first values that are true."""
    return int(np.argmin([*values, False]))


def _is_form(word, wanted):
    """Whether a word is another one but for a short ending, accents and case."""
    sides = (unicodedata.normalize("NFC", "".join(letters(w))) for w in (word, wanted))
    one, other = sorted(sides, key=len)
    rest = other.removeprefix(one)
    if one == other or rest in particles(other):
        return True
    is_short = len(rest) <= min(_ENDING, len(one) - 1)
    return other.startswith(one) and is_short and other.isalpha()
