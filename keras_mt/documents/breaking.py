"""Texts divided in parts of given proportions, at the bounds of words."""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Sequence

# Letters of scripts without spaces are words by themselves.
_WORD = re.compile(r"\s+|[぀-ヿ㐀-鿿豈-﫿][、。！？」』）]*|[^\s぀-ヿ㐀-鿿豈-﫿]+")
_WIDTH = 42  # How long a line may be, if the source has none that is longer.


@dataclasses.dataclass
class _Word:
    """A word, the markup before and after it, and whether a space comes before it."""

    text: str
    before: list[tuple[str, tuple[str, str]]]
    after: list[tuple[str, tuple[str, str]]]
    space: bool


def words(parts: Iterable[tuple[str, object]]) -> list[_Word]:
    """The words of `Inline.parts`, with the markup around them: tuples of a start and an end."""
    found, before, space = [], [], False
    for kind, what in parts:
        if kind != "text":
            if kind == "end" and found and not before:
                found[-1].after.append((kind, what))
            else:
                before.append((kind, what))
            continue
        for piece in _WORD.findall(what):
            if not piece.isspace():
                found.append(_Word(piece, before, [], space))
                before = []
            space = piece.isspace()
    if found:
        found[-1].after += before
    return found


def divided(found: Sequence[_Word], weights: Sequence[float]) -> list[list[_Word]]:
    """The words in as many parts as weights, in about their proportion; none empty, if possible."""
    sizes = [len(word.text) + word.space for word in found]
    middles = [end - size / 2 for end, size in zip(itertools.accumulate(sizes), sizes, strict=True)]
    total = sum(weights) or 1
    bounds, begin, rest = [], 0, len(weights)
    for share in itertools.accumulate(weights):
        rest -= 1
        end = sum(middle <= sum(sizes) * share / total for middle in middles)
        end = max(min(max(end, begin + 1), len(found) - rest), min(begin + 1, len(found)))
        bounds.append((begin, end))
        begin = end
    bounds[-1] = (bounds[-1][0], len(found))
    return [list(found[start:end]) for start, end in bounds]


def lines(found: Sequence[_Word], source_lines: Sequence[int]) -> list[list[_Word]]:
    """The words in as many lines as the source has, or more where they would be too long."""
    size = sum(len(word.text) + word.space for word in found)
    count = math.ceil(size / max(_WIDTH, *source_lines))
    weights = source_lines if count <= len(source_lines) else [1] * count
    return [line for line in divided(found, weights) if line]
