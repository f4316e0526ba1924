"""Texts to rows of pieces that a model can read, and the translations of rows back to texts."""

from typing import NamedTuple

import tensorflow as tf

from keras_mt.options.search import NO_HYPOTHESIS
from keras_mt.text import BaseTokenizer
from keras_mt.text.patterns import NO_WORD
from keras_mt.text.ragged import ragged_rows
from keras_mt.text.sentences import cut, split_lines, split_sentences
from keras_mt.text.spans import SLOT


class Segments(NamedTuple):
    """The segments that texts are cut into for translation, in the order of the texts."""

    pieces: tf.RaggedTensor  # int32 [segments, (tokens)].
    text_index: tf.Tensor  # int32 [segments]: the text that each belongs to.
    before: tf.Tensor  # String [segments]: what stands before it and is not translated.
    ends: tf.Tensor  # String [texts]: the white space after a text's last segment.


class Pairs(NamedTuple):
    """Segments and their translations, each pair of one row of texts."""

    source: tf.RaggedTensor  # int32 [pairs, (tokens)], pieces.
    target: tf.RaggedTensor  # Likewise.
    text_index: tf.Tensor  # int32 [pairs].


class Segmenter:
    """Cuts texts into segments that a model can read, with their terms if it `reads_terms`."""

    def __init__(
        self,
        tokenizer: BaseTokenizer,
        max_length: int,
        split_sentences: bool,
        reads_terms: bool = False,
    ):
        self._tokenizer, self._split_sentences = tokenizer, split_sentences
        self._markers = tokenizer.term_markers if reads_terms else None
        added = tokenizer.special_counts()
        self.source_limit, self.target_limit = (max_length - count for count in added)
        has_marks = tokenizer.language_tags(tf.constant([""])) is not None
        self._limit = self.source_limit - has_marks  # Of pieces without marks.
        self.forced = added[1] - 1  # All but the end.

    def segments(self, text: tf.Tensor, has_prefix: bool | tf.Tensor = False) -> Segments:
        """The segments of texts `[batch]`: lines, cut into sentences if asked for or too long.

        A line without a letter or digit is not translated, and leaves an empty segment; but the
        first of a text whose translation begins with a prefix is, and nothing stands before it.
        """
        lines, before, ends = split_lines(text, self._markers is not None)
        text_index = _row_of(lines)
        lines, before = lines.flat_values, before.flat_values
        has_prefix = tf.broadcast_to(has_prefix, tf.shape(text))
        begun = is_first(text_index) & tf.gather(has_prefix, text_index)
        passes = tf.strings.regex_full_match(lines, NO_WORD) & ~begun
        before = tf.where(begun, "", before) + tf.where(passes, lines, "")
        lines, terms = self._without_terms(tf.where(passes, "", lines))

        sentences, before_sentence = split_sentences(lines, self._where_to_split(lines))
        line = _row_of(sentences)
        before = tf.where(is_first(line), tf.gather(before, line), before_sentence.flat_values)

        pieces = self._pieces(sentences.flat_values, terms)
        pieces, sentence = cut(pieces, tf.constant(self._tokenizer.begins_word), self._limit)
        line = tf.gather(line, sentence)
        before = tf.where(is_first(sentence), tf.gather(before, sentence), " ")
        pieces = self._with_marks(pieces, line, lines, text_index)
        return Segments(pieces, tf.gather(text_index, line), before, ends)

    def prefixes(self, prefix: tf.Tensor, segments: Segments) -> tuple[tf.RaggedTensor, ...]:
        """Pieces of each segment's prefix; and, boolean `[batch]`, two reasons not to have one.

        It is too long; or it has several parts and the text too: which go together is unknown.
        """
        text_index, lines = segments.text_index, split_lines(prefix)[0]
        parts = lines.row_lengths()
        if self._split_sentences:
            counts = split_sentences(lines.flat_values)[0].row_lengths()
            parts = tf.reduce_sum(lines.with_values(counts), axis=1)
        several = (parts > 1) & (tf.math.bincount(text_index, minlength=tf.size(parts)) > 1)
        pieces = self._tokenizer.target_pieces(prefix)
        too_long = pieces.row_lengths() > self.target_limit
        unwanted = ~is_first(text_index) | tf.gather(too_long | several, text_index)
        return blank_rows(tf.gather(pieces, text_index), unwanted), too_long, several

    def pairs(
        self, text: tf.Tensor, target: tf.Tensor, wanted: tf.Tensor
    ) -> tuple[Pairs, tf.Tensor]:
        """The `wanted` rows as pairs of lines, where both sides have as many, else as wholes.

        Likewise the sentences of a line, where these would be translated one by one. Returns also,
        boolean `[batch]`, the wanted rows with a side over the limit, which have no pairs.
        """
        sides = split_lines(text, self._markers is not None)[0], split_lines(target)[0]
        alike = sides[0].row_lengths() == sides[1].row_lengths()
        source, target = (_lines_or_whole(lines, alike) for lines in sides)
        text_index = _row_of(source)
        lines, terms = self._without_terms(source.flat_values)
        target, where = target.flat_values, self._where_to_split(lines)
        counts = [split_sentences(side, where)[0].row_lengths() for side in (lines, target)]
        where &= counts[0] == counts[1]
        source, target = (split_sentences(side, where)[0] for side in (lines, target))
        line = _row_of(source)
        source = self._with_marks(self._pieces(source.flat_values, terms), line, lines, text_index)
        target = self._tokenizer.target_pieces(target.flat_values)
        text_index = tf.gather(text_index, line)

        too_long = source.row_lengths() > self.source_limit
        too_long |= target.row_lengths() > self.target_limit
        too_long = any_of_text(too_long, text_index, tf.shape(text)[0]) & wanted
        wanted = tf.gather(wanted & ~too_long, text_index)
        source, target = (tf.gather(side, tf.where(wanted)[:, 0]) for side in (source, target))
        return Pairs(source, target, text_index[wanted]), too_long

    def _where_to_split(self, lines):
        if self._split_sentences:
            return True
        return self._tokenizer.pieces(lines).row_lengths() > self.source_limit

    def _without_terms(self, lines):
        """Lines `[n]` with one `SLOT` in the place of each term, and all terms in order."""
        if self._markers is None:
            return lines, None
        parts = tf.strings.split(lines, SLOT)  # Every second one is a term.
        is_term = tf.ragged.range(parts.row_lengths()).flat_values % 2 == 1
        others = parts.with_values(tf.where(is_term, SLOT, parts.flat_values))
        return tf.strings.reduce_join(others, axis=1), parts.flat_values[is_term]

    def _pieces(self, sentences, terms):
        """The pieces of sentences, with their terms between two markers behind their words.

        A model that `reads_terms` was trained so: see `keras_mt.data.annotation.Annotator`. A
        sentence that would be over the limit with its terms is without them.
        """
        tokenizer = self._tokenizer
        if terms is None:
            return tokenizer.pieces(sentences)
        parts = tf.strings.split(sentences, SLOT)
        pieces, sentence = tokenizer.pieces(parts.flat_values), parts.value_rowids()
        # Before each part of a sentence but the first comes a term, the next of all.
        has_term = ~is_first(sentence)
        number = tf.cumsum(tf.cast(has_term, tf.int32))
        terms = tokenizer.target_pieces(tf.concat([[""], terms], axis=0))
        begin, end = (tf.fill((terms.nrows(), 1), marker) for marker in self._markers)
        marked = tf.gather(tf.concat([begin, terms, end], axis=1), number)
        marked = blank_rows(marked, ~has_term)
        lengths = marked.row_lengths() + pieces.row_lengths()
        lengths = tf.math.unsorted_segment_sum(lengths, sentence, parts.nrows())
        marked = blank_rows(marked, tf.gather(lengths > self._limit, sentence))
        return group_by_text(tf.concat([marked, pieces], axis=1), sentence, parts.nrows())

    def _with_marks(self, pieces, line, lines, text_index):
        """Segments of lines, each with its line's mark, else that of its text's first line."""
        marks = self._tokenizer.language_tags(lines)
        if marks is None:
            return pieces
        is_marked = marks.row_lengths() > 0
        first = tf.gather(tf.where(is_first(text_index))[:, 0], text_index)
        inherited = blank_rows(tf.gather(marks, first), is_marked)
        marks = tf.concat([marks, inherited], axis=1)
        # The first segment of a line may already have its mark.
        has_mark = is_first(line) & tf.gather(is_marked, line)
        has_none = has_mark | (tf.gather(lines, line) == "")
        return tf.concat([blank_rows(tf.gather(marks, line), has_none), pieces], axis=1)


