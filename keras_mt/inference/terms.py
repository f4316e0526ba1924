"""Terms of texts to constraints of segments: where they stand, as pieces, and which cannot be."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_mt.text import BaseTokenizer
from keras_mt.text.sentences import SPACE
from keras_mt.text.terms import ALONE, Matches

# Letters and digits of scripts that are written with spaces, and signs within addresses.
_JOINING = r"(?s)[\pL\pM\pN#&+/=@\\^_{|~].*"
# Pieces of a single byte: those of the same in ASCII, or of a part of another character.
_JOINING_BYTE = "<0x(2[36BF]|3[0-9D]|4[0-9A-F]|6[1-9A-F]|[57][0-9A]|5[CEF]|7[BCE]|[89A-F].)>"
_NO_WORD = -1


class SegmentTerms(NamedTuple):
    """The terms that the translations of segments must hold."""

    tokens: tf.Tensor  # int32 [segments, count, length], padded with -1.
    words: tf.Tensor  # int32 [segments, count, 2]: the source's first and last word of each.
    word: tf.RaggedTensor  # int32 [segments, (tokens)]: the word of each piece, or -1.
    kept: tf.Tensor  # Boolean [segments, count]: the terms that are kept spans.

    def source(self, before: int, length: tf.Tensor) -> tf.Tensor:
        """The source positions of each term, boolean `[segments, count, length]`.

        The model reads `before` ids before the pieces.
        """
        word = self.word.to_tensor(_NO_WORD)
        after = length - before - tf.shape(word)[1]
        word = tf.pad(word, ((0, 0), (before, after)), constant_values=_NO_WORD)[:, None]
        first, last = tf.split(self.words, 2, axis=2)
        return (first <= word) & (word <= last) & (word >= 0)


def annotated(
    pieces: tf.RaggedTensor, terms: SegmentTerms, markers: tuple[int, int], limit: int
) -> tuple[tf.RaggedTensor, SegmentTerms]:
    """Segments whose words carry their terms behind them, between two markers, but for kept spans.

    A model that `reads_terms` was trained so: see `keras_mt.data.annotation.Annotator`. A segment
    that would have more than `limit` pieces stays as it is.
    """
    begin, end = (tf.fill(tf.shape(terms.tokens)[:2], marker)[..., None] for marker in markers)
    ids = tf.concat([begin, terms.tokens, end], axis=2)
    exists = tf.reduce_any(terms.tokens >= 0, axis=2, keepdims=True) & ~terms.kept[..., None]
    real = (ids >= 0) & exists  # [segments, count, 1 + length + 1]
    longer = pieces.row_lengths() + tf.math.count_nonzero(real, axis=(1, 2))
    real &= (longer <= limit)[:, None, None]
    word = tf.broadcast_to(terms.words[..., 1:], tf.shape(ids))
    segment = tf.concat([pieces.value_rowids(), tf.where(real)[:, 0]], 0)
    # A word's own pieces come first, and pieces of no word before all.
    words = tf.concat([terms.word.flat_values, word[real]], 0)
    ids = tf.concat([pieces.flat_values, tf.cast(ids[real], pieces.dtype)], 0)
    most = 2 + tf.cast(tf.reduce_max(tf.concat([words, [0]], 0)), tf.int64)
    order = tf.argsort(segment * most + tf.cast(words, tf.int64), stable=True)
    segment, words, ids = (tf.gather(x, order) for x in (segment, words, ids))
    pieces = tf.RaggedTensor.from_value_rowids(ids, segment, pieces.nrows())
    return pieces, terms._replace(word=pieces.with_values(words))


def placed(
    matches: Matches,
    sentences: tf.Tensor,
    pieces: tf.RaggedTensor,
    parts: tf.RaggedTensor,
    tokenizer: BaseTokenizer,
    limit: int,
) -> tuple[SegmentTerms, tf.Tensor]:
    """Places the matches of lines in the segments that their sentences are cut into.

    `pieces` are those of the sentences, ragged `[sentences, (tokens)]`, and `parts` the same, cut:
    `[segments, (tokens)]`. Returns also boolean `[matches]`, the refused ones: over the limit,
    alone or with others of their segment, without tokens, or not to be written by the tokenizer. A
    kept span is left out instead.
    """
    words = tf.strings.split(tf.strings.regex_replace(sentences, f"{SPACE}+", " "), " ")
    words = tf.ragged.boolean_mask(words, words.with_values(words.flat_values != ""))
    starts = tf.cumsum(tf.cast(tf.strings.length(words.flat_values), tf.int64), exclusive=True)
    owner, base = words.value_rowids(), words.row_starts()
    first, last = (
        tf.cast(tf.searchsorted(starts, place, "right"), tf.int64) - 1
        for place in (matches.first, matches.last)
    )
    sentence = tf.gather(owner, first)
    first, last = (x - tf.gather(base, sentence) for x in (first, last))
    # Pieces that begin a word count the words of their sentence.
    begins = tf.gather(tf.constant(tokenizer.begins_word), pieces.flat_values)
    begun = tf.cumsum(tf.cast(begins, tf.int64))
    begun = tf.concat([[0], begun], 0)
    before = tf.gather(begun, tf.gather(pieces.row_starts(), pieces.value_rowids()))
    word = tf.maximum(begun[1:] - before - 1, 0)
    many = tf.cast(tf.size(words.flat_values) + tf.size(word) + 1, tf.int64)
    place = tf.searchsorted(pieces.value_rowids() * many + word, sentence * many + first)
    place = tf.minimum(tf.cast(place, tf.int64), tf.gather(pieces.row_limits(), sentence) - 1)
    part = tf.concat([parts.value_rowids(), [0]], 0)
    part = tf.gather(part, tf.maximum(place, 0))

    text = tf.strings.join([matches.before, matches.target, matches.after])
    tokens = tokenizer.target_pieces(text)
    refused = _impossible(tokens, tokenizer, part, limit)
    fits = ~refused
    dense = tf.cast(tf.ragged.boolean_mask(tokens, fits).to_tensor(-1), tf.int32)
    rows = tf.boolean_mask(part, fits)
    spans = tf.cast(tf.boolean_mask(tf.stack([first, last], axis=1), fits), tf.int32)

    def grouped(values, default):
        return tf.RaggedTensor.from_value_rowids(values, rows, parts.nrows()).to_tensor(default)

    word = parts.with_values(tf.cast(word, tf.int32))
    kept = grouped(tf.boolean_mask(matches.kept, fits), False)
    terms = SegmentTerms(grouped(dense, -1), grouped(spans, -1), word, kept)
    return terms, refused & ~matches.kept


def _impossible(tokens, tokenizer, part, limit):
    """Which terms cannot be, boolean `[matches]`."""
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    forbidden = tf.constant(list(tokenizer.forbidden_ids) or [-1], tokens.dtype)
    unknown = tf.reduce_any(tokens.flat_values[:, None] == forbidden, axis=1)
    refused = tf.reduce_any(tokens.with_values(unknown), axis=1) | (lengths == 0)
    lengths = tf.where(refused | (lengths > limit), 0, lengths)
    refused |= tokens.row_lengths() > limit
    # Of a segment's terms, those that the ones before leave no room for.
    summed = tf.cumsum(lengths)
    first = tf.math.unsorted_segment_min(
        summed - lengths, part, tf.reduce_max(tf.concat([part, [0]], 0)) + 1
    )
    return refused | (summed - tf.gather(first, part) > limit)


def continues_word(tokenizer: BaseTokenizer) -> np.ndarray | None:
    """The target tokens that would lengthen the word before them, boolean `[target_vocab_size]`.

    None if the tokenizer does not mark where words begin.
    """
    pieces = tokenizer.id_to_string(tf.range(tokenizer.target_vocab_size))
    begins = tf.strings.regex_full_match(pieces, "(?s)▁.*")
    if not tf.reduce_any(begins):
        return None
    joining = tf.strings.regex_full_match(pieces, f"{_JOINING}|{_JOINING_BYTE}")
    return (joining & ~tf.strings.regex_full_match(pieces, f"(?s){ALONE}.*")).numpy()
