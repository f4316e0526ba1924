"""Cuts texts of any length into segments that a model can translate, inside the graph."""

import tensorflow as tf

from keras_mt.text import patterns
from keras_mt.text.base_tokenizer import rewritten, valid


def split_lines(
    text: tf.Tensor, with_terms: bool = False
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Cuts texts at line ends; a blank text has one empty line.

    `GUARD` before white space, or behind `。`, `！` or `？`, becomes `NO_END`; if the lines are
    `with_terms`, `TERM` and `TERM_END` around one become `SLOT`; all other control characters
    become spaces. Returns ragged strings `[batch, (lines)]`, the lines, and the white space before
    each; and that after the last line of each text, `[batch]`.
    """
    terms = [patterns.TERMS] if with_terms else []
    text = rewritten(valid(text), patterns.TEXT, *terms, *patterns.GUARDS)
    trailing = rewritten(text, patterns.TRAILING)
    lines = tf.strings.split(rewritten(text, *patterns.LINES), patterns.CUT)
    lines, separators = _without_separators(lines)
    return tf.ragged.map_flat_values(rewritten, lines, patterns.LINE), separators, trailing


def split_sentences(
    lines: tf.Tensor, where: bool | tf.Tensor = True
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Cuts lines after sentences, where `where` is true.

    A sentence ends at `.`, `!`, `?` or `…` before white space and a letter that is no lower-case
    one, but not after an abbreviation (`U.S.`, `3.`, `Dr.`), and at `。`, `！` or `？`; never
    before `NO_END`, which goes. A `SLOT` may follow what ends a sentence. Returns ragged strings
    `[lines, (sentences)]`, and the white space before each.
    """
    marked = tf.where(where, rewritten(lines, *patterns.SENTENCES), lines)
    marked = rewritten(marked, patterns.MAY_END)
    return _without_separators(tf.strings.split(marked, patterns.CUT))


def _without_separators(segments):
    """Segments without the white space that they begin with, and that white space."""
    separators = tf.ragged.map_flat_values(rewritten, segments, patterns.SEPARATOR)
    return tf.ragged.map_flat_values(rewritten, segments, patterns.SEGMENT), separators


def cut(ids: tf.RaggedTensor, begins: tf.Tensor, limit: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Cuts rows of ids longer than the limit, if possible before a piece that `begins` a word.

    Returns the parts, of which every row has at least one, and the row of each part.
    """
    row, lengths = tf.cast(ids.value_rowids(), tf.int32), tf.cast(ids.row_lengths(), tf.int32)
    place = tf.ragged.range(lengths).flat_values
    starts = tf.gather(begins, ids.flat_values) | (place == 0)
    word = tf.gather(place[starts], tf.cumsum(tf.cast(starts, tf.int32)) - 1)
    # A word longer than half the limit is cut too. Units that begin in the same half-limit window
    # go into one part, which thus stays within the limit.
    half = max(1, limit // 2)
    part = (word + (place - word) // half * half) // half
    part = tf.where(tf.gather(lengths, row) > limit, part, 0)
    # The parts of a row follow each other without a gap, so that the last one says how many.
    counts = 1 + tf.maximum(tf.math.unsorted_segment_max(part, row, tf.size(lengths)), 0)
    part += tf.gather(tf.cumsum(counts, exclusive=True), row)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(part, tf.int64), part, tf.reduce_sum(counts))
    parts = tf.RaggedTensor.from_row_lengths(ids.flat_values, sizes, validate=False)
    return parts, tf.searchsorted(tf.cumsum(counts), tf.range(tf.size(sizes)), side="right")