def joined(
    found: dict[str, tf.Tensor], segments: Segments, length_penalty: float
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Joins the hypotheses of segments into those of texts: all first ones, all second ones, ...

    `found` has `translations`, `scores` and `lengths` `[segments, n_best]`. Further columns are
    concatenated if they are `[segments, n_best, length]`; else true for a text if they are for one
    of its segments. Returns the same of texts `[batch, n_best]`, best first; and the translations
    that these are joined from, `[segments, n_best]`.
    """
    n_best, text_index = found["scores"].shape[1], segments.text_index
    batch = tf.size(segments.ends)
    counts = tf.math.count_nonzero(found["scores"] > NO_HYPOTHESIS, axis=1, dtype=tf.int32)
    # A segment with fewer hypotheses than others of its text repeats its last one.
    place = tf.minimum(tf.range(n_best), tf.maximum(counts - 1, 0)[:, None])
    found = {name: tf.gather(column, place, batch_dims=1) for name, column in found.items()}
    # A text has as many as the segment that has most, but none if a segment has none.
    number = tf.math.unsorted_segment_max(counts, text_index, batch)
    number = tf.where(tf.math.unsorted_segment_min(counts, text_index, batch) > 0, number, 0)
    exists = tf.range(n_best) < number[:, None]

    parts = found.pop("translations")
    texts = tf.strings.unsorted_segment_join(segments.before[:, None] + parts, text_index, batch)
    lengths = tf.cast(found["lengths"], tf.float32)
    log_probs, total_lengths = (
        tf.math.unsorted_segment_sum(column, text_index, batch)
        for column in (found.pop("scores") * lengths**length_penalty, lengths)
    )
    scores = log_probs / tf.maximum(total_lengths, 1.0) ** length_penalty
    outputs = {
        "translations": tf.where(exists, texts + segments.ends[:, None], ""),
        "scores": tf.where(exists, scores, NO_HYPOTHESIS),
        "lengths": tf.cast(total_lengths, tf.int32),
    }
    lengths = found.pop("lengths")
    own = {name: column for name, column in found.items() if column.shape.rank == 3}
    if own:
        outputs |= _concatenated(own, lengths, text_index, batch)
    for name in [name for name in found if name not in own]:
        outputs[name] = any_of_text(found[name], text_index, batch) & exists
    # Second-best translations may sum to the better score, since long segments weigh more.
    order = tf.argsort(outputs["scores"], direction="DESCENDING", stable=True)
    outputs = {name: tf.gather(column, order, batch_dims=1) for name, column in outputs.items()}
    return outputs, tf.gather(parts, tf.gather(order, text_index), batch_dims=1)


def _concatenated(columns, lengths, text_index, batch):
    """Columns `[segments, n_best, length]`, concatenated for each text and padded."""
    segments, n_best, length = tf.unstack(tf.shape(next(iter(columns.values()))))
    # The place of each value in a column, from 1 on: 0 is the padding's.
    places = tf.reshape(1 + tf.range(segments * n_best * length), (segments * n_best, length))
    ragged = ragged_rows(places, tf.reshape(lengths, (-1,)))
    # The hypotheses of a text are rows one after another; of each all segments go together.
    hypothesis = tf.reshape(text_index[:, None] * n_best + tf.range(n_best), (-1,))
    order = tf.argsort(hypothesis, stable=True)
    ragged, hypothesis = tf.gather(ragged, order), tf.gather(hypothesis, order)
    places = group_by_text(ragged, hypothesis, batch * n_best).to_tensor()
    places = tf.reshape(places, (batch, n_best, tf.shape(places)[1]))
    padded = {name: tf.pad(tf.reshape(x, (-1,)), ((1, 0),)) for name, x in columns.items()}
    return {name: tf.gather(column, places) for name, column in padded.items()}


def any_of_text(column: tf.Tensor, text_index: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """True for a text if a boolean column `[segments, ...]` is, for one of its segments."""
    return tf.math.unsorted_segment_max(tf.cast(column, tf.int32), text_index, batch) > 0


def group_by_text(
    ragged: tf.RaggedTensor, text_index: tf.Tensor, batch: tf.Tensor
) -> tf.RaggedTensor:
    """Ragged `[batch, (tokens)]` from that of segments; `text_index` says the texts, ascending."""
    lengths = tf.math.unsorted_segment_sum(ragged.row_lengths(), text_index, batch)
    return tf.RaggedTensor.from_row_lengths(ragged.flat_values, lengths, validate=False)


def blank_rows(ragged: tf.RaggedTensor, which: tf.Tensor) -> tf.RaggedTensor:
    """Ragged rows, of which some are made empty."""
    splits, rows = ragged.row_splits, tf.size(which)
    splits = tf.concat([splits, splits[-1:]], axis=0)
    and_empty = tf.RaggedTensor.from_row_splits(ragged.flat_values, splits, validate=False)
    return tf.gather(and_empty, tf.where(which, rows, tf.range(rows)))


def is_first(numbers: tf.Tensor) -> tf.Tensor:
    """True for each of the sorted numbers `[n]` that differs from the one before."""
    return tf.not_equal(numbers, tf.concat([[-1], numbers[:-1]], 0))


def _row_of(ragged):
    """The row of each value, int32."""
    return tf.cast(ragged.value_rowids(), tf.int32)


def _lines_or_whole(lines, alike):
    """Ragged lines `[batch, (lines)]`, joined to one where the sides are not `alike`."""
    rows = lines.value_rowids()
    separators = tf.where(tf.gather(alike, rows), "\n", " ")
    parts = tf.where(is_first(rows), "", separators) + lines.flat_values
    return tf.strings.split(tf.strings.unsorted_segment_join(parts, rows, lines.nrows()), "\n")
