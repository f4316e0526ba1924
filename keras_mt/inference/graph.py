"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_mt.decoding.beam_search import no_hypotheses, while_loop
from keras_mt.errors import DIVERGED, LINE_TOO_LONG
from keras_mt.inference.confidence import confidence_of, doubts
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.segments import Pairs, Segmenter, any_of_text, group_by_text, joined
from keras_mt.options.search import NO_HYPOTHESIS, TranslationOptions
from keras_mt.text import BaseTokenizer
from keras_mt.text.ragged import ragged_rows

# The maximum number of rows that are searched together, and of their tokens, padding included. Each
# beam has rows of its own: above _SEARCH_BEAMS beams both are less in proportion.
_SEARCH_ROWS, _SEARCH_TOKENS, _SEARCH_BEAMS = 256, 64 * 256, 4
# Likewise of given targets, all of whose logits and attention weights are held at once.
_TARGET_ROWS, _TARGET_TOKENS = 32, 64 * 32
_TARGET_LOGITS = 2**26
# Why a row is refused; see also keras_mt.errors.
_SEVERAL = (
    "it and its prefix have several lines or sentences, which are translated one by one: give what "
    "the first begins with, and translate the others by themselves."
)
_PREFIX_TOO_LONG = "its prefix has more than {} tokens, the model's limit: shorten it."


def on_lists(function: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict[str, np.ndarray]]:
    """A function of columns of UTF-8, lists of bytes, from one of string tensors `[batch]`."""

    def run(**columns):
        columns = {name: tf.constant(texts, tf.string) for name, texts in columns.items()}
        return {name: np.asarray(x) for name, x in function(**columns).items()}

    return run


