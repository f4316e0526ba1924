"""Texts divided in parts of given proportions, at the bounds of words."""

import itertools
import math
import re
from collections.abc import Sequence

# Letters of scripts without spaces are words by themselves.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿][、。！？」』）]*|[^\s぀-ヿ㐀-鿿豈-﫿]+")
Word = tuple[int, int]  # Its place in a text.
_WIDTH = 42  # How long a line may be, if the source has none that is longer.


def words(text: str) -> list[Word]:
    """The places of the words of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def divided(found: Sequence[Word], weights: Sequence[float]) -> list[list[Word]]:
    """The words in as many parts as weights, in about their proportion; none empty, if possible."""
    total, size = sum(weights) or 1, _size(found)
    parts, begin = [], 0
    for rest, share in zip(range(len(weights))[::-1], itertools.accumulate(weights), strict=True):
        before = [sum(word) / 2 - found[0][0] <= size * share / total for word in found]
        end = sum(before) if rest else len(found)
        end = max(min(max(end, begin + 1), len(found) - rest), min(begin + 1, len(found)))
        parts.append(list(found[begin:end]))
        begin = end
    return parts


def lines(found: Sequence[Word], source_lines: Sequence[int]) -> list[list[Word]]:
    """The words in as many lines as the source has, or more where they would be too long."""
    count = math.ceil(_size(found) / max(_WIDTH, *source_lines))
    weights = source_lines if count <= len(source_lines) else [1] * count
    return [line for line in divided(found, weights) if line]


def _size(found):
    return found[-1][1] - found[0][0] if found else 0
