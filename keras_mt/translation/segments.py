"""Texts to segments that a model can read, and their translations back to texts; in plain Python.

It is held to `keras_mt.inference.segments`, which does so inside a graph.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_mt.text.plain import PlainTokenizer, cut, passes_through, split_lines, split_sentences
from keras_mt.text.spans import SLOT


@dataclasses.dataclass
class Pair:
    """A segment and a translation of it; and what the model says of the latter's tokens."""

    pieces: list[int]  # Of the source.
    source: list[int]  # The ids that the model reads, and those that it writes.
    target: list[int]
    forced: int  # How many of the target's ids are not its own.
    text: str = ""
    score: float = 0.0
    log_probs: Sequence[float] = ()  # [tokens]
    attention: np.ndarray | None = None  # [tokens, source]

    @property
    def tokens(self) -> list[int]:
        """The target's own ids, with the end."""
        return self.target[self.forced :]


@dataclasses.dataclass
class Segment:
    """What is translated by itself, and its translations, best first."""

    before: str  # What stands before it and is not translated.
    pieces: list[int]
    source: list[int]  # The ids that the model reads.
    prefix: list[int]  # The ids that translations are forced to begin with.
    found: list[Pair]

    @property
    def lengths(self) -> int:
        """The number of pieces, by the name that a model for LiteRT has for it."""
        return len(self.pieces)


class Translation(NamedTuple):
    """A translation of a text, and those of its segments."""

    text: str
    score: float
    pairs: list[Pair]


class Segmenter:
    """Cuts texts into segments that a model can read, with their terms if it `reads_terms`."""

    def __init__(
        self,
        tokenizer: PlainTokenizer,
        max_length: int,
        split_sentences: bool,
        reads_terms: bool = False,
    ):
        self._tokenizer, self._split_sentences = tokenizer, split_sentences
        self._markers = tokenizer.term_markers if reads_terms else None
        added = tokenizer.special_counts()
        self.source_limit, self.target_limit = (max_length - count for count in added)
        self._limit = self.source_limit - bool(tokenizer.tag_ids)  # Of pieces without a tag.
        self.forced = added[1] - 1  # All but the end.
        self._begins = tokenizer.begins_word

    def segments(self, text: str, *languages: str) -> tuple[list[Segment], str]:
        """The segments of a text, and the white space after the last.

        If the tokenizer has languages, those of source and target are given.
        """
        lines, spaces, end = split_lines(text, self._markers is not None)
        for i, line in enumerate(lines):
            if passes_through(line):
                lines[i], spaces[i] = "", spaces[i] + line
        segments, first = [], self._tokenizer.tag(lines[0])
        for whole, before in zip(lines, spaces, strict=True):
            line, terms = self._without_terms(whole)
            sentences, gaps = split_sentences(line, self._is_split(line))
            befores, parts = [], []
            for sentence, gap in zip(sentences, [before, *gaps[1:]], strict=True):
                cuts = cut(self._pieces(sentence, terms), self._begins, self._limit)
                befores += [gap, *[" "] * (len(cuts) - 1)]
                parts += cuts
            for gap, pieces in zip(befores, self._tagged(parts, line, first), strict=True):
                source = self._tokenizer.source_ids(pieces, *languages)
                prefix = self._tokenizer.forced_ids(*languages[1:])
                # The translation of nothing is nothing.
                found = [] if pieces else [Pair(pieces, source, [], 0)]
                segments.append(Segment(gap, pieces, source, prefix, found))
        return segments, end

    def pairs(self, text: str, target: str, *languages: str) -> list[Pair]:
        """The lines or sentences of both sides; none if a side is over the limit of pieces."""
        sides = split_lines(text, self._markers is not None)[0], split_lines(target)[0]
        if len(sides[0]) != len(sides[1]):
            sides = [" ".join(sides[0])], [" ".join(sides[1])]
        pairs, first = [], self._tokenizer.tag(sides[0][0])
        for whole, other in zip(*sides, strict=True):
            line, terms = self._without_terms(whole)
            is_split = self._is_split(line)
            sources, targets = (split_sentences(side, is_split)[0] for side in (line, other))
            if len(sources) != len(targets):
                sources, targets = (split_sentences(side, False)[0] for side in (line, other))
            sources = [self._pieces(sentence, terms) for sentence in sources]
            for pieces, part in zip(self._tagged(sources, line, first), targets, strict=True):
                ids = self._tokenizer.target_pieces(part)
                if len(pieces) > self.source_limit or len(ids) > self.target_limit:
                    return []
                pairs.append(self._pair(pieces, ids, part, languages))
        return pairs

    def reread(self, pair: Pair, *languages: str) -> Pair:
        """A translation as it is if its text is given."""
        ids = self._tokenizer.target_pieces(pair.text)[: self.target_limit]
        return self._pair(pair.pieces, ids, pair.text, languages)

    def _pair(self, pieces, target, text, languages):
        source = self._tokenizer.source_ids(pieces, *languages)
        target = self._tokenizer.target_ids(target, *languages[1:])
        return Pair(pieces, source, target, self.forced, text)

    def _is_split(self, line):
        return self._split_sentences or len(self._tokenizer.pieces(line)) > self.source_limit

    def _without_terms(self, line):
        """A line with one `SLOT` in the place of each term, and an iterator of its terms."""
        parts = line.split(SLOT) if self._markers else [line]  # Every second one is a term.
        return SLOT.join(parts[::2]), iter(parts[1::2])

    def _pieces(self, sentence, terms):
        """The pieces of a sentence, with its terms between two markers behind their words.

        If it would be over the limit with its terms, it is without them.
        """
        parts = sentence.split(SLOT) if self._markers else [sentence]
        first, *others = map(self._tokenizer.pieces, parts)
        begin, end = self._markers or (0, 0)
        marked = [[begin, *self._tokenizer.target_pieces(next(terms)), end] for _ in others]
        if len(first) + sum(map(len, marked + others)) > self._limit:
            marked = [[] for _ in others]
        return sum((x for pair in zip(marked, others, strict=True) for x in pair), first)

    def _tagged(self, parts, line, first):
        """The parts of a line, each with its tag, else that of its text's first line."""
        own = self._tokenizer.tag(line)
        if not line:
            return parts
        # The first part may already have its tag.
        return [part if own and not k else (own or first) + part for k, part in enumerate(parts)]


def joined(segments: Sequence[Segment], end: str, length_penalty: float) -> list[Translation]:
    """The translations of a text, best first: all first ones of segments, all second ones, ...

    A segment with fewer than others of its text repeats its last one.
    """
    numbers = [len(segment.found) for segment in segments]
    found = []
    for k in range(max(numbers) if all(numbers) else 0):
        pairs = [each.found[min(k, len(each.found) - 1)] for each in segments]
        parts = [each.before + pair.text for each, pair in zip(segments, pairs, strict=True)]
        length = max(sum(len(pair.target) for pair in pairs), 1)
        total = sum(pair.score * len(pair.target) ** length_penalty for pair in pairs)
        text = "".join([*parts, end])
        found.append(Translation(text, total / length**length_penalty, pairs))
    # Second-best translations may sum to the better score, since long segments weigh more.
    return sorted(found, key=lambda translation: -translation.score)


def block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """The attention of a text `[target_tokens, source_tokens]`, from that of its segments."""
    ends = np.cumsum([block.shape for block in blocks], axis=0)
    whole = np.zeros(ends[-1], np.float32)
    for (bottom, right), block in zip(ends, blocks, strict=True):
        whole[bottom - len(block) : bottom, right - block.shape[1] : right] = block
    return whole
