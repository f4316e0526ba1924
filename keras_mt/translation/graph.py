"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding import (
    MAX_LENGTH_PENALTY,
    NO_HYPOTHESIS,
    SearchNode,
    SearchOptions,
    beam_search,
    search_tree,
)
from keras_mt.errors import InputError
from keras_mt.inference.predictors import Predictor
from keras_mt.text import BaseTokenizer
from keras_mt.text.sentences import cut, split_text
from keras_mt.translation.confidence import out_of_proportion, repeats

# The most segments of a batch, and the most tokens: its longest segment's times their number.
_BATCH_SEGMENTS = 256
_BATCH_TOKENS = 64 * 256
# The most logits held at once when given translations are scored, but at least one row's.
_BATCH_LOGITS = 2**26
# What the confidence is computed from, for each segment and for each text.
_CONFIDENCE = {
    "log_prob_sums": tf.float32,
    "counts": tf.int32,
    "worst_log_probs": tf.float32,
    "worst_ids": tf.int32,  # -1 where there is no token.
    "loops": tf.bool,
    "disproportionate": tf.bool,
}


class _Ids(NamedTuple):
    """Padded rows of ids, and their lengths."""

    ids: tf.Tensor  # [rows, length]
    lengths: tf.Tensor  # [rows]


class _Segments(NamedTuple):
    """The segments that texts are cut into for translation, in the order of the texts."""

    pieces: tf.RaggedTensor  # [segments, (tokens)]
    row: tf.Tensor  # [segments]: the index of the text that each belongs to
    glue: tf.Tensor  # [segments]: the string between it and the segment before


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
    ):
        self.predictor = predictor
        self.tokenizer = tokenizer
        self.options = options
        self.max_length = max_length
        self.split_sentences = split_sentences
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
        own: dict[str, tf.Tensor] | None = None,
        token_scores: bool = False,
        confidence: bool = False,
        languages: tuple[tf.Tensor, ...] = (),
    ) -> dict[str, tf.Tensor]:
        """Translates texts.

        Args:
            text: String `[batch]`.
            prefix: String `[batch]`, what each translation begins with, or None. A row is refused
                whose text and prefix both have several segments: which belong together is unknown.
            own: None, or the rows' own options, tensors `[batch]`: `beam_size` and `n_best`, at
                most the translator's; `length_penalty`; and `max_length`, 0 for the translator's. A
                row with an invalid option is refused.
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
        languages, unknown = self._known(languages)
        refused = tf.zeros_like(text, tf.bool) if unknown is None else unknown
        if own is not None:
            possible = (
                (own["beam_size"] >= 1)
                & (own["beam_size"] <= self.options.beams)
                & (own["n_best"] >= 1)
                & (own["n_best"] <= tf.minimum(own["beam_size"], self.options.n_best))
                & (own["length_penalty"] >= 0)
                & (own["length_penalty"] <= MAX_LENGTH_PENALTY)
                & (own["max_length"] >= 0)
                & (own["max_length"] <= self.limit)
            )
            refused = ~possible if unknown is None else unknown | ~possible
            own = {n: tf.where(possible, x, tf.ones_like(x)) for n, x in own.items()}
        segments = self._segments(text)
        columns = {"languages": _of_rows(languages, segments.row)}
        if own is not None:
            columns["own"] = {n: tf.gather(x, segments.row) for n, x in own.items()}
        if prefix is not None:
            parts = split_text(prefix, self.split_sentences)[0].row_lengths()
            segments_of = tf.math.unsorted_segment_sum(
                tf.ones_like(segments.row), segments.row, tf.shape(text)[0]
            )
            refused |= (parts > 1) & (segments_of > 1)
            prefix = self.tokenizer.target_pieces(prefix)
            refused |= prefix.row_lengths() > self.target_limit
            # Only the first segment of a text gets its prefix.
            counts = tf.where(_is_first(segments.row), self.target_limit, 0)
            prefix = tf.gather(prefix, segments.row)
            counts = tf.minimum(tf.cast(prefix.row_lengths(), tf.int32), counts)
            columns["prefix"] = _Ids(prefix.to_tensor(), counts)
        columns["refused"] = tf.gather(refused, segments.row)
        found = self._translate_segments(segments.pieces, columns, token_scores, confidence)
        penalty = own["length_penalty"][:, None] if own else float(self.options.length_penalty)
        found = _joined(found, segments, tf.shape(text)[0], penalty)
        if confidence:
            found |= self._confidence(*(found.pop(name) for name in _CONFIDENCE), found["scores"])
        return {**found, "refused": refused}

    def _confidence(self, sums, counts, worst, worst_ids, loops, disproportionate, scores):
        there = scores > NO_HYPOTHESIS
        ids = tf.reshape(worst_ids, (-1,))
        pieces = tf.where(ids < 0, "", self.tokenizer.id_to_string(tf.maximum(ids, 0)))
        means = sums / tf.cast(tf.maximum(counts, 1), tf.float32)
        return {
            "mean_log_probs": tf.where(there, means, NO_HYPOTHESIS),
            "worst_log_probs": tf.where(there, worst, NO_HYPOTHESIS),
            "worst_tokens": tf.where(there, tf.reshape(pieces, tf.shape(scores)), ""),
            "loops": loops & there,
            "disproportionate": disproportionate & there,
        }

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
        languages, unknown = self._known(languages)
        source, target, row, refused = self._given(text, target, unknown)
        languages = _of_rows(languages, row)
        batch = tf.shape(text)[0]
        tokens = self.tokenizer.target_ids(target, *languages[1:])
        log_probs = self._token_log_probs(
            self._padded(self.tokenizer.source_ids(source, *languages)), self._padded(tokens)
        )
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
        languages, unknown = self._known(languages)
        own = tf.strings.length(target) == 0
        if unknown is not None:
            own &= ~unknown
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        segments = self._segments(text)
        # Rows whose target is given need no translation.
        segments = _where(segments, tf.gather(own, segments.row))
        columns = {
            "refused": tf.zeros_like(segments.row, tf.bool),
            "languages": _of_rows(languages, segments.row),
        }
        found = self._translate_segments(segments.pieces, columns)
        joined = _joined(found, segments, batch, float(self.options.length_penalty))
        place = tf.gather(joined["place"][:, :1], segments.row)
        written = tf.gather(found["translations"], place, batch_dims=1)[:, 0]
        translated = tokenizer.target_pieces(written)
        source, given, row, refused = self._given(text, target, unknown)
        refused &= ~own
        kept = tf.gather(~own, row)
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
        attention = self._attention(self._padded(source), self._padded(ids))[:, self._forced :]
        ids = ids[:, self._forced :]
        outputs = {
            "translations": tf.where(
                refused, "", tf.where(own, joined["translations"][:, 0], target)
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

    def _known(self, languages):
        """The rows' languages, unknown ones replaced, and which rows had one (None without any)."""
        if not languages:
            return (), None
        filled = [
            tf.where(given == "", default, given)
            for given, default in zip(languages, self._defaults, strict=True)
        ]
        known = [
            tf.reduce_any(given[:, None] == codes, axis=1)
            for given, codes in zip(filled, self._codes, strict=True)
        ]
        known = known[0] & known[1]
        some = [codes[0] for codes in self._codes]
        filled = [tf.where(known, *each) for each in zip(filled, some, strict=True)]
        return tuple(filled), ~known

    def _segments(self, text):
        """The segments of string `[batch]`: lines, cut into sentences if asked for or too long."""
        lines, line_glue = split_text(text, sentences=False)
        row = tf.cast(lines.value_rowids(), tf.int32)
        lines, line_glue = lines.flat_values, line_glue.flat_values
        where = True
        if not self.split_sentences:
            where = self.tokenizer.pieces(lines).row_lengths() > self.source_limit
        sentences, glue = split_text(lines, where)
        line = tf.cast(sentences.value_rowids(), tf.int32)
        glue = tf.where(_is_first(line), tf.gather(line_glue, line), glue.flat_values)
        marks, marked = self._marks(text, lines, row)
        pieces, sentence = cut(
            self.tokenizer.pieces(sentences.flat_values),
            tf.constant(self.tokenizer.begins_word),
            self.source_limit - (marks is not None),
        )
        glue = tf.where(_is_first(sentence), tf.gather(glue, sentence), " ")
        line = tf.gather(line, sentence)
        if marks is not None:  # The first segment of a line may already have its mark.
            missing = ~(_is_first(line) & tf.gather(marked, line))
            pieces = tf.concat([_kept(tf.gather(marks, line), missing), pieces], axis=1)
        return _Segments(pieces, tf.gather(row, line), glue)

    def _marks(self, text, lines, row):
        """The mark of each line, ragged: its own, else its text's; and which have their own."""
        own = self.tokenizer.marks(lines)
        if own is None:
            return None, None
        marked = own.row_lengths() > 0
        inherited = _kept(tf.gather(self.tokenizer.marks(text), row), ~marked)
        return tf.concat([own, inherited], axis=1), marked

    def _given(self, text, target, unknown):
        """Pieces of both sides of given pairs, line by line if both sides have as many lines.

        Returns:
            Ragged pieces of the source and of the target, `[pairs, (tokens)]`; the row that each
            pair belongs to; and which rows are refused: the `unknown` ones, and those with a side
            over the limit. These have no pairs.
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
        marks, marked = self._marks(text, lines[0].flat_values, row)
        if marks is not None:
            source = tf.concat([_kept(marks, ~marked), source], axis=1)
        target = self.tokenizer.target_pieces(lines[1].flat_values)
        long = source.row_lengths() > self.source_limit
        long |= target.row_lengths() > self.target_limit
        refused = tf.math.unsorted_segment_max(tf.cast(long, tf.int32), row, tf.shape(text)[0]) > 0
        if unknown is not None:
            refused |= unknown
        kept = ~tf.gather(refused, row)
        source, target = (tf.ragged.boolean_mask(side, kept) for side in (source, target))
        return source, target, row[kept], refused

    def _padded(self, ids):
        padded = ids.to_tensor(self.tokenizer.padding_id)
        return _Ids(padded, tf.cast(ids.row_lengths(), tf.int32))

    def _translate_segments(self, pieces, columns, token_scores=False, confidence=False):
        """Translates pieces, ragged `[segments, (tokens)]`, in batches of similar length.

        Args:
            pieces: The pieces.
            columns: What belongs to each segment: whether it is `refused`, its `languages`, its
                `prefix`, its `own` options.
            token_scores: Whether to return `tokens` and `log_probs` too,
                `[segments, n_best, length]`.
            confidence: Whether to return what `_CONFIDENCE` names too.

        Returns:
            A dict of `translations`, `scores` and `lengths`, `[segments, n_best]`.
        """
        lengths = tf.cast(pieces.row_lengths(), tf.int32)
        order = tf.argsort(lengths, direction="DESCENDING")
        n_best, segments = self.options.n_best, tf.size(order)

        def translate(start, found):
            longest = lengths[order[start]] + 1
            size = tf.clip_by_value(_BATCH_TOKENS // longest, 1, _BATCH_SEGMENTS)
            chosen = order[start : start + size]
            own = tf.nest.map_structure(lambda x: tf.gather(x, chosen), columns)
            outputs = self._translate_pieces(
                tf.gather(pieces, chosen), token_scores, confidence, **own
            )
            padding = {"tokens": self.tokenizer.padding_id}
            return start + size, {
                n: _stacked(found[n], outputs[n], padding.get(n, 0)) for n in found
            }

        found = {
            "translations": tf.zeros((0, n_best), tf.string),
            "scores": tf.zeros((0, n_best)),
            "lengths": tf.zeros((0, n_best), tf.int32),
        }
        if token_scores:
            found["tokens"] = tf.zeros((0, n_best, 0), tf.int32)
            found["log_probs"] = tf.zeros((0, n_best, 0))
        if confidence:
            found |= {name: tf.zeros((0, n_best), dtype) for name, dtype in _CONFIDENCE.items()}
        _, found = tf.while_loop(
            lambda start, found: start < segments,
            translate,
            (0, found),
            shape_invariants=(
                tf.TensorShape([]),
                {n: tf.TensorShape([None, n_best, None][: x.shape.rank]) for n, x in found.items()},
            ),
            parallel_iterations=1,  # So that memory holds one batch.
        )
        back = tf.math.invert_permutation(order)
        return {name: tf.gather(tensor, back) for name, tensor in found.items()}

    def _translate_pieces(
        self, pieces, token_scores, confidence, refused, languages, prefix=None, own=None
    ):
        empty = pieces.row_lengths() == 0
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            empty &= prefix.lengths == 0
        found = self._search(pieces, refused | empty, languages, prefix, own)
        rows, n_best, length = tf.unstack(tf.shape(found.tokens))
        flat = tf.reshape(found.tokens, (rows * n_best, length))
        lengths = tf.reshape(found.lengths, (rows * n_best,))
        translations = self.tokenizer.text(tf.RaggedTensor.from_tensor(flat, lengths))
        first = tf.range(self.options.n_best)[None] == 0  # The translation of nothing is nothing.
        nothing = (empty & ~refused)[:, None] & first
        outputs = {
            "translations": tf.reshape(translations, (rows, n_best)),
            "scores": tf.where(nothing, 0.0, found.scores),
            "lengths": found.lengths,
            "tokens": found.tokens,
        }
        if token_scores or confidence:
            source = self._padded(self.tokenizer.source_ids(pieces, *languages))
            source = _Ids(*(tf.repeat(x, n_best, axis=0) for x in source))
            log_probs = self._token_log_probs(source, _Ids(flat, lengths))
            outputs["log_probs"] = tf.reshape(log_probs, tf.shape(found.tokens))
        if confidence:
            parts = self._confidence_parts(self._padded(pieces), _Ids(flat, lengths), log_probs)
            outputs |= {n: tf.reshape(x, (rows, n_best)) for n, x in parts.items()}
        return outputs

    def _confidence_parts(self, source, target, log_probs):
        """What `_CONFIDENCE` names, for `n_best` targets per row, `[rows * n_best, length]`."""
        more = ((0, 0), (0, 1))  # argmin needs at least one column.
        ids = tf.pad(target.ids[:, self._forced :], more)
        lengths = tf.maximum(target.lengths - self._forced, 0)
        log_probs = tf.pad(log_probs[:, self._forced :], more)
        log_probs = tf.where(tf.sequence_mask(lengths, tf.shape(ids)[1]), log_probs, 0.0)
        worst = tf.argmin(log_probs, axis=1, output_type=tf.int32)
        worst_ids = tf.gather(ids, worst, batch_dims=1)
        last = tf.maximum(lengths - 1, 0)
        ended = tf.gather(ids, last, batch_dims=1) == self.tokenizer.eos_id
        words = tf.where(ended, last, lengths)
        there = lengths > 0
        n_best = self.options.n_best
        source_repeats = tf.repeat(repeats(*source), n_best)
        source_lengths = tf.repeat(source.lengths, n_best)
        return {
            "log_prob_sums": tf.reduce_sum(log_probs, axis=1),
            "counts": lengths,
            "worst_log_probs": tf.reduce_min(log_probs, axis=1),
            "worst_ids": tf.where(there, worst_ids, -1),
            "loops": repeats(ids, words) & ~source_repeats,
            "disproportionate": out_of_proportion(source_lengths, words) & there,
        }

    def search_tree(
        self, text: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> list[SearchNode]:
        """The search tree for the translation of string `[1]`, which must be a single segment."""
        pieces = self._segments(text).pieces
        if pieces.nrows() != 1:
            raise InputError(
                "The text must be one sentence, within the model's limit. "
                f"Received: {pieces.nrows()} segments"
            )
        return self._search(pieces, pieces.row_lengths() == 0, languages, search=search_tree)

    def _search(self, pieces, skipped, languages, prefix=None, own=None, search=beam_search):
        """Hypotheses for ragged pieces `[rows, (tokens)]`; none for rows that are `skipped`."""
        source = self.tokenizer.source_ids(pieces, *languages)
        prefix, forced = self._begun(pieces.nrows(), prefix, languages)
        return self.search(
            self._padded(source).ids,
            tf.cast(pieces.row_lengths(), tf.int32),
            skipped,
            prefix,
            forced,
            own,
            _fingerprints(source) if self.options.samples else None,
            search,
        )

    def search(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        skipped: tf.Tensor,
        prefix: tf.Tensor | tf.RaggedTensor | None = None,
        forced_length: tf.Tensor | None = None,
        own: dict[str, tf.Tensor] | None = None,
        row_seeds: tf.Tensor | None = None,
        search: Callable = beam_search,
    ) -> Any:
        """Runs `beam_search`, or another `search`, for sources given as ids.

        Args:
            source: int32 `[rows, length]`, padded, special ids included, as the model reads them.
            lengths: int32 `[rows]`: their numbers of pieces, without special ids.
            skipped: Boolean `[rows]`: which rows not to search for.
            prefix, forced_length, row_seeds: As in `beam_search`.
            own: As in `translate`.
            search: Function with the arguments of `beam_search`.

        Returns:
            What `search` returns: `Hypotheses` for `beam_search`.
        """
        if self.max_length is None:
            max_length = tf.maximum(2 * lengths + 10, self.options.min_length)
            max_length = tf.minimum(max_length, self.limit)
        else:
            max_length = tf.fill(tf.shape(skipped), self.max_length)
        if own is not None:
            max_length = tf.where(own["max_length"] > 0, own["max_length"], max_length)
        if prefix is not None:
            if isinstance(prefix, tf.RaggedTensor):
                longer = tf.cast(prefix.row_lengths(), tf.int32)
            else:
                longer = tf.shape(prefix)[1]
            max_length = tf.maximum(max_length, tf.minimum(longer + 1, self.limit))
        if own is not None:
            own = {name: own[name] for name in ("beam_size", "n_best", "length_penalty")}
        special = {n: getattr(self.tokenizer, n) for n in ("bos_id", "eos_id", "padding_id")}
        forbidden = self.tokenizer.forbidden_ids
        padded = prefix
        if isinstance(prefix, tf.RaggedTensor):
            padded = prefix.to_tensor(self.tokenizer.padding_id)
        ids = sorted({*special.values(), *forbidden})
        predictor = self.predictor.for_batch(source, ids, padded)
        vocabulary = predictor.vocabulary
        hypotheses = search(
            predictor.step,
            lambda beams: predictor.start(source, beams),
            tf.where(skipped, 0, max_length),
            prefix=None if prefix is None else vocabulary.index(prefix),
            forced_length=forced_length,
            row_options=own,
            row_seeds=row_seeds,
            reorder=predictor.reorder,
            normalize=predictor.gives_logits,
            forbidden_ids=[vocabulary.index(i) for i in forbidden],
            **{name: vocabulary.index(i) for name, i in special.items()},
            **dataclasses.asdict(self.options),
        )
        if isinstance(hypotheses, list):  # A search tree.
            return [node._replace(token=int(vocabulary.id(node.token))) for node in hypotheses]
        return hypotheses._replace(tokens=vocabulary.id(hypotheses.tokens))

    def _begun(self, rows, prefix, languages):
        """The ids that translations begin with, ragged, and how many are forced; or Nones."""
        forced = self.tokenizer.forced_ids(*languages[1:])
        if prefix is not None:
            prefix = tf.RaggedTensor.from_tensor(*prefix)
        if forced is None:
            return prefix, None
        forced = tf.broadcast_to(tf.cast(forced, tf.int32), (rows, self._forced))
        begun = tf.RaggedTensor.from_tensor(forced)
        if prefix is not None:
            begun = tf.concat([begun, prefix], axis=1)
        return begun, tf.fill((rows,), self._forced)

    def _attention(self, source, target):
        """The attention of each target token over the source."""
        return self.predictor.attention(source.ids, self._shifted(target.ids))

    def _token_log_probs(self, source, target):
        """Log-probabilities of the target's tokens `[rows, length]`; 0 for padding.

        The rows are scored a few at a time, since the logits over a vocabulary take much memory.
        """
        rows, length = tf.unstack(tf.shape(target.ids))
        logits = tf.maximum(length, 1) * self.predictor.target_vocab_size
        size = tf.maximum(_BATCH_LOGITS // logits, 1)

        def score(start, found):
            some = slice(start, start + size)
            tokens = target.ids[some]
            more = self.predictor.score(source.ids[some], self._shifted(tokens), tokens)
            return start + size, tf.concat([found, more], axis=0)

        _, found = tf.while_loop(
            lambda start, found: start < rows,
            score,
            (0, tf.zeros((0, length))),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
            parallel_iterations=1,
        )
        return tf.where(tf.sequence_mask(target.lengths, length), found, 0.0)

    def _shifted(self, target):
        # [rows, length]: the start, then all tokens but the last.
        start = tf.fill((tf.shape(target)[0], 1), self.tokenizer.bos_id)
        return tf.concat([start, target], axis=1)[:, :-1]


def _of_rows(languages, row):
    """The languages of each segment: those of its text."""
    return tuple(tf.gather(codes, row) for codes in languages)


def _kept(ragged, kept):
    """Ragged rows, of which those that are not kept are empty."""
    kept = tf.repeat(kept, ragged.row_lengths())
    return tf.ragged.boolean_mask(ragged, ragged.with_values(kept))


def _where(segments, kept):
    return _Segments(
        tf.ragged.boolean_mask(segments.pieces, kept), segments.row[kept], segments.glue[kept]
    )


def _fingerprints(ids):
    """An int32 hash of each row of ragged ids."""
    strings = tf.strings.as_string(ids.flat_values)
    joined = tf.strings.unsorted_segment_join(
        strings, ids.value_rowids(), ids.nrows(), separator=" "
    )
    return tf.cast(tf.strings.to_hash_bucket_fast(joined, 2**31 - 1), tf.int32)


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
    glued = tf.strings.join([tf.repeat(segments.glue[:, None], n_best, 1), found["translations"]])
    translations = tf.strings.unsorted_segment_join(glued, row, batch)

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
    if "worst_ids" in found:
        outputs |= {name: summed(found[name]) for name in ("log_prob_sums", "counts")}
        worst = tf.math.unsorted_segment_min(found["worst_log_probs"], row, batch)
        its = found["worst_log_probs"] == tf.gather(worst, row)
        ids = tf.where(its, found["worst_ids"], -1)
        outputs["worst_log_probs"] = worst
        outputs["worst_ids"] = tf.math.unsorted_segment_max(ids, row, batch)
        for name in ("loops", "disproportionate"):
            any_of = tf.math.unsorted_segment_max(tf.cast(found[name], tf.int32), row, batch)
            outputs[name] = any_of > 0
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


def _stacked(found, more, padding):
    """Concatenates `[rows, n_best]`, or padded `[rows, n_best, length]`, along the rows."""
    if found.shape.rank == 3:
        length = tf.maximum(tf.shape(found)[2], tf.shape(more)[2])
        found, more = (
            tf.pad(x, ((0, 0), (0, 0), (0, length - tf.shape(x)[2])), constant_values=padding)
            for x in (found, more)
        )
    return tf.concat([found, more], axis=0)


def _is_first(numbers):
    # [n]: whether each of the sorted numbers differs from the one before
    return tf.not_equal(numbers, tf.concat([[-1], numbers[:-1]], 0))
