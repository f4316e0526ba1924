"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.inference.confidence import CONFIDENCE_PARTS, confidence_of, confidence_parts
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.scores import attention_of_texts, shifted, token_log_probs
from keras_mt.inference.search import Rows, gathered, in_batches, padded, search
from keras_mt.inference.segments import Segmenter, joined
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer


class TranslationGraph:
    """Functions of string tensors, to be traced by `tf.function`: `translate`, `score`, `align`.

    In texts, no sentence ends at U+0003 before white space; and for models that read terms, one may
    stand behind its word, between U+0001 and U+0002.

    If the tokenizer has languages, each takes `languages`: two string tensors `[batch]`, the codes
    of source and target, "" for the default. `pair` has the only codes that are allowed.
    """

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: BaseTokenizer,
        options: TranslationOptions,
        pair: Sequence[str] | None = None,
    ):
        self.predictor, self.tokenizer, self.options = predictor, tokenizer, options
        split_sentences = options.split_sentences
        reads_terms, limit = predictor.reads_terms, predictor.max_length
        self.segmenter = Segmenter(tokenizer, limit, split_sentences, reads_terms)
        self._forced = self.segmenter.forced
        # The codes that a row may have on each side.
        self._codes = [list(tokenizer.languages)] * 2 if pair is None else [[c] for c in pair]

    @functools.cached_property
    def aligns(self) -> bool:
        """Whether any of the models has attention weights to align by."""
        tokens = tf.fill((1, 2), self.tokenizer.eos_id)
        return self.predictor.attention(tokens, tokens) is not None

    def translate(
        self,
        text: tf.Tensor,
        prefix: tf.Tensor | None = None,
        token_scores: bool = False,
        confidence: bool = False,
        languages: tuple[tf.Tensor, ...] = (),
        attention: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Translates texts, strings `[batch]`.

        Args:
            text, prefix: The texts, and what each translation begins with. A row is refused whose
                text and prefix both have several segments: which belong together is unknown.
            token_scores, confidence, attention: Whether to return the outputs below.
            languages: The rows' languages: see the class.

        Returns:
            `translations` and `scores` `[batch, n_best]`, and `refused` `[batch]`. With
            `token_scores` also `tokens` (strings) and `log_probs` `[batch, n_best, length]`,
            padded, and `lengths`. With `confidence` also `mean_log_probs` with the end;
            `worst_log_probs`, their minimum, and `worst_tokens`, its token; `loops` (a sequence of
            tokens repeats over and over, and none in the source does) and `disproportionate`
            (source and translation differ much in length). With `attention` also the outputs of
            `align` for each hypothesis: the tokens and lengths of both sides, and `attention`
            `[batch, n_best, target_tokens, source_tokens]`, if the model has any.
        """
        text, languages, refused = self._admitted(text, languages)
        has_prefix = False if prefix is None else tf.strings.length(tf.strings.strip(prefix)) > 0
        segments = self.segmenter.segments(text, has_prefix)
        columns = {}
        if prefix is not None:
            columns["prefix"], impossible = self.segmenter.prefixes(prefix, segments)
            refused |= impossible
        flags = {"token_scores": token_scores, "confidence": confidence}
        outputs, parts = self._translate_segments(segments, languages, refused, columns, **flags)
        if confidence:
            measured = {name: outputs.pop(name) for name in CONFIDENCE_PARTS}
            outputs |= confidence_of(measured, outputs["scores"], self.tokenizer)
        if attention:
            pairs = self._pairs(segments, parts, outputs["scores"])
            outputs |= self._aligned(*pairs, languages, *tf.unstack(tf.shape(outputs["scores"])))
        return {**outputs, "refused": refused}

    def score(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """The log-probabilities of given translations' tokens, `[batch, length]`, padded.

        If both sides have the same number of lines, each line is scored separately, and likewise
        the sentences of a line. A refused row has no tokens.
        """
        text, languages, refused = self._admitted(text, languages)
        batch = tf.shape(text)[0]
        source, target, row, too_long = self.segmenter.pairs(text, target, ~refused)
        source, ids = self._ids(source, target, row, languages)

        def scored(source, target):
            rows = self._padded(source).ids, self._padded(target)
            return {"log_probs": token_log_probs(self.predictor, *rows, self.tokenizer.bos_id)}

        log_probs = self._in_small_batches(scored, source, ids, log_probs=tf.zeros((0, 0)))
        ids = ids[:, self._forced :]
        log_probs = tf.RaggedTensor.from_tensor(log_probs[:, self._forced :], ids.row_lengths())
        ids, log_probs = (_of_texts(x, row, batch) for x in (ids, log_probs))
        tokens = ids.with_values(self.tokenizer.id_to_string(ids.flat_values))
        return {
            "tokens": tokens.to_tensor(""),
            "log_probs": log_probs.to_tensor(),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "refused": refused | too_long,
        }

    def align(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """The attention of each row's target over its source.

        Where the target is empty, the text's own translation is aligned, segment by segment; a
        given one as by `score`. Each segment attends only to its own source, and has its own end.
        Returns the `attention` `[batch, target_tokens, source_tokens]`, padded, and the tokens and
        lengths of both sides; those of a refused row are 0. `scores` are those of own translations,
        0 for given ones.
        """
        batch = tf.shape(text)[0]
        text, languages, refused = self._admitted(text, languages)
        own = (tf.strings.length(target) == 0) & ~refused
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        # Rows whose target is given need no translation.
        segments = self.segmenter.segments(tf.where(own, text, ""))
        outputs, parts = self._translate_segments(segments, languages, refused)
        best = tf.where(own, outputs["scores"][:, 0], NO_HYPOTHESIS)
        *given, too_long = self.segmenter.pairs(text, target, ~refused & ~own)
        pairs = zip(self._pairs(segments, parts[:, :1], best[:, None]), given, strict=True)
        aligned = self._aligned(*(tf.concat(x, axis=0) for x in pairs), languages, batch, 1)
        refused |= too_long
        translations = tf.where(own, outputs["translations"][:, 0], target)
        scores = tf.where(own, best, 0.0)
        return {
            "translations": tf.where(refused, "", translations),
            "scores": tf.where(refused, NO_HYPOTHESIS, scores),
            **{name: tensor[:, 0] for name, tensor in aligned.items()},
            "refused": refused,
        }

    def _pairs(self, segments, parts, scores):
        """The pieces of segments and of their translations in hypotheses, and the rows of these.

        Of each hypothesis `[batch, n_best]` its `scores`, and `[segments, n_best]` its `parts`.
        """
        n_best = tf.shape(scores)[1]
        exists = tf.gather(scores > NO_HYPOTHESIS, segments.row)
        row = (segments.row[:, None] * n_best + tf.range(n_best))[exists]
        source = tf.gather(segments.pieces, tf.where(exists)[:, 0])
        target = self.tokenizer.target_pieces(parts[exists])
        return source, target[:, : self.segmenter.target_limit], row

    def _aligned(self, source, target, row, languages, batch, n_best):
        """What `align` says of pairs of pieces, `[batch, n_best, ...]`; `row` counts them all."""
        order = tf.argsort(row, stable=True)
        source, target, row = gathered((source, target, row), order)
        source, target = self._ids(source, target, row // n_best, languages)
        attention = self._attention(source, target) if self.aligns else None
        target, rows, outputs = target[:, self._forced :], batch * n_best, {}
        if attention is not None:
            outputs["attention"] = attention_of_texts(attention, target, source, row, rows)
        for side, ids, id_to_string in (
            ("source", source, self.tokenizer.source_id_to_string),
            ("target", target, self.tokenizer.id_to_string),
        ):
            pieces = _of_texts(ids.with_values(id_to_string(ids.flat_values)), row, rows)
            outputs[f"{side}_tokens"] = pieces.to_tensor("")
            outputs[f"{side}_lengths"] = tf.cast(pieces.row_lengths(), tf.int32)
        shapes = {name: tf.unstack(tf.shape(x))[1:] for name, x in outputs.items()}
        return {n: tf.reshape(x, (batch, n_best, *shapes[n])) for n, x in outputs.items()}

    def _attention(self, source, target):
        """The attention of targets over sources, `[rows, target_length, source_length]`, padded."""

        def attend(source, target):
            inputs = shifted(self._padded(target).ids, self.tokenizer.bos_id)
            attention = self.predictor.attention(self._padded(source).ids, inputs)
            return {"attention": attention[:, self._forced :]}

        return self._in_small_batches(attend, source, target, attention=tf.zeros((0, 0, 0)))

    def _in_small_batches(self, function, source, target, **empty):
        """The output of a function of ragged ids: in small batches, fewer are padding."""
        (output,) = in_batches(function, source, {"target": target}, empty, beams=32).values()
        return output

    def _ids(self, source, target, row, languages):
        """The ids of both sides, from their pieces, with the languages of their rows."""
        languages = gathered(languages, row)
        source = self.tokenizer.source_ids(source, *languages)
        return source, self.tokenizer.target_ids(target, *languages[1:])

    def _admitted(self, text, languages):
        """The texts and their languages, and which rows are refused, boolean `[batch]`.

        The text of a refused row is empty, and its languages are known ones.
        """
        lengths = tf.ragged.map_flat_values(tf.strings.length, tf.strings.split(text, "\n"))
        refused = tf.reduce_max(lengths, axis=1) > self.options.max_line_bytes
        if languages:
            defaults = self.options.source_language, self.options.target_language
            languages = [
                tf.where(given == "", default or "", given)
                for given, default in zip(languages, defaults, strict=True)
            ]
            for given, codes in zip(languages, self._codes, strict=True):
                refused |= ~tf.reduce_any(given[:, None] == codes, axis=1)
            languages = tuple(
                tf.where(refused, codes[0], given)
                for codes, given in zip(self._codes, languages, strict=True)
            )
        return tf.where(refused, "", text), languages, refused

    def _translate_segments(
        self, segments, languages, refused, columns=None, token_scores=False, confidence=False
    ):
        """The outputs of `joined` for texts' segments, with further columns `[segments, ...]`."""
        row_columns = {"languages": languages, "refused": refused}
        columns = gathered(row_columns, segments.row) | (columns or {})
        dtypes = {"translations": tf.string, "scores": tf.float32, "lengths": tf.int32}
        if confidence:
            dtypes |= {name: dtype for name, (dtype, _) in CONFIDENCE_PARTS.items()}
        n_best = self.options.n_best
        empty = {name: tf.zeros((0, n_best), dtype) for name, dtype in dtypes.items()}
        if token_scores:
            empty["tokens"] = tf.zeros((0, n_best, 0), tf.string)
            empty["log_probs"] = tf.zeros((0, n_best, 0))
        translate = functools.partial(
            self._translate_batch, token_scores=token_scores, confidence=confidence
        )
        outputs = in_batches(translate, segments.pieces, columns, empty, self.options.beams)
        return joined(outputs, segments, self.options.length_penalty)

    def _translate_batch(self, pieces, refused, languages, token_scores, confidence, prefix=None):
        tokenizer, empty = self.tokenizer, pieces.row_lengths() == 0
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            empty &= prefix.row_lengths() == 0
        arguments = {}
        if prefix is not None or self._forced:
            begun = pieces[:, :0] if prefix is None else prefix
            arguments["prefix"] = tokenizer.target_ids(begun, *languages[1:])[:, :-1]
        if self._forced:
            arguments["forced_length"] = tf.fill((pieces.nrows(),), self._forced)
        source = tokenizer.source_ids(pieces, *languages)
        if self.options.samples:
            arguments["row_seeds"] = _hashes(source)
        source, pieces = self._padded(source).ids, self._padded(pieces)
        hypotheses = search(
            self.predictor,
            tokenizer,
            self.options,
            source,
            pieces.lengths,
            refused | empty,
            **arguments,
        )
        rows, n_best, length = tf.unstack(tf.shape(hypotheses.tokens))
        target = Rows(
            tf.reshape(hypotheses.tokens, (rows * n_best, length)),
            tf.reshape(hypotheses.lengths, (rows * n_best,)),
        )
        translations = tokenizer.text(tf.RaggedTensor.from_tensor(*target))
        first = tf.range(self.options.n_best)[None] == 0  # The translation of nothing is nothing.
        nothing = (empty & ~refused)[:, None] & first
        outputs = {
            "translations": tf.reshape(translations, (rows, n_best)),
            "scores": tf.where(nothing, 0.0, hypotheses.scores),
            "lengths": hypotheses.lengths,
        }
        if token_scores:
            strings = tokenizer.id_to_string(tf.reshape(target.ids, (-1,)))
            outputs["tokens"] = tf.reshape(strings, tf.shape(hypotheses.tokens))
        if token_scores or confidence:
            source = tf.repeat(source, n_best, axis=0)
            log_probs = token_log_probs(self.predictor, source, target, tokenizer.bos_id)
            outputs["log_probs"] = tf.reshape(log_probs, tf.shape(hypotheses.tokens))
        if confidence:
            parts = confidence_parts(pieces, target, log_probs, self._forced, tokenizer.eos_id)
            outputs |= {name: tf.reshape(x, (rows, n_best)) for name, x in parts.items()}
        return outputs

    def _padded(self, ids):
        return padded(ids, self.tokenizer.padding_id)


def _of_texts(tokens, row, batch):
    """Ragged `[batch, (tokens)]` from that of segments, of which `row` says the texts."""
    row = tf.gather(row, tokens.value_rowids())
    return tf.RaggedTensor.from_value_rowids(tokens.flat_values, row, batch)


def _hashes(ids):
    """An int32 hash of each row of ragged ids."""
    strings = ids.with_values(tf.strings.as_string(ids.flat_values))
    joined_ids = tf.strings.reduce_join(strings, axis=1, separator=" ")
    return tf.cast(tf.strings.to_hash_bucket_fast(joined_ids, 2**31 - 1), tf.int32)
