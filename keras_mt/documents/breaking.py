"""Texts divided in parts of given proportions, at the bounds of words."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

# Letters of scripts without spaces are words by themselves.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿][、。！？」』）]*|[^\s぀-ヿ㐀-鿿豈-﫿]+")
_WIDTH = 42  # How long a line may be, if the source has none that is longer.


class Word(NamedTuple):
    """The place where a word begins, and its letters with the white space before it."""

    start: int
    size: int


def words(text: str) -> list[Word]:
    """The words of a text."""
    found, end = [], 0
    for match in _WORD.finditer(text):
        found.append(Word(match.start(), match.end() - match.start() + (match.start() > end)))
        end = match.end()
    return found


def divided(found: Sequence[Word], weights: Sequence[float]) -> list[list[Word]]:
    """The words in as many parts as weights, in about their proportion; none empty, if possible."""
    ends = list(itertools.accumulate(word.size for word in found))
    middles = [end - word.size / 2 for end, word in zip(ends, found, strict=True)]
    size, total = sum(word.size for word in found), sum(weights) or 1
    parts, begin = [], 0
    for rest, share in zip(range(len(weights))[::-1], itertools.accumulate(weights), strict=True):
        end = sum(middle <= size * share / total for middle in middles) if rest else len(found)
        end = max(min(max(end, begin + 1), len(found) - rest), min(begin + 1, len(found)))
        parts.append(list(found[begin:end]))
        begin = end
    return parts


def lines(found: Sequence[Word], source_lines: Sequence[int]) -> list[list[Word]]:
    """The words in as many lines as the source has, or more where they would be too long."""
    count = math.ceil(sum(word.size for word in found) / max(_WIDTH, *source_lines))
    weights = source_lines if count <= len(source_lines) else [1] * count
    return [line for line in divided(found, weights) if line]
