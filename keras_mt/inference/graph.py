"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_mt.decoding import Hypotheses
from keras_mt.inference.confidence import confidence_of, doubts
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.search import gathered, in_batches, search
from keras_mt.inference.segments import Pairs, Segmenter, any_of_text, group_by_text, joined
from keras_mt.options import NO_HYPOTHESIS, TranslationOptions
from keras_mt.text import BaseTokenizer

# The maximum number of rows that are searched together, and of their tokens, padding included. Each
# beam has rows of its own: above _SEARCH_BEAMS beams both are less in proportion.
_SEARCH_ROWS, _SEARCH_TOKENS, _SEARCH_BEAMS = 256, 64 * 256, 4
# Likewise of given targets, all of whose logits and attention weights are held at once.
_TARGET_ROWS, _TARGET_TOKENS = 32, 64 * 32
_TARGET_LOGITS = 2**26
_DIVERGED = "the model gives no finite probabilities. Has its training diverged?"
_SEVERAL = (
    "it and its prefix have several lines or sentences, which are translated one by one: give what "
    "the first begins with, and translate the others by themselves."
)


def on_lists(function: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., dict[str, np.ndarray]]:
    """A function of columns of UTF-8, lists of bytes, from one of string tensors `[batch]`."""

    def run(**columns):
        columns = {name: tf.constant(texts, tf.string) for name, texts in columns.items()}
        try:
            return {name: np.asarray(x) for name, x in function(**columns).items()}
        except tf.errors.ResourceExhaustedError:
            raise MemoryError from None

    return run


