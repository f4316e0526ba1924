"""Texts to rows of pieces that a model can read, and the translations of rows back to texts."""

from typing import NamedTuple

import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.inference.confidence import CONFIDENCE_PARTS, joined_confidence_parts
from keras_mt.text import BaseTokenizer
from keras_mt.text.sentences import NO_END, SLOT, cut, split_lines, split_sentences

# What passes through untranslated: a line without a letter or digit.
_NO_WORD = rf"[^\pL\pN{NO_END}{SLOT}]*"


class Segments(NamedTuple):
    """The segments that texts are cut into for translation, in the order of the texts."""

    pieces: tf.RaggedTensor  # int32 [segments, (tokens)].
    row: tf.Tensor  # int32 [segments]: the index of the text that each belongs to.
    glue: tf.Tensor  # String [segments]: what stands before it and is not translated.
    ends: tf.Tensor  # String [texts]: the white space after a text's last segment.


class Segmenter:
    """Cuts texts into segments that a model can read; one that `reads_terms`, with these in them.

    In the text such a term stands behind its word, between U+0001 and U+0002.
    """

    def __init__(
        self,
        tokenizer: BaseTokenizer,
        max_length: int,
        split_sentences: bool,
        reads_terms: bool = False,
    ):
        self._tokenizer, self._split_sentences = tokenizer, split_sentences
        self._markers = tokenizer.term_markers if reads_terms else None
        nothing = tokenizer.pieces(tf.constant([""]))
        codes = [tf.constant([code]) for code in tokenizer.languages[:1]] * 2
        added = (tokenizer.source_ids(nothing, *codes), tokenizer.target_ids(nothing, *codes[1:]))
        added = [int(ids.row_lengths()[0]) for ids in added]
        self.source_limit, self.target_limit = (max_length - count for count in added)
        has_marks = tokenizer.language_tags(tf.constant([""])) is not None
        self._limit = self.source_limit - has_marks  # Of pieces without marks.
        self.forced = added[1] - 1  # All but the end.

    def segments(self, text: tf.Tensor, has_prefix: bool | tf.Tensor = False) -> Segments:
        """The segments of texts `[batch]`: lines, cut into sentences if asked for or too long.

        A line without a letter or digit goes into the glue, and leaves an empty segment; but not
        the first of a text whose translation begins with a prefix, which has no glue.
        """
        lines, line_glue, ends = split_lines(text, self._markers is not None)
        row = tf.cast(lines.value_rowids(), tf.int32)
        lines, line_glue = lines.flat_values, line_glue.flat_values
        has_prefix = tf.gather(tf.broadcast_to(has_prefix, tf.shape(text)), row) & _is_first(row)
        passed = tf.strings.regex_full_match(lines, _NO_WORD) & ~has_prefix
        line_glue = tf.where(has_prefix, "", line_glue) + tf.where(passed, lines, "")
        lines, terms = self._without_terms(tf.where(passed, "", lines))
        sentences, glue = split_sentences(lines, self._where_to_split(lines))
        line = tf.cast(sentences.value_rowids(), tf.int32)
        glue = tf.where(_is_first(line), tf.gather(line_glue, line), glue.flat_values)
        pieces = self._pieces(sentences.flat_values, terms)
        pieces, sentence = cut(pieces, tf.constant(self._tokenizer.begins_word), self._limit)
        glue = tf.where(_is_first(sentence), tf.gather(glue, sentence), " ")
        line = tf.gather(line, sentence)
        pieces = self._with_marks(pieces, line, lines, row)
        return Segments(pieces, tf.gather(row, line), glue, ends)

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
        parts = tf.strings.split(sentences, SLOT)  # A term comes before each but the first.
        sentence = parts.value_rowids()
        follows = ~_is_first(sentence)
        begin, end = (tf.fill((tf.size(terms) + 1, 1), marker) for marker in self._markers)
        written = tf.concat([begin, tokenizer.target_pieces(tf.concat([[""], terms], 0)), end], 1)
        written = _where(follows, tf.gather(written, tf.cumsum(tf.cast(follows, tf.int32))))
        pieces = tokenizer.pieces(parts.flat_values)
        lengths = written.row_lengths() + pieces.row_lengths()
        fits = tf.math.unsorted_segment_sum(lengths, sentence, parts.nrows()) <= self._limit
        pieces = tf.concat([_where(tf.gather(fits, sentence), written), pieces], axis=1)
        owner = tf.gather(sentence, pieces.value_rowids())
        return tf.RaggedTensor.from_value_rowids(pieces.flat_values, owner, parts.nrows())

    def prefixes(self, prefix: tf.Tensor, segments: Segments) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Pieces of each segment's prefix; and boolean `[batch]`, which texts cannot have theirs.

        Where both it and the text have several segments, which belong together is unknown.
        """
        lines = split_lines(prefix)[0]
        parts = lines.row_lengths()
        if self._split_sentences:
            counts = split_sentences(lines.flat_values)[0].row_lengths()
            parts = tf.reduce_sum(lines.with_values(counts), axis=1)
        several = (parts > 1) & (tf.math.bincount(segments.row, minlength=tf.size(parts)) > 1)
        pieces = self._tokenizer.target_pieces(prefix)
        refused = several | (pieces.row_lengths() > self.target_limit)
        wanted = _is_first(segments.row) & ~tf.gather(refused, segments.row)
        return _where(wanted, tf.gather(pieces, segments.row)), refused

    def pairs(
        self, text: tf.Tensor, target: tf.Tensor, wanted: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Pieces of both sides of `wanted` pairs: by lines, if both sides have as many of them.

        Likewise the sentences of a line, where these would be translated one by one. Returns the
        pieces ragged, `[pairs, (tokens)]`; the row of each, int32 `[pairs]`; and boolean `[batch]`,
        the wanted rows with a side over the limit, which have no pairs.
        """
        sides = split_lines(text, self._markers is not None)[0], split_lines(target)[0]
        apart = sides[0].row_lengths() == sides[1].row_lengths()
        source, target = (_lines_or_whole(lines, apart) for lines in sides)
        row = tf.cast(source.value_rowids(), tf.int32)
        lines, terms = self._without_terms(source.flat_values)
        target, where = target.flat_values, self._where_to_split(lines)
        counts = [split_sentences(side, where)[0].row_lengths() for side in (lines, target)]
        where &= counts[0] == counts[1]
        source, target = (split_sentences(side, where)[0] for side in (lines, target))
        line = tf.cast(source.value_rowids(), tf.int32)
        source = self._with_marks(self._pieces(source.flat_values, terms), line, lines, row)
        target = self._tokenizer.target_pieces(target.flat_values)
        row = tf.gather(row, line)
        too_long = source.row_lengths() > self.source_limit
        too_long |= target.row_lengths() > self.target_limit
        refused = tf.math.unsorted_segment_max(tf.cast(too_long, tf.int32), row, tf.shape(text)[0])
        refused = (refused > 0) & wanted
        wanted = tf.gather(wanted & ~refused, row)
        source, target = (tf.ragged.boolean_mask(side, wanted) for side in (source, target))
        return source, target, row[wanted], refused

    def _with_marks(self, pieces, line, lines, row):
        """Segments of lines, each with its line's mark, else that of its text's first line."""
        marks = self._tokenizer.language_tags(lines)
        if marks is None:
            return pieces
        marked = marks.row_lengths() > 0
        first = tf.gather(tf.where(_is_first(row))[:, 0], row)
        marks = tf.concat([marks, _where(~marked, tf.gather(marks, first))], axis=1)
        # The first segment of a line may already have its mark.
        missing = ~(_is_first(line) & tf.gather(marked, line)) & (tf.gather(lines, line) != "")
        return tf.concat([_where(missing, tf.gather(marks, line)), pieces], axis=1)


