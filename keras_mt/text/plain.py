"""The text's way without TensorFlow: lines, sentences, pieces and text, as inside the graph."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import re2

from keras_mt.text import patterns
from keras_mt.text.patterns import Rewrite
from keras_mt.text.vocabulary import (
    SentencePieceVocabulary,
    TableVocabulary,
    Vocabulary,
    sentencepiece_processor,
)

_compiled = functools.cache(re2.compile)


def split_lines(text: str, with_terms: bool = False) -> tuple[list[str], list[str], str]:
    """The lines, the white space before each, and that after the last; see `sentences`."""
    if text.isprintable():  # It has no white space but " ", as most texts.
        line = text.rstrip(" ")
        return *_without_spaces(line), text[len(line) :]
    terms = [patterns.TERMS] if with_terms else []
    text = _rewritten(text.encode(), patterns.TEXT, *terms, *patterns.GUARDS)
    trailing = _rewritten(text, patterns.TRAILING)
    lines = _rewritten(text, *patterns.LINES).split(patterns.CUT.encode())
    return *_without_separators(lines, patterns.LINE), trailing.decode()


def split_sentences(line: str, where: bool = True) -> tuple[list[str], list[str]]:
    """The sentences and the white space before each; one if `where` is false."""
    if line.isprintable() and not (where and patterns.ENDS & {*line[:-1]}):
        return _without_spaces(line)
    text = line.encode()
    text = _rewritten(text, *(patterns.SENTENCES if where else ()), patterns.MAY_END)
    return _without_separators(text.split(patterns.CUT.encode()))


def passes_through(line: str) -> bool:
    """True if there is nothing to translate in a line."""
    return _compiled(patterns.NO_WORD).fullmatch(line.encode()) is not None


def cut(ids: Sequence[int], begins: np.ndarray, limit: int) -> list[list[int]]:
    """Parts within the limit, cut if possible before a piece that `begins` a word."""
    if len(ids) <= limit:
        return [list(ids)]
    half, place = max(1, limit // 2), np.arange(len(ids))
    word = np.maximum.accumulate(np.where(begins[np.array(ids)], place, 0))
    part = (word + (place - word) // half * half) // half
    starts = np.flatnonzero(np.diff(part)) + 1
    return [part.tolist() for part in np.split(np.array(ids), starts)]


class PlainTokenizer(Vocabulary):
    """A tokenizer of keras_mt's own on str and lists of int; see `BaseTokenizer` for methods.

    `tag_ids` are pairs of a tag and its id: none if no source may begin with one.
    """

    tag_ids: Sequence[tuple[str, int]] = ()

    @staticmethod
    def load(folder: str | os.PathLike) -> "PlainTokenizer":
        """Reads the tokenizer that `RunFolder.save_tokenizer` wrote into a folder."""
        if (path := Path(folder) / "tokenizer").is_dir():
            return _Pretrained.load(path)
        return _Trained.load(path.with_suffix(".model"))

    def tag(self, text: str) -> list[int]:
        """The id of the tag that a source begins with; none if it begins with none."""
        return []

    def source_ids(
        self,
        pieces: Sequence[int],
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[int]:
        code = target_language if self.target_on_source else source_language
        before, after = self.around_source(self._language_id(code))
        return [*before, *pieces, *after]

    def target_ids(self, pieces: Sequence[int], target_language: str | None = None) -> list[int]:
        return [*self.forced_ids(target_language), *pieces, self.eos_id]

    def forced_ids(self, target_language: str | None = None) -> list[int]:
        return self.before_target(self._language_id(target_language))

    def special_counts(self) -> tuple[int, int]:
        return len(self.source_ids([])), len(self.target_ids([]))

    def _language_id(self, code):
        """The id of a language: 0 for an unknown one, and for None, to count ids, of the first."""
        known = dict(self.language_ids)
        return next(iter(known.values()), 0) if code is None else known.get(code, 0)


class _Trained(SentencePieceVocabulary, PlainTokenizer):
    def pieces(self, text):
        if "▁" in text or not text.isprintable():
            text = _rewritten(text.encode(), *patterns.PIECES)
        return self._processor.encode(text)

    def text(self, ids):
        left_out = self.padding_id, self.bos_id, self.eos_id
        return self._processor.decode([i for i in ids if i not in left_out], out_type=bytes)

    def id_to_string(self, id):
        return self._processor.id_to_piece(id).encode()


class _Side:
    """A side's SentencePiece model and table of ids."""

    def __init__(self, model, pieces, is_text, unknown_id) -> None:
        self.pieces, self._is_text, self._unknown_id = pieces, is_text, unknown_id
        self._processor = sentencepiece_processor(model, "The model")
        self._ids = {piece: id for id, piece in enumerate(pieces) if is_text[id]}

    def ids(self, text):
        pieces = self._processor.encode(text, out_type=str)
        return [self._ids.get(piece, self._unknown_id) for piece in pieces]

    def strings(self, id):
        return self.pieces[id].encode()

    def text(self, ids):
        pieces = [self.pieces[i] for i in ids if self._is_text[i]]
        return self._processor.decode(pieces, out_type=bytes).replace(b"\xe2\x96\x81", b" ").strip()


class _Pretrained(TableVocabulary, PlainTokenizer):
    side_class = _Side

    def pieces(self, text):
        tag, text = self._without_tag(text)
        return tag + self._sides[0].ids(text)

    def tag(self, text):
        return self._without_tag(text)[0]

    def _without_tag(self, text):
        tag = _rewritten(text.encode(), patterns.TAG).decode() if self.tag_ids else ""
        ids = [id for name, id in self.tag_ids if name == tag]
        return ids, text[len(tag) :] if ids else text


def _without_spaces(line):
    """As `_without_separators` of a segment that has no white space but " "."""
    rest = line.lstrip(" ")
    return [rest], [line[: len(line) - len(rest)]]


def _without_separators(segments, *rewrites):
    """Segments, bytes, without the white space that they begin with; and that white space."""
    separators = [_rewritten(x, patterns.SEPARATOR).decode() for x in segments]
    return [_rewritten(x, patterns.SEGMENT, *rewrites).decode() for x in segments], separators


def _rewritten(text: bytes, *rewrites: Rewrite) -> bytes:
    """UTF-8 with rewrites of `patterns`, one after another."""
    for pattern, rewrite in rewrites:
        text = _compiled(pattern).sub(rewrite.encode(), text)
    return text
