"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS, SearchOptions
from keras_mt.inference.confidence import (
    CONFIDENCE_PARTS,
    confidence_of,
    confidence_parts,
    joined_confidence_parts,
)
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.scores import token_attention, token_log_probs
from keras_mt.inference.search import Rows, Searcher, in_batches, padded
from keras_mt.options import MAX_LENGTH_PENALTY, MAX_LINE_BYTES
from keras_mt.text import BaseTokenizer
from keras_mt.text.sentences import cut, split_text

# What passes through untranslated: a line without a letter or digit.
_NO_WORD = r"[^\pL\pN]*"


class _Segments(NamedTuple):
    """The segments that texts are cut into for translation, in the order of the texts."""

    pieces: tf.RaggedTensor  # [segments, (tokens)]
    row: tf.Tensor  # [segments]: the index of the text that each belongs to
    glue: tf.Tensor  # [segments]: the string before it, which is not translated
    ends: tf.Tensor  # [texts]: the white space after a text's last segment


class TranslationGraph:
    """Functions of string tensors, to be traced by `tf.function`: `translate`, `score`, `align`.

    Args:
        predictor: The `Predictor`.
        tokenizer: Its `BaseTokenizer`.
        options: `SearchOptions`.
        max_length: The most tokens to generate, or None.
        split_sentences: Whether to translate each sentence of a line by itself.
        languages: The default codes of the source's and the target's language.
        pair: The codes of the only languages that it may translate between; None for all.
        max_line_bytes: The maximum number of bytes of a source's line; a row with a longer one is
            refused.

    If the tokenizer has languages, each function takes the rows' `languages`: a tuple of two string
    tensors `[batch]`, the codes of the source's and of the target's language, "" for the default. A
    row whose code is missing or unknown is refused.

    Attributes:
        limit: The model's maximum length, in tokens, special ones included.
        source_limit: The most pieces of a source, without special tokens.
        target_limit: The most pieces of a target, without special tokens.
    """

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: BaseTokenizer,
        options: SearchOptions,
        max_length: int | None,
        split_sentences: bool,
        languages: tuple[str | None, str | None] = (None, None),
        pair: Sequence[str] | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ):
        self.predictor = predictor
        self._searcher = Searcher(predictor, tokenizer, options, max_length)
        self.tokenizer = tokenizer
        self.options = options
        self.split_sentences = split_sentences
        self.max_line_bytes = max_line_bytes
        self.limit = predictor.max_length
        # The codes that a row may have on each side.
        self._codes = [list(tokenizer.languages)] * 2 if pair is None else [[c] for c in pair]
        self._defaults = [code or "" for code in languages]
        nothing = tokenizer.pieces(tf.constant([""]))
        some = [tf.constant([code]) for code in tokenizer.languages[:1]] * 2
        added = [
            int(ids.row_lengths()[0])
            for ids in (
                tokenizer.source_ids(nothing, *some),
                tokenizer.target_ids(nothing, *some[1:]),
            )
        ]
        self.source_limit, self.target_limit = (self.limit - more for more in added)
        self._forced = added[1] - 1  # All but the end.

    @functools.cached_property
    def aligns(self) -> bool:
        """Whether any of the models has attention weights to align by."""
        tokens = tf.fill((1, 2), self.tokenizer.eos_id)
        return self.predictor.attention(tokens, tokens) is not None

    def translate(
        self,
        text: tf.Tensor,
        prefix: tf.Tensor | None = None,
        row_options: dict[str, tf.Tensor] | None = None,
        token_scores: bool = False,
        confidence: bool = False,
        languages: tuple[tf.Tensor, ...] = (),
    ) -> dict[str, tf.Tensor]:
        """Translates texts.

        Args:
            text: String `[batch]`.
            prefix: String `[batch]`, what each translation begins with, or None. A row is refused
                whose text and prefix both have several segments: which belong together is unknown.
            row_options: None, or options of each row, tensors `[batch]`: `beam_size` and `n_best`,
                at most the translator's; `length_penalty`; and `max_length`, 0 for the
                translator's. A row with an invalid option is refused.
            token_scores: Whether to return `tokens` and `log_probs`.
            confidence: Whether to return a confidence.
            languages: The rows' languages: see the class.

        Returns:
            A dict of `translations` and `scores`, `[batch, n_best]`, and `refused`, boolean
            `[batch]`. With `token_scores` also `tokens` and `log_probs` `[batch, n_best, length]`,
            padded, and `lengths` `[batch, n_best]`. With `confidence` also, `[batch, n_best]` each:
            `mean_log_probs` of the tokens with the end; `worst_log_probs`, the least of them, and
            `worst_tokens`, its token; and the booleans `loops` (a sequence of tokens repeats over
            and over, and none in the source does) and `disproportionate` (source and translation
            differ too much in length).
        """
        text, languages, refused = self._admitted(text, languages)
        if row_options is not None:
            valid = self._are_valid(**row_options)
            refused |= ~valid
            row_options = {n: tf.where(valid, x, tf.ones_like(x)) for n, x in row_options.items()}
        begun = False if prefix is None else tf.strings.length(tf.strings.strip(prefix)) > 0
        segments = self._segments(text, begun)
        columns = {"languages": _of_rows(languages, segments.row)}
        if row_options is not None:
            columns["row_options"] = {n: tf.gather(x, segments.row) for n, x in row_options.items()}
        if prefix is not None:
            columns["prefix"], not_possible = self._prefixes(prefix, segments, tf.shape(text)[0])
            refused |= not_possible
        columns["refused"] = tf.gather(refused, segments.row)
        found = self._translate_segments(segments.pieces, columns, token_scores, confidence)
        penalty = float(self.options.length_penalty)
        if row_options is not None:
            penalty = row_options["length_penalty"][:, None]
        found = _joined(found, segments, tf.shape(text)[0], penalty)
        if confidence:
            parts = {name: found.pop(name) for name in CONFIDENCE_PARTS}
            found |= confidence_of(parts, found["scores"], self.tokenizer)
        return {**found, "refused": refused}

    def _are_valid(self, beam_size, n_best, length_penalty, max_length):
        """Which rows have options that the graph can search with, boolean `[batch]`."""
        limits = [
            (beam_size, 1, self.options.beams),
            (n_best, 1, tf.minimum(beam_size, self.options.n_best)),
            (length_penalty, 0, MAX_LENGTH_PENALTY),
            (max_length, 0, self.limit),
        ]
        valid = [(low <= option) & (option <= high) for option, low, high in limits]
        return tf.reduce_all(tf.stack(valid), axis=0)

    def _prefixes(self, prefix, segments, batch):
        """The prefix of each segment, `Rows`; and the texts that cannot have theirs, `[batch]`."""
        parts = split_text(prefix, self.split_sentences)[0].row_lengths()
        count = tf.math.unsorted_segment_sum(tf.ones_like(segments.row), segments.row, batch)
        pieces = self.tokenizer.target_pieces(prefix)
        refused = ((parts > 1) & (count > 1)) | (pieces.row_lengths() > self.target_limit)
        # Only the first segment of a text gets its prefix.
        longest = tf.where(_is_first(segments.row), self.target_limit, 0)
        pieces = tf.gather(pieces, segments.row)
        lengths = tf.minimum(tf.cast(pieces.row_lengths(), tf.int32), longest)
        return Rows(pieces.to_tensor(), lengths), refused

    def score(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """Scores given translations: the log-probabilities of their tokens.

        If both sides have the same number of lines, each line is scored separately.

        Returns:
            A dict of the targets' `tokens` and their `log_probs`, `[batch, length]`, padded; their
            `lengths` `[batch]`; and `refused`, boolean `[batch]`, for rows with a side over the
            limit or a missing or unknown language. A refused row has no tokens.
        """
        text, languages, refused = self._admitted(text, languages)
        source, target, row, refused = self._given(text, target, refused)
        languages = _of_rows(languages, row)
        batch = tf.shape(text)[0]
        tokens = self.tokenizer.target_ids(target, *languages[1:])
        source = self._padded(self.tokenizer.source_ids(source, *languages))
        target = self._padded(tokens)
        log_probs = token_log_probs(self.predictor, source, target, self.tokenizer.bos_id)
        tokens = tokens[:, self._forced :]
        log_probs = tf.RaggedTensor.from_tensor(log_probs[:, self._forced :], tokens.row_lengths())
        row_of_token = tf.gather(row, tokens.value_rowids())
        rows = [
            tf.RaggedTensor.from_value_rowids(x.flat_values, row_of_token, batch)
            for x in (tokens, log_probs)
        ]
        return {
            "tokens": rows[0].to_tensor(self.tokenizer.padding_id),
            "log_probs": rows[1].to_tensor(),
            "lengths": tf.cast(rows[0].row_lengths(), tf.int32),
            "refused": refused,
        }

    def align(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """Aligns targets with their sources: the attention of each row's target over its source.

        Where the target is empty, the text's own translation is aligned, and the text is cut into
        segments as by `translate`. Each segment attends only to its own source. The outputs are
        padded with empty strings and zeros to the longest row's lengths; the lengths of a refused
        row are 0.

        Returns:
            A dict of `translations` and `refused`, `[batch]`; `attention`, float32
            `[batch, target_tokens, source_tokens]`; and, for each side, `source_tokens` and
            `target_tokens`, strings `[batch, tokens]`, and `source_lengths` and `target_lengths`,
            int32 `[batch]`.
        """
        tokenizer, batch = self.tokenizer, tf.shape(text)[0]
        text, languages, refused = self._admitted(text, languages)
        to_translate = (tf.strings.length(target) == 0) & ~refused
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        segments = self._segments(text)
        # Rows whose target is given need no translation.
        segments = _where(segments, tf.gather(to_translate, segments.row))
        columns = {
            "refused": tf.zeros_like(segments.row, tf.bool),
            "languages": _of_rows(languages, segments.row),
        }
        found = self._translate_segments(segments.pieces, columns)
        joined = _joined(found, segments, batch, float(self.options.length_penalty))
        place = tf.gather(joined["place"][:, :1], segments.row)
        written = tf.gather(found["translations"], place, batch_dims=1)[:, 0]
        translated = tokenizer.target_pieces(written)
        source, given, row, refused = self._given(text, target, refused)
        refused &= ~to_translate
        kept = tf.gather(~to_translate, row)
        source, given, row = (
            tf.ragged.boolean_mask(x, kept) if isinstance(x, tf.RaggedTensor) else x[kept]
            for x in (source, given, row)
        )
        row = tf.concat([segments.row, row], axis=0)
        order = tf.argsort(row, stable=True)
        row = tf.gather(row, order)
        source = tf.gather(tf.concat([segments.pieces, source], axis=0), order)
        pieces = tf.gather(tf.concat([translated, given], axis=0), order)[:, : self.target_limit]
        languages = _of_rows(languages, row)
        source = tokenizer.source_ids(source, *languages)
        ids = tokenizer.target_ids(pieces, *languages[1:])
        attention = token_attention(
            self.predictor, self._padded(source), self._padded(ids), tokenizer.bos_id
        )[:, self._forced :]
        ids = ids[:, self._forced :]
        outputs = {
            "translations": tf.where(
                refused, "", tf.where(to_translate, joined["translations"][:, 0], target)
            ),
            "attention": _block_diagonal(attention, ids, source, row, batch),
            "refused": refused,
        }
        for side, tokens, id_to_string in (
            ("source", source, tokenizer.source_id_to_string),
            ("target", ids, tokenizer.id_to_string),
        ):
            row_of_token = tf.gather(row, tokens.value_rowids())
            pieces = id_to_string(tokens.flat_values)
            pieces = tf.RaggedTensor.from_value_rowids(pieces, row_of_token, batch)
            outputs[f"{side}_tokens"] = pieces.to_tensor("")
            outputs[f"{side}_lengths"] = tf.cast(pieces.row_lengths(), tf.int32)
        return outputs

    def _admitted(self, text, languages):
        """Which rows are refused, for a line that is too long or for a language.

        Returns:
            The texts, refused ones empty; the languages, unknown ones replaced; and boolean
            `[batch]`.
        """
        lengths = tf.ragged.map_flat_values(tf.strings.length, tf.strings.split(text, "\n"))
        refused = tf.reduce_max(lengths, axis=1) > self.max_line_bytes
        if languages:
            filled = [
                tf.where(given == "", default, given)
                for given, default in zip(languages, self._defaults, strict=True)
            ]
            known = [
                tf.reduce_any(given[:, None] == codes, axis=1)
                for given, codes in zip(filled, self._codes, strict=True)
            ]
            refused |= ~(known[0] & known[1])
            languages = tuple(
                tf.where(refused, codes[0], given)
                for codes, given in zip(self._codes, filled, strict=True)
            )
        return tf.where(refused, "", text), languages, refused

    def _segments(self, text, begun=False):
        """The segments of string `[batch]`: lines, cut into sentences if asked for or too long.

        A line without a letter or digit goes into the glue, and leaves an empty segment; but not
        the first of a text whose translation begins with a prefix, which has no glue.
        """
        lines, line_glue, ends = split_text(text, sentences=False)
        row = tf.cast(lines.value_rowids(), tf.int32)
        lines, line_glue = lines.flat_values, line_glue.flat_values
        begun = _is_first(row) & tf.gather(tf.broadcast_to(begun, tf.shape(text)), row)
        passed = tf.strings.regex_full_match(lines, _NO_WORD) & ~begun
        line_glue = tf.where(begun, "", line_glue) + tf.where(passed, lines, "")
        lines = tf.where(passed, "", lines)
        where = True
        if not self.split_sentences:
            where = self.tokenizer.pieces(lines).row_lengths() > self.source_limit
        sentences, glue, _ = split_text(lines, where)
        line = tf.cast(sentences.value_rowids(), tf.int32)
        glue = tf.where(_is_first(line), tf.gather(line_glue, line), glue.flat_values)
        marks, marked = self._marks(lines, row)
        pieces, sentence = cut(
            self.tokenizer.pieces(sentences.flat_values),
            tf.constant(self.tokenizer.begins_word),
            self.source_limit - (marks is not None),
        )
        glue = tf.where(_is_first(sentence), tf.gather(glue, sentence), " ")
        line = tf.gather(line, sentence)
        if marks is not None:  # The first segment of a line may already have its mark.
            missing = ~(_is_first(line) & tf.gather(marked, line)) & ~tf.gather(passed, line)
            pieces = tf.concat([_kept(tf.gather(marks, line), missing), pieces], axis=1)
        return _Segments(pieces, tf.gather(row, line), glue, ends)

    def _marks(self, lines, row):
        """The mark of each line, ragged: its own, else its text's; and which have their own.

        That of a text is its first line's.
        """
        own = self.tokenizer.marks(lines)
        if own is None:
            return None, None
        marked = own.row_lengths() > 0
        first = tf.gather(tf.where(_is_first(row))[:, 0], row)
        return tf.concat([own, _kept(tf.gather(own, first), ~marked)], axis=1), marked

    def _given(self, text, target, refused):
        """Pieces of both sides of given pairs, line by line if both sides have as many lines.

        Returns:
            Ragged pieces of the source and of the target, `[pairs, (tokens)]`; the row that each
            pair belongs to; and which rows are refused: those that were before, and those with a
            side over the limit. These have no pairs.
        """
        lines = [split_text(side, sentences=False)[0] for side in (text, target)]
        apart = lines[0].row_lengths() == lines[1].row_lengths()
        lines = [
            split_text(
                tf.where(apart, side, tf.strings.regex_replace(side, r"\n", " ")), sentences=False
            )[0]
            for side in (text, target)
        ]
        row = tf.cast(lines[0].value_rowids(), tf.int32)
        source = self.tokenizer.pieces(lines[0].flat_values)
        marks, marked = self._marks(lines[0].flat_values, row)
        if marks is not None:
            source = tf.concat([_kept(marks, ~marked), source], axis=1)
        target = self.tokenizer.target_pieces(lines[1].flat_values)
        long = source.row_lengths() > self.source_limit
        long |= target.row_lengths() > self.target_limit
        long = tf.math.unsorted_segment_max(tf.cast(long, tf.int32), row, tf.shape(text)[0])
        refused |= long > 0
        kept = ~tf.gather(refused, row)
        source, target = (tf.ragged.boolean_mask(side, kept) for side in (source, target))
        return source, target, row[kept], refused

    def _translate_segments(self, pieces, columns, token_scores=False, confidence=False):
        """Translates pieces, ragged `[segments, (tokens)]`.

        Args:
            pieces: The pieces.
            columns: What belongs to each segment: whether it is `refused`, its `languages`, its
                `prefix`, its `row_options`.
            token_scores: Whether to return `tokens` and `log_probs` too,
                `[segments, n_best, length]`.
            confidence: Whether to return what `CONFIDENCE_PARTS` names too.

        Returns:
            A dict of `translations`, `scores` and `lengths`, `[segments, n_best]`.
        """
        dtypes = {"translations": tf.string, "scores": tf.float32, "lengths": tf.int32}
        if confidence:
            dtypes |= CONFIDENCE_PARTS
        n_best = self.options.n_best
        empty = {name: tf.zeros((0, n_best), dtype) for name, dtype in dtypes.items()}
        if token_scores:
            empty["tokens"] = tf.zeros((0, n_best, 0), tf.int32)
            empty["log_probs"] = tf.zeros((0, n_best, 0))
        translate = functools.partial(
            self._translate_pieces, with_log_probs=token_scores or confidence, confidence=confidence
        )
        return in_batches(translate, pieces, columns, empty, {"tokens": self.tokenizer.padding_id})

    def _translate_pieces(
        self, pieces, refused, languages, with_log_probs, confidence, prefix=None, row_options=None
    ):
        """As `_translate_segments`, for one batch."""
        empty = pieces.row_lengths() == 0
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            empty &= prefix.lengths == 0
        hypotheses = self._searcher.search_pieces(
            pieces, refused | empty, languages, prefix, row_options=row_options
        )
        rows, n_best, length = tf.unstack(tf.shape(hypotheses.tokens))
        target = Rows(
            tf.reshape(hypotheses.tokens, (rows * n_best, length)),
            tf.reshape(hypotheses.lengths, (rows * n_best,)),
        )
        translations = self.tokenizer.text(tf.RaggedTensor.from_tensor(*target))
        first = tf.range(self.options.n_best)[None] == 0  # The translation of nothing is nothing.
        nothing = (empty & ~refused)[:, None] & first
        outputs = {
            "translations": tf.reshape(translations, (rows, n_best)),
            "scores": tf.where(nothing, 0.0, hypotheses.scores),
            "lengths": hypotheses.lengths,
            "tokens": hypotheses.tokens,
        }
        if with_log_probs:
            source = self._padded(self.tokenizer.source_ids(pieces, *languages))
            source = Rows(*(tf.repeat(x, n_best, axis=0) for x in source))
            log_probs = token_log_probs(self.predictor, source, target, self.tokenizer.bos_id)
            outputs["log_probs"] = tf.reshape(log_probs, tf.shape(hypotheses.tokens))
        if confidence:
            parts = confidence_parts(
                self._padded(pieces), target, log_probs, self._forced, self.tokenizer.eos_id
            )
            outputs |= {name: tf.reshape(x, (rows, n_best)) for name, x in parts.items()}
        return outputs

    def _padded(self, ids):
        return padded(ids, self.tokenizer.padding_id)


def _of_rows(languages, row):
    """The languages of each segment: those of its text."""
    return tuple(tf.gather(codes, row) for codes in languages)


def _kept(ragged, kept):
    """Ragged rows, of which those that are not kept are empty."""
    kept = tf.repeat(kept, ragged.row_lengths())
    return tf.ragged.boolean_mask(ragged, ragged.with_values(kept))


def _where(segments, kept):
    return _Segments(
        tf.ragged.boolean_mask(segments.pieces, kept),
        segments.row[kept],
        segments.glue[kept],
        segments.ends,
    )


def _block_diagonal(attention, target, source, row, batch):
    """The attention of texts `[batch, target_tokens, source_tokens]`, from that of their segments.

    Args:
        attention: Float `[segments, target_length, source_length]`.
        target, source: Ragged ids `[segments, (tokens)]`.
        row: int32 `[segments]`: the text that each belongs to, in ascending order.
        batch: Number of texts.
    """
    lengths = [tf.cast(side.row_lengths(), tf.int32) for side in (target, source)]
    totals = [tf.math.unsorted_segment_sum(length, row, batch) for length in lengths]
    starts = [  # Where each segment starts in its text.
        tf.cumsum(length, exclusive=True) - tf.gather(tf.cumsum(total, exclusive=True), row)
        for length, total in zip(lengths, totals, strict=True)
    ]
    shape = tf.shape(attention)
    real = (
        tf.sequence_mask(lengths[0], shape[1])[:, :, None]
        & tf.sequence_mask(lengths[1], shape[2])[:, None, :]
    )
    segment, *places = tf.unstack(tf.cast(tf.where(real), tf.int32), axis=1)
    indices = [tf.gather(start, segment) + x for start, x in zip(starts, places, strict=True)]
    longest = [tf.reduce_max(tf.concat([total, [0]], axis=0)) for total in totals]
    return tf.scatter_nd(
        tf.stack([tf.gather(row, segment), *indices], axis=1),
        tf.boolean_mask(attention, real),
        (batch, *longest),
    )


def _joined(found, segments, batch, length_penalty):
    """Joins the translations of segments into those of texts: all first ones, all second ones, ...

    Args:
        found: Dict of tensors `[segments, n_best, ...]`.
        segments: `_Segments`.
        batch: Number of texts.
        length_penalty: A number, or float32 `[batch, 1]`.

    Returns:
        A dict of `translations`, `scores`, whatever else was found, and `place`, int32
        `[batch, n_best]`: the rank of the segments' translations that each is joined from.
    """
    n_best, row = found["scores"].shape[1], segments.row
    places = tf.range(n_best)[None]
    counts = tf.math.count_nonzero(found["scores"] > NO_HYPOTHESIS, axis=1, dtype=tf.int32)
    # A segment with fewer hypotheses than others of its text repeats its last one.
    place = tf.minimum(places, tf.maximum(counts - 1, 0)[:, None])
    found = {name: tf.gather(tensor, place, batch_dims=1) for name, tensor in found.items()}
    there = tf.math.unsorted_segment_max(counts, row, batch)
    # If a segment has none, its text has none.
    there = tf.where(tf.math.unsorted_segment_min(counts, row, batch) > 0, there, 0)
    there = places < there[:, None]
    glued = segments.glue[:, None] + found["translations"]
    translations = tf.strings.unsorted_segment_join(glued, row, batch) + segments.ends[:, None]

    def summed(tensor):
        return tf.math.unsorted_segment_sum(tensor, row, batch)

    lengths = tf.cast(found["lengths"], tf.float32)
    own_penalty = (
        length_penalty if isinstance(length_penalty, float) else tf.gather(length_penalty, row)
    )
    log_probs = summed(found["scores"] * lengths**own_penalty)
    scores = log_probs / tf.maximum(summed(lengths), 1.0) ** length_penalty
    outputs = {
        "translations": tf.where(there, translations, ""),
        "scores": tf.where(there, scores, NO_HYPOTHESIS),
        "place": tf.tile(places, (batch, 1)),
    }
    if "tokens" in found:
        outputs["lengths"] = summed(found["lengths"])
        for name in ("tokens", "log_probs"):
            outputs[name] = _concatenated(found[name], found["lengths"], row, batch)
    if CONFIDENCE_PARTS.keys() <= found.keys():
        outputs |= joined_confidence_parts(found, row, batch)
    # Second-best translations may sum to the better score, since long segments weigh more.
    order = tf.argsort(outputs["scores"], direction="DESCENDING", stable=True)
    return {name: tf.gather(tensor, order, batch_dims=1) for name, tensor in outputs.items()}


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


def _is_first(numbers):
    # [n]: whether each of the sorted numbers differs from the one before
    return tf.not_equal(numbers, tf.concat([[-1], numbers[:-1]], 0))
