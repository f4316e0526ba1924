"""Which words of a translation belong to spans of its source."""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
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
        self._claims: dict[int, Claim] = {}
        self._taken = np.zeros(len(target), bool)
        self._target_words, self._found = [*target], {}

    @functools.cached_property
    def unclear(self) -> list[int]:
        """The spans of which more target words have a great share than can be theirs.

        All with some share if none is trusted.
        """
        found, others = [], self._others()
        for k, mine in enumerate(self._mine):
            best = np.sort(np.pad(mine, (self._limit(k) + 1, 0)))[::-1]
            several = best[self._limit(k)] > _UNCLEAR * best[0]
            if (several or not self._trusted) and best[0] > 0 and not self._standing(k, others[k]):
                found.append(k)
        return found

    def heed(self, falls: Sequence[np.ndarray]) -> None:
        """Weighs target words by their falls in log-probability without each `unclear` span."""
        doubt = 0 if self._trusted else 0.5  # Attention that is not trusted counts for less.
        for k, fall in zip(self.unclear, falls, strict=True):
            mine = (self._mine[k] + doubt) * np.maximum(fall, 0) * self._free
            if mine.any():
                self._mine[k] = mine / mine.max()

    def claimed(self) -> list[Claim]:
        """The claim of each span: best pairs first, and what stands there already before all."""
        spans, others = range(len(self.spans)), self._others()
        self._claim(way for k in spans for way in self._standing(k, others[k]))
        for k, t in self._compounds().items():  # Of several spans each may have one.
            self._claims[k], self._taken[t] = Claim((t,), True, "compound"), True
        own = (self._mine > others) & self._free  # What a span has the greatest share of.
        self._claim(
            (self._mine[k, t], k, Claim((int(t),))) for k in spans for t in np.flatnonzero(own[k])
        )
        for k, claim in self._claims.items():
            words = self._with_more(k, claim, own[k])
            is_weak = not claim.stands and self._mine[k, words[0]] < _WEAK
            self._claims[k] = Claim(words, claim.stands, "weak" if is_weak else claim.warning)
        # Of what was left out of the source no word of the translation is.
        none = (Claim(warning="inserted" if self._read(k) else None) for k in spans)
        return [self._claims.get(k, claim) for k, claim in enumerate(none)]

    def _claim(self, ways):
        """Takes claims `(share, span, claim)` that no other one stands against, the best first."""
        for _, k, claim in sorted(ways, key=lambda way: -way[0]):
            if k not in self._claims and not self._taken[[*claim.words]].any():
                self._claims[k] = claim
                self._taken[[*claim.words]] = True

    def _read(self, k):
        """What was read in the place of a span."""
        return self.source.text[slice(*self.places[k])]

    def _units(self):
        """The shares of the spans, and of source words of none, `[units, target]`."""
        return np.concatenate([self._mine, self.shares.T[~self.words.any(axis=0)]])

    def _others(self):
        """The greatest share of each target word that another unit has, `[spans, target]`."""
        second, best = np.sort(np.pad(self._units(), ((2, 0), (0, 0))), axis=0)[-2:]
        return np.where(self._mine < best, best, second)

    def _standing(self, k, others):
        """Claims of what is there already: a term in any form, where it is no other word's.

        Of a kept span also what was read in its place, but for one in the prefix.
        """
        span, read, mine = self.spans[k], self._read(k), self._mine[k]
        if span.kind == "term":
            is_others = others > np.maximum(0.5, mine)
            places = [w for w in self.found(span.target, _is_form) if not is_others[w].any()]
        else:
            places = self.found(span.target)
            if read != span.target:
                copies = self.found(read)
                places += [w for w in copies if self.target.starts[w[0]] >= self.locked]
        return [(mine[w].sum(), k, Claim((*w,), stands=True)) for w in places]

    def found(self, text: str, is_same: Callable[[str, str], bool] = str.__eq__) -> list[range]:
        """The target words that are those of a text."""
        if (text, is_same) not in self._found:
            wanted = [*Words(text)]
            starts = range(len(self._target_words) - len(wanted) + 1 if wanted else 0)
            self._found[text, is_same] = [
                range(t, t + len(wanted))
                for t in starts
                if is_same(self._target_words[t], wanted[0])
                and all(map(is_same, self._target_words[t : t + len(wanted)], wanted))
            ]
        return self._found[text, is_same]

    def _compounds(self):
        """The best words of terms that are also another's best one, and longer than the term."""
        found, units = {}, self._units()
        best = units.argmax(axis=1) if len(self.target) else ()
        for k, span in enumerate(self.spans):
            mine = self._mine[k] * (self._free & ~self._taken)
            if k in self._claims or span.kind != "term" or mine.max(initial=0) < _WEAK:
                continue
            t = int(mine.argmax())
            others = np.delete(units[:, t], k)[np.delete(best, k) == t] / mine[t]
            is_shared = np.any((others > _SHARED) & (others < 1 / _SHARED))
            if is_shared and len(letters(self.target[t])) > len(letters(span.target)):
                found[k] = t
        return found if self._trusted else {}

    def _with_more(self, k, claim, own):
        """The words of a claim, and more that are a span's own."""
        own, words = own & ~self._taken, [*claim.words]
        if claim.warning is None and self._read(k) == self.spans[k].target:
            words += self._beside(words, own & (self._mine[k] > 0.5))  # Nothing of it remains.
        if not claim.stands and self.target.alone[words[0]]:  # Any number of these is a word.
            words += self._beside(words, own & self.target.alone)
        elif not claim.stands:
            words += [t for t in self._strongest(k) if t not in words]
        self._taken[words] = True
        return tuple(words)

    def _beside(self, words, own):
        """The words that go on from some on either side."""
        joined = (self.target.starts[1:] == self.target.ends[:-1]) | ~self.target.alone[1:]
        low, high = min(words), max(words) + 1
        before, after = own[:low] & joined[:low], own[high:] & joined[high - 1 :]
        return [*range(low - _run(before[::-1]), low), *range(high, high + _run(after))]

    def _limit(self, k):
        """The most words of a span: as many as the longer of its source and its target has."""
        sides = self._read(k), self.spans[k].target if self.spans[k].kind == "term" else ""
        return max(1, *(Words(side).real.sum() for side in sides))

    def _strongest(self, k):
        """More words of a span, by attention: one after another has no fall of its own."""
        mine = (self.words[k] @ self.shares.T) * (self._free & ~self._taken)
        return [int(i) for i in np.argsort(-mine) if mine[i] > 0.5][: self._limit(k) - 1]


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