class TranslationGraph:
    """Functions of string tensors, to be traced by `tf.function`: `translate`, `align`, `score`.

    In texts, no sentence ends at U+0003 before white space; and for models that read terms, one may
    stand behind its word, between U+0001 and U+0002.

    If the tokenizer has languages, each takes the codes of source and target, strings `[batch]`, ""
    for the default; `codes` has those that are allowed on each side. Each returns `refused`,
    strings `[batch]`: why a row is refused, "" for one that is not.
    """

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: BaseTokenizer,
        options: TranslationOptions,
        codes: Sequence[Sequence[str]],
    ):
        self.predictor, self.tokenizer, self.options = predictor, tokenizer, options
        self.segmenter = Segmenter(
            tokenizer, predictor.max_length, options.split_sentences, predictor.reads_terms
        )
        self._forced = self.segmenter.forced
        self._codes = codes if tokenizer.languages else ()

    @functools.cached_property
    def supports_alignment(self) -> bool:
        """True if any of the models has attention weights to align by."""
        _, (end, *_) = self.tokenizer.around_source(None)
        tokens = [tf.fill((1, 2), id) for id in (end, self.tokenizer.eos_id)]
        return self.predictor.attention(*tokens) is not None

    def translate(
        self,
        text: tf.Tensor,
        prefix: tf.Tensor | None = None,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
        token_scores: bool = False,
        confidence: bool = False,
    ) -> dict[str, tf.Tensor]:
        """The translations of texts and their scores, `[batch, n_best]`; see `refused` above.

        Each translation begins with its text's `prefix`. With `token_scores` there are `tokens`
        (strings) and `log_probs` `[batch, n_best, length]`, padded, and `lengths`. With
        `confidence` there are `mean_log_probs` with the end; `worst_log_probs`, their minimum, and
        `worst_tokens`, its token; `loops` (a sequence of tokens repeats over and over, and none in
        the source does) and `length_mismatch` (the lengths of both sides differ much).
        """
        admitted = self._admitted(text, source_language, target_language)
        return self._translated(*admitted, prefix, token_scores, confidence)[0]

    def align(
        self,
        text: tf.Tensor,
        target: tf.Tensor,
        prefix: tf.Tensor | None = None,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
        token_scores: bool = False,
        confidence: bool = False,
    ) -> dict[str, tf.Tensor]:
        """The outputs of `translate`, and the attention of each translation over its source.

        Where the `target` is not empty, it is aligned in place of translations, as by `score`: it
        has the first place and the score 0. Each segment attends only to its own source, and has
        its own end. The `attention` is `[batch, n_best, target_tokens, source_tokens]`, padded.
        The tokens of both sides have lengths, 0 where there is no translation.
        """
        text, languages, refused = self._admitted(text, source_language, target_language)
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        is_given = (target != "") & (refused == "")
        given, too_long = self.segmenter.pairs(text, target, is_given)
        refused = self._line_too_long(refused, too_long)
        # Rows whose target is given need no translation.
        text = tf.where(is_given, "", text)
        outputs, segments, parts = self._translated(
            text, languages, refused, prefix, token_scores, confidence
        )
        is_given, exists = is_given[:, None], outputs["scores"] > NO_HYPOTHESIS
        translations = tf.where(is_given & exists, target[:, None], outputs["translations"])
        own = self._pairs(segments, parts, exists & ~is_given)
        given = given._replace(text_index=given.text_index * self.options.n_best)
        pairs = Pairs(*(tf.concat(x, axis=0) for x in zip(own, given, strict=True)))
        aligned = self._aligned(pairs, languages, tf.shape(text)[0])
        return {**outputs, "translations": translations, **aligned}

    def score(
        self,
        text: tf.Tensor,
        target: tf.Tensor,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """The tokens of given translations and their log-probabilities, `[batch, length]`, padded.

        If both sides have the same number of lines, each line is scored separately, and likewise
        the sentences of a line. A refused row has no tokens.
        """
        text, languages, refused = self._admitted(text, source_language, target_language)
        pairs, too_long = self.segmenter.pairs(text, target, refused == "")
        refused = self._line_too_long(refused, too_long)
        source, ids = self._ids(pairs, languages)
        log_probs = self._of_targets(self.predictor.score, source, ids, tf.zeros((0, 0)))
        log_probs, ids = log_probs[:, self._forced :], ids[:, self._forced :]
        log_probs = ragged_rows(log_probs, ids.row_lengths())
        batch = tf.shape(text)[0]
        ids, log_probs = (group_by_text(x, pairs.text_index, batch) for x in (ids, log_probs))
        tokens = ids.with_values(self.tokenizer.id_to_string(ids.flat_values))
        log_probs = log_probs.to_tensor()
        diverged = tf.reduce_any(~tf.math.is_finite(log_probs), axis=1)
        return {
            "tokens": tokens.to_tensor(""),
            "log_probs": log_probs,
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "refused": _with_reason(refused, diverged, DIVERGED),
        }

    def _admitted(self, text, *languages):
        """The texts and their languages, and why rows are refused.

        The text of a refused row is empty, and its languages are known ones.
        """
        options, admitted = self.options, []
        lines = tf.strings.split(text, "\n")
        is_long = tf.strings.length(lines.flat_values) > options.max_line_bytes
        too_long = any_of_text(is_long, lines.value_rowids(), tf.size(text))
        refused = tf.where(too_long, f"a line has over {options.max_line_bytes} bytes.", "")
        defaults = options.source_language, options.target_language
        for given, default, known in zip(languages, defaults, self._codes, strict=False):
            codes = tf.where(given == "", default or "", given)
            is_known = tf.reduce_any(codes[:, None] == known, axis=1)
            refused = _with_reason(refused, ~is_known, "its language is missing or unknown.")
            admitted.append(tf.where(is_known, codes, known[0]))
        return tf.where(refused == "", text, ""), tuple(admitted), refused

    def _line_too_long(self, refused, where):
        limit = min(self.segmenter.source_limit, self.segmenter.target_limit)
        return _with_reason(refused, where, LINE_TOO_LONG.format(limit))

    def _translated(self, text, languages, refused, prefix, token_scores, confidence):
        """The outputs of `translate`; the texts' segments; and the segments' own translations."""
        has_prefix = False if prefix is None else tf.strings.length(tf.strings.strip(prefix)) > 0
        segments = self.segmenter.segments(text, has_prefix)
        if prefix is not None:
            prefix, too_long, several = self.segmenter.prefixes(prefix, segments)
            reason = _PREFIX_TOO_LONG.format(self.segmenter.target_limit)
            refused = _with_reason(refused, too_long, reason)
            refused = _with_reason(refused, several, _SEVERAL)
        languages = _gathered(languages, segments.text_index)
        source = self.tokenizer.source_ids(segments.pieces, *languages)
        found, ids = self._search(segments, source, languages, refused, prefix)
        details, count, n_best = {}, tf.size(segments.text_index), self.options.n_best
        if token_scores or confidence:
            details |= self._token_scores(_repeated(source, n_best), ids)
        if confidence:
            pieces = _repeated(segments.pieces, n_best)
            details |= doubts(pieces, ids[:, self._forced :], self.tokenizer.eos_id)
        found |= {name: self._by_hypothesis(x, count) for name, x in details.items()}
        outputs, parts = joined(found, segments, self.options.length_penalty)
        if confidence:
            outputs |= confidence_of(outputs)
        for name in {"is_own", *(() if token_scores else ("tokens", "log_probs"))}:
            outputs.pop(name, None)
        nothing = outputs["scores"][:, 0] <= NO_HYPOTHESIS
        reason = self.options.nothing_found(self.predictor.has_shortlist)
        outputs["refused"] = _with_reason(refused, nothing, reason)
        return outputs, segments, parts

    def _search(self, segments, source, languages, refused, prefix):
        """`translations`, `scores`, `lengths` of segments' hypotheses; and, ragged, their ids."""
        tokenizer, options = self.tokenizer, self.options
        lengths = tf.cast(segments.pieces.row_lengths(), tf.int32)
        is_refused, is_empty = tf.gather(refused != "", segments.text_index), lengths == 0
        columns = {"source": source, "lengths": lengths}
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            is_empty &= prefix.row_lengths() == 0
        columns["skipped"] = is_refused | is_empty
        if prefix is not None or self._forced:
            begun = segments.pieces[:, :0] if prefix is None else prefix
            columns["prefix"] = tokenizer.target_ids(begun, *languages[1:])[:, :-1]
        if options.samples:
            columns["row_seeds"] = _hashes(source)
        n_best, beams = options.n_best, max(options.beams, _SEARCH_BEAMS)
        found = _in_batches(
            functools.partial(self.predictor.search, tokenizer, options, self._forced),
            lengths,
            columns,
            no_hypotheses(0, n_best),
            max_rows=max(_SEARCH_ROWS * _SEARCH_BEAMS // beams, 1),
            max_tokens=_SEARCH_TOKENS * _SEARCH_BEAMS // beams,
        )
        count, _, longest = tf.unstack(tf.shape(found.tokens))
        ids = tf.reshape(found.tokens, (count * n_best, longest))
        ids = ragged_rows(ids, tf.reshape(found.lengths, (-1,)))
        # The translation of nothing is nothing.
        is_nothing = (is_empty & ~is_refused)[:, None] & (tf.range(n_best) == 0)
        outputs = {
            "translations": tf.reshape(tokenizer.text(ids), (-1, n_best)),
            "scores": tf.where(is_nothing, 0.0, found.scores),
            "lengths": found.lengths,
        }
        return outputs, ids

    def _token_scores(self, source, ids):
        """Tokens of hypotheses, their log-probabilities, and whether the model chose them."""
        log_probs = self._of_targets(self.predictor.score, source, ids, tf.zeros((0, 0)))
        tokens = ids.with_values(self.tokenizer.id_to_string(ids.flat_values)).to_tensor("")
        length = tf.shape(tokens)[1]
        is_own = tf.sequence_mask(ids.row_lengths(), length) & (tf.range(length) >= self._forced)
        return {"tokens": tokens, "log_probs": log_probs[:, :length], "is_own": is_own}

    def _by_hypothesis(self, column, rows):
        """`[rows, n_best, ...]` from a column of all hypotheses, one after another."""
        sizes = [rows, self.options.n_best], tf.shape(column)[1:]
        return tf.reshape(column, tf.concat(sizes, axis=0))

    def _ids(self, pairs, languages):
        """The ids of both sides, from their pieces, with the languages of their texts."""
        languages = _gathered(languages, pairs.text_index)
        source = self.tokenizer.source_ids(pairs.source, *languages)
        return source, self.tokenizer.target_ids(pairs.target, *languages[1:])

    def _of_targets(self, function, source, target, empty):
        """The outputs of a function of sources, inputs and targets, from ragged ids, in batches."""
        start, padding = self.tokenizer.bos_id, self.tokenizer.padding_id

        def run(source, target):
            ids = target.to_tensor(padding)
            # At least one column: recurrent layers take no sequence without a token.
            ids = tf.pad(ids, ((0, 0), (0, tf.cast(tf.shape(ids)[1] == 0, tf.int32))))
            inputs = tf.pad(ids, ((0, 0), (1, 0)), constant_values=start)[:, :-1]
            return function(source.to_tensor(padding), inputs, ids)

        lengths = tf.maximum(source.row_lengths(), target.row_lengths())
        most = max(min(_TARGET_TOKENS, _TARGET_LOGITS // self.predictor.target_vocab_size), 1)
        columns = {"source": source, "target": target}
        return _in_batches(run, lengths, columns, empty, _TARGET_ROWS, most)

    def _pairs(self, segments, parts, exists):
        """Segments and their translations, of the hypotheses that exist, `[batch, n_best]`.

        Each hypothesis counts as a text: those of a text follow one another.
        """
        n_best = self.options.n_best
        index = tf.reshape(segments.text_index[:, None] * n_best + tf.range(n_best), (-1,))
        exists = tf.gather(tf.reshape(exists, (-1,)), index)
        source = tf.gather(_repeated(segments.pieces, n_best), tf.where(exists)[:, 0])
        target = self.tokenizer.target_pieces(tf.reshape(parts, (-1,))[exists])
        return Pairs(source, target[:, : self.segmenter.target_limit], index[exists])

    def _aligned(self, pairs, languages, batch):
        """The attention of hypotheses, from their pairs; tokens and lengths of both sides."""
        n_best, forced = self.options.n_best, self._forced
        pairs = _gathered(pairs, tf.argsort(pairs.text_index, stable=True))
        source, target = self._ids(pairs, [tf.repeat(codes, n_best) for codes in languages])

        def attend(source, inputs, _):
            return self.predictor.attention(source, inputs)

        attention = self._of_targets(attend, source, target, tf.zeros((0, 0, 0)))[:, forced:]
        target, texts = target[:, forced:], (pairs.text_index, batch * n_best)
        outputs = {"attention": _block_diagonal(attention, target, source, *texts)}
        for side, ids, id_to_string in (
            ("source", source, self.tokenizer.source_id_to_string),
            ("target", target, self.tokenizer.id_to_string),
        ):
            tokens = group_by_text(ids.with_values(id_to_string(ids.flat_values)), *texts)
            outputs[f"{side}_tokens"] = tokens.to_tensor("")
            outputs[f"{side}_lengths"] = tf.cast(tokens.row_lengths(), tf.int32)
        return {name: self._by_hypothesis(x, batch) for name, x in outputs.items()}


def _gathered(columns, rows):
    """A nest of tensors `[n, ...]` for some of the rows, by their numbers."""
    return tf.nest.map_structure(lambda x: tf.gather(x, rows), columns)


def _in_batches(function, lengths, columns, empty, max_rows, max_tokens):
    """Runs a function on batches of rows of similar length; outputs are in the order of the rows.

    A batch has at most `max_rows`, and `max_tokens`: those of its longest row, by `lengths`, times
    their number; but at least one row. The function takes the `columns` `[rows, ...]` as keywords.
    `empty` has its outputs for no rows; their axes of size 0 grow, padded with zeros or "".
    """
    lengths = tf.cast(lengths, tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING")

    def run(start, outputs):
        size = tf.clip_by_value(max_tokens // (lengths[order[start]] + 1), 1, max_rows)
        more = function(**_gathered(columns, order[start : start + size]))
        return start + size, tf.nest.map_structure(_stacked, outputs, more)

    _, outputs = while_loop(
        lambda start, outputs: start < tf.size(order),
        run,
        (tf.constant(0), empty),
        parallel_iterations=1,  # So that memory holds one batch.
    )
    return _gathered(outputs, tf.math.invert_permutation(order))


def _stacked(before, more):
    """Concatenates along the rows; other axes are padded to the longer of the two."""
    sizes = tf.maximum(tf.shape(before), tf.shape(more))
    is_fixed = [a is not None and a == b for a, b in zip(before.shape, more.shape, strict=True)]

    def grown(x):
        missing = tf.unstack(sizes - tf.shape(x))
        sides = [(0, 0 if fixed else n) for n, fixed in zip(missing, is_fixed, strict=True)]
        return tf.pad(x, [(0, 0), *sides[1:]])

    return tf.concat([grown(before), grown(more)], axis=0)


def _block_diagonal(attention, target, source, text_index, batch):
    """The attention of texts `[batch, target_tokens, source_tokens]`, from that of their segments.

    That is `[segments, target_length, source_length]`, `target` and `source` ragged ids, and
    `text_index` the text that each segment belongs to, in ascending order.
    """
    sides = []
    for ids, padding in ((target, -1), (source, -2)):  # The segment and place of each token.
        places = ids.with_values(tf.where(tf.sequence_mask(ids.row_lengths())))
        sides.append(group_by_text(places, text_index, batch).to_tensor(padding))
    rows, columns = sides[0][:, :, None], sides[1][:, None]
    is_own = rows[..., 0] == columns[..., 0]  # [batch, target_tokens, source_tokens]
    length, width = tf.unstack(tf.shape(attention, tf.int64)[1:])
    places = (rows[..., 0] * length + rows[..., 1]) * width + columns[..., 1]
    values = tf.gather(tf.reshape(attention, (-1,)), tf.where(is_own, places, 0))
    return tf.where(is_own, values, 0.0)


def _with_reason(refused, where, reason):
    """`refused`, with a reason for some of the rows that have none yet."""
    return tf.where((refused == "") & where, reason, refused)


def _repeated(ragged, times):
    """Each row as many times."""
    return tf.gather(ragged, tf.range(ragged.nrows() * times) // times)


def _hashes(ids):
    """An int32 hash of each row of ragged ids."""
    strings = ids.with_values(tf.strings.as_string(ids.flat_values))
    joined_ids = tf.strings.reduce_join(strings, axis=1, separator=" ")
    return tf.cast(tf.strings.to_hash_bucket_fast(joined_ids, 2**31 - 1), tf.int32)