def joined(
    outputs: dict[str, tf.Tensor], segments: Segments, length_penalty: float
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Joins the translations of segments into those of texts: all first ones, all second ones, ...

    Returns also the translations that each is joined from, string `[segments, n_best]`.
    """
    n_best, row, batch = outputs["scores"].shape[1], segments.row, tf.size(segments.ends)
    places = tf.range(n_best)[None]
    counts = tf.math.count_nonzero(outputs["scores"] > NO_HYPOTHESIS, axis=1, dtype=tf.int32)
    # A segment with fewer hypotheses than others of its text repeats its last one.
    place = tf.minimum(places, tf.maximum(counts - 1, 0)[:, None])
    parts = {name: tf.gather(tensor, place, batch_dims=1) for name, tensor in outputs.items()}
    number = tf.math.unsorted_segment_max(counts, row, batch)
    # If a segment has none, its text has none.
    number = tf.where(tf.math.unsorted_segment_min(counts, row, batch) > 0, number, 0)
    exists = places < number[:, None]
    glued = segments.glue[:, None] + parts["translations"]
    translations = tf.strings.unsorted_segment_join(glued, row, batch) + segments.ends[:, None]

    def summed(tensor):
        return tf.math.unsorted_segment_sum(tensor, row, batch)

    lengths = tf.cast(parts["lengths"], tf.float32)
    log_probs = summed(parts["scores"] * lengths**length_penalty)
    scores = log_probs / tf.maximum(summed(lengths), 1.0) ** length_penalty
    outputs = {
        "translations": tf.where(exists, translations, ""),
        "scores": tf.where(exists, scores, NO_HYPOTHESIS),
    }
    if "tokens" in parts:
        outputs["lengths"] = summed(parts["lengths"])
        for name in ("tokens", "log_probs"):
            outputs[name] = _concatenated(parts[name], parts["lengths"], row, batch)
    if CONFIDENCE_PARTS.keys() <= parts.keys():
        outputs |= joined_confidence_parts(parts, row, batch)
    # Second-best translations may sum to the better score, since long segments weigh more.
    order = tf.argsort(outputs["scores"], direction="DESCENDING", stable=True)
    outputs = {name: tf.gather(tensor, order, batch_dims=1) for name, tensor in outputs.items()}
    return outputs, tf.gather(parts["translations"], tf.gather(order, row), batch_dims=1)


def _concatenated(values, lengths, row, batch):
    """Values `[segments, n_best, length]`, concatenated for each text and padded with zeros."""
    n_best = values.shape[1]
    real = tf.sequence_mask(lengths, tf.shape(values)[2])  # [segments, n_best, length]
    by_place = tf.transpose(real, (1, 0, 2))
    place, segment, _ = tf.unstack(tf.where(by_place), axis=1)
    rows = place * tf.cast(batch, tf.int64) + tf.gather(tf.cast(row, tf.int64), segment)
    flat = tf.boolean_mask(tf.transpose(values, (1, 0, 2)), by_place)
    rows = tf.RaggedTensor.from_value_rowids(flat, rows, n_best * tf.cast(batch, tf.int64))
    rows = rows.to_tensor()
    return tf.transpose(tf.reshape(rows, (n_best, batch, tf.shape(rows)[1])), (1, 0, 2))


def _where(wanted, ragged):
    """Ragged rows, of which those that are not wanted are empty."""
    wanted = tf.repeat(wanted, ragged.row_lengths())
    return tf.ragged.boolean_mask(ragged, ragged.with_values(wanted))


def _lines_or_whole(lines, apart):
    """Ragged lines `[batch, (lines)]`, but joined to one where they are not `apart`."""
    row = lines.value_rowids()
    glue = tf.where(_is_first(row), "", tf.where(tf.gather(apart, row), "\n", " "))
    joined_lines = tf.strings.unsorted_segment_join(glue + lines.flat_values, row, lines.nrows())
    return tf.strings.split(joined_lines, "\n")


def _is_first(numbers):
    # [n]: whether each of the sorted numbers differs from the one before
    return tf.not_equal(numbers, tf.concat([[-1], numbers[:-1]], 0))