class TranslationGraph:
    """Functions of string tensors, to be traced by `tf.function`: `translate`, `score`, `align`.

    In texts, no sentence ends at U+0003 before white space; and for models that read terms, one may
    stand behind its word, between U+0001 and U+0002.

    If the tokenizer has languages, each takes the codes of source and target, strings `[batch]`, ""
    for the default; `pair` has the only codes that are allowed. Each returns `refused`, strings
    `[batch]`: why a row is refused, "" for one that is not.
    """

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: BaseTokenizer,
        options: TranslationOptions,
        pair: Sequence[str] = (),
    ):
        self.predictor, self.tokenizer, self.options = predictor, tokenizer, options
        self.segmenter = Segmenter(
            tokenizer, predictor.max_length, options.split_sentences, predictor.reads_terms
        )
        self._forced = self.segmenter.forced
        # The codes that a row may have on each side.
        self._codes = [[code] for code in pair] or [list(tokenizer.languages)] * 2

    @functools.cached_property
    def supports_alignment(self) -> bool:
        """True if any of the models has attention weights to align by."""
        tokens = tf.fill((1, 2), self.tokenizer.eos_id)
        return self.predictor.attention(tokens, tokens) is not None

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
        text, languages, refused = self._admitted(text, source_language, target_language)
        has_prefix = False if prefix is None else tf.strings.length(tf.strings.strip(prefix)) > 0
        segments = self.segmenter.segments(text, has_prefix)
        if prefix is not None:
            prefix, too_long, several = self.segmenter.prefixes(prefix, segments)
            refused = _with_reason(refused, too_long, self._prefix_too_long)
            refused = _with_reason(refused, several, _SEVERAL)
        found, ids = self._searched(segments, languages, refused, prefix)
        if token_scores or confidence:
            found |= self._scored(segments, languages, ids)
        if confidence:
            found |= self._doubted(segments, ids)
        outputs, _ = joined(found, segments, self.options.length_penalty)
        if confidence:
            of_tokens = (outputs[name] for name in ("tokens", "log_probs", "is_own", "scores"))
            outputs |= confidence_of(*of_tokens)
        for name in {"is_own", *(() if token_scores else ("tokens", "log_probs"))}:
            outputs.pop(name, None)
        nothing = outputs["scores"][:, 0] <= NO_HYPOTHESIS
        return {**outputs, "refused": _with_reason(refused, nothing, self._nothing_found)}

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
        refused = _with_reason(refused, too_long, self._line_too_long)
        source, ids = self._ids(pairs, languages)
        log_probs = self._log_probs(source, ids)[:, self._forced :]
        ids, batch = ids[:, self._forced :], tf.shape(text)[0]
        log_probs = tf.RaggedTensor.from_tensor(log_probs, ids.row_lengths())
        ids, log_probs = (group_by_text(x, pairs.row, batch) for x in (ids, log_probs))
        tokens = ids.with_values(self.tokenizer.id_to_string(ids.flat_values))
        is_finite = tf.math.is_finite(log_probs.flat_values)
        diverged = any_of_text(~is_finite, log_probs.value_rowids(), batch)
        return {
            "tokens": tokens.to_tensor(""),
            "log_probs": log_probs.to_tensor(),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "refused": _with_reason(refused, diverged, _DIVERGED),
        }

    def align(
        self,
        text: tf.Tensor,
        target: tf.Tensor,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """The attention of each row's target over its source.

        Where the target is empty, the text's own translation is aligned, segment by segment; a
        given one as by `score`. Each segment attends only to its own source, and has its own end.
        The `attention` is `[batch, target_tokens, source_tokens]`, padded; the tokens of both sides
        have lengths, 0 where a row is refused; `scores` are those of own translations.
        """
        text, languages, refused = self._admitted(text, source_language, target_language)
        is_own = (tf.strings.length(target) == 0) & (refused == "")
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        given, too_long = self.segmenter.pairs(text, target, (refused == "") & ~is_own)
        refused = _with_reason(refused, too_long, self._line_too_long)
        # Rows whose target is given need no translation.
        segments = self.segmenter.segments(tf.where(is_own, text, ""))
        found, _ = self._searched(segments, languages, refused)
        outputs, parts = joined(found, segments, self.options.length_penalty)
        best = tf.where(is_own, outputs["scores"][:, 0], NO_HYPOTHESIS)
        own = self._pairs(segments, parts[:, 0], best > NO_HYPOTHESIS)
        pairs = Pairs(*(tf.concat(x, axis=0) for x in zip(own, given, strict=True)))
        aligned = self._aligned(pairs, languages, tf.shape(text)[0])
        nothing = is_own & (best <= NO_HYPOTHESIS)
        translations = tf.where(is_own, outputs["translations"][:, 0], target)
        is_refused = refused != ""
        return {
            "translations": tf.where(is_refused, "", translations),
            "scores": tf.where(is_refused, NO_HYPOTHESIS, tf.where(is_own, best, 0.0)),
            **aligned,
            "refused": _with_reason(refused, nothing, self._nothing_found),
        }

    def _admitted(self, text, *languages):
        """The texts and their languages, and why rows are refused.

        The text of a refused row is empty, and its languages are known ones.
        """
        options = self.options
        lengths = tf.ragged.map_flat_values(tf.strings.length, tf.strings.split(text, "\n"))
        too_long = tf.reduce_max(lengths, axis=1) > options.max_line_bytes
        refused = tf.where(too_long, f"a line has over {options.max_line_bytes} bytes.", "")
        if not self.tokenizer.languages:
            return tf.where(too_long, "", text), (), refused
        defaults = options.source_language, options.target_language
        admitted = []
        for given, default, known in zip(languages, defaults, self._codes, strict=True):
            codes = tf.where(given == "", default or "", given)
            is_known = tf.reduce_any(codes[:, None] == known, axis=1)
            refused = _with_reason(refused, ~is_known, "its language is missing or unknown.")
            admitted.append(tf.where(is_known, codes, known[0]))
        return tf.where(refused == "", text, ""), tuple(admitted), refused

    @property
    def _prefix_too_long(self):
        limit = self.segmenter.target_limit
        return f"its prefix has more than {limit} tokens, the model's limit: shorten it."

    @property
    def _line_too_long(self):
        limit = min(self.segmenter.source_limit, self.segmenter.target_limit)
        return (
            f"a line of the source or the target has more than {limit} tokens, the model's limit: "
            "split it into lines."
        )

    @property
    def _nothing_found(self):
        """The reason why a search finds nothing: probabilities, or options that leave no token."""
        options = self.options
        limits = {name: getattr(options, name) for name in ("min_length", "no_repeat_ngram_size")}
        limits["shortlist"] = self.predictor.has_shortlist
        if limiting := [name for name, limit in limits.items() if limit]:
            return (
                f"no token is left to go on with, because of {' and '.join(limiting)}, or because "
                f"{_DIVERGED}"
            )
        return _DIVERGED

    def _searched(self, segments, languages, refused, prefix=None):
        """`translations`, `scores`, `lengths` of segments' hypotheses; and, ragged, their ids."""
        tokenizer, options, forced = self.tokenizer, self.options, self._forced
        languages = gathered(languages, segments.row)
        lengths = tf.cast(segments.pieces.row_lengths(), tf.int32)
        is_refused, is_empty = tf.gather(refused != "", segments.row), lengths == 0
        columns = {"source": tokenizer.source_ids(segments.pieces, *languages), "lengths": lengths}
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            is_empty &= prefix.row_lengths() == 0
        columns["skipped"] = is_refused | is_empty
        if prefix is not None or forced:
            begun = segments.pieces[:, :0] if prefix is None else prefix
            columns["prefix"] = tokenizer.target_ids(begun, *languages[1:])[:, :-1]
        if forced:
            columns["forced_length"] = tf.fill(tf.shape(lengths), forced)
        if options.samples:
            columns["row_seeds"] = _hashes(columns["source"])
        n_best, beams = options.n_best, max(options.beams, _SEARCH_BEAMS)
        found = in_batches(
            functools.partial(search, self.predictor, tokenizer, options),
            lengths,
            columns,
            Hypotheses(
                tf.zeros((0, n_best, 0), tf.int32),
                tf.zeros((0, n_best)),
                tf.zeros((0, n_best), tf.int32),
            ),
            max_rows=max(_SEARCH_ROWS * _SEARCH_BEAMS // beams, 1),
            max_tokens=_SEARCH_TOKENS * _SEARCH_BEAMS // beams,
        )
        count, _, longest = tf.unstack(tf.shape(found.tokens))
        ids = tf.reshape(found.tokens, (count * n_best, longest))
        ids = tf.RaggedTensor.from_tensor(ids, tf.reshape(found.lengths, (-1,)))
        # The translation of nothing is nothing.
        is_nothing = (is_empty & ~is_refused)[:, None] & (tf.range(n_best) == 0)
        outputs = {
            "translations": tf.reshape(tokenizer.text(ids), (-1, n_best)),
            "scores": tf.where(is_nothing, 0.0, found.scores),
            "lengths": found.lengths,
        }
        return outputs, ids

    def _scored(self, segments, languages, ids):
        """Tokens of hypotheses, their log-probabilities, and whether the model chose them."""
        n_best = self.options.n_best
        languages = gathered(languages, segments.row)
        source = self.tokenizer.source_ids(segments.pieces, *languages)
        log_probs = self._log_probs(_repeated(source, n_best), ids)
        tokens = ids.with_values(self.tokenizer.id_to_string(ids.flat_values)).to_tensor("")
        rows, length = tf.unstack(tf.shape(tokens))
        is_own = tf.sequence_mask(ids.row_lengths(), length) & (tf.range(length) >= self._forced)
        columns = {"tokens": tokens, "log_probs": log_probs[:, :length], "is_own": is_own}
        shape = rows // n_best, n_best, length
        return {name: tf.reshape(column, shape) for name, column in columns.items()}

    def _doubted(self, segments, ids):
        """Warnings of hypotheses: they loop, or their lengths do not go with the source's."""
        n_best = self.options.n_best
        source = _repeated(segments.pieces, n_best)
        found = doubts(source, ids[:, self._forced :], self.tokenizer.eos_id)
        names = "loops", "length_mismatch"
        return {name: tf.reshape(x, (-1, n_best)) for name, x in zip(names, found, strict=True)}

    def _ids(self, pairs, languages):
        """The ids of both sides, from their pieces, with the languages of their rows."""
        languages = gathered(languages, pairs.row)
        source = self.tokenizer.source_ids(pairs.source, *languages)
        return source, self.tokenizer.target_ids(pairs.target, *languages[1:])

    def _log_probs(self, source, target):
        """Log-probabilities `[rows, length]` of targets given sources, ragged ids; 0 at padding."""

        def score(source, inputs, target, lengths):
            log_probs = self.predictor.score(source, inputs, target)
            return tf.where(tf.sequence_mask(lengths, tf.shape(target)[1]), log_probs, 0.0)

        return self._of_targets(score, source, target, tf.zeros((0, 0)))

    def _attention(self, source, target):
        """The attention of targets over sources, `[rows, target_length, source_length]`, padded."""

        def attend(source, inputs, *_):
            return self.predictor.attention(source, inputs)

        return self._of_targets(attend, source, target, tf.zeros((0, 0, 0)))

    def _of_targets(self, function, source, target, empty):
        """The output of a function of sources, inputs, targets and their lengths, in batches."""
        start, padding = self.tokenizer.bos_id, self.tokenizer.padding_id

        def run(source, target):
            ids, lengths = target.to_tensor(padding), target.row_lengths()
            # At least one column: recurrent layers take no sequence without a token.
            ids = tf.pad(ids, ((0, 0), (0, tf.cast(tf.shape(ids)[1] == 0, tf.int32))))
            inputs = tf.pad(ids, ((0, 0), (1, 0)), constant_values=start)[:, :-1]
            return function(source.to_tensor(padding), inputs, ids, lengths)

        lengths = tf.maximum(source.row_lengths(), target.row_lengths())
        most = max(min(_TARGET_TOKENS, _TARGET_LOGITS // self.predictor.target_vocab_size), 1)
        columns = {"source": source, "target": target}
        return in_batches(run, lengths, columns, empty, _TARGET_ROWS, most)

    def _pairs(self, segments, translations, exists):
        """Segments and their translations, those of texts that have one."""
        exists = tf.gather(exists, segments.row)
        source = tf.ragged.boolean_mask(segments.pieces, exists)
        target = self.tokenizer.target_pieces(translations[exists])
        return Pairs(source, target[:, : self.segmenter.target_limit], segments.row[exists])

    def _aligned(self, pairs, languages, batch):
        """The attention of texts' translations, from their pairs; tokens and lengths of both."""
        pairs, forced = gathered(pairs, tf.argsort(pairs.row, stable=True)), self._forced
        source, target = self._ids(pairs, languages)
        attention, target = self._attention(source, target)[:, forced:], target[:, forced:]
        outputs = {"attention": _block_diagonal(attention, target, source, pairs.row, batch)}
        for side, ids, id_to_string in (
            ("source", source, self.tokenizer.source_id_to_string),
            ("target", target, self.tokenizer.id_to_string),
        ):
            tokens = ids.with_values(id_to_string(ids.flat_values))
            tokens = group_by_text(tokens, pairs.row, batch)
            outputs[f"{side}_tokens"] = tokens.to_tensor("")
            outputs[f"{side}_lengths"] = tf.cast(tokens.row_lengths(), tf.int32)
        return outputs


def _block_diagonal(attention, target, source, row, batch):
    """The attention of texts `[batch, target_tokens, source_tokens]`, from that of their segments.

    That is `[segments, target_length, source_length]`, `target` and `source` ragged ids, and `row`
    the text that each segment belongs to, in ascending order.
    """
    lengths = [tf.cast(side.row_lengths(), tf.int32) for side in (target, source)]
    totals = [tf.math.unsorted_segment_sum(length, row, batch) for length in lengths]
    starts = [  # Where each segment starts in its text.
        tf.cumsum(length, exclusive=True) - tf.gather(tf.cumsum(total, exclusive=True), row)
        for length, total in zip(lengths, totals, strict=True)
    ]
    shape = tf.shape(attention)
    is_real = (
        tf.sequence_mask(lengths[0], shape[1])[:, :, None]
        & tf.sequence_mask(lengths[1], shape[2])[:, None, :]
    )
    segment, *places = tf.unstack(tf.cast(tf.where(is_real), tf.int32), axis=1)
    indices = [tf.gather(start, segment) + x for start, x in zip(starts, places, strict=True)]
    longest = [tf.reduce_max(tf.concat([total, [0]], axis=0)) for total in totals]
    return tf.scatter_nd(
        tf.stack([tf.gather(row, segment), *indices], axis=1),
        tf.boolean_mask(attention, is_real),
        (batch, *longest),
    )


def _with_reason(refused, where, reason):
    """`refused`, with a reason for some of the rows that have none yet."""
    return tf.where((refused == "") & where, reason, refused)


def _repeated(ragged, times):
    """Each row as many times."""
    return tf.gather(ragged, tf.repeat(tf.range(ragged.nrows()), times))


def _hashes(ids):
    """An int32 hash of each row of ragged ids."""
    strings = ids.with_values(tf.strings.as_string(ids.flat_values))
    joined_ids = tf.strings.reduce_join(strings, axis=1, separator=" ")
    return tf.cast(tf.strings.to_hash_bucket_fast(joined_ids, 2**31 - 1), tf.int32)
