"""Translation, scoring and alignment of string tensors, all of it inside the graph."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from keras_mt.decoding import Constraints
from keras_mt.inference.confidence import CONFIDENCE_PARTS, confidence_of, confidence_parts
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.scores import attention_of_texts, shifted, token_log_probs
from keras_mt.inference.search import Rows, gathered, in_batches, padded, search
from keras_mt.inference.segments import Segmenter, joined
from keras_mt.inference.terms import annotated, continues_word
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer
from keras_mt.text.terms import parsed


class TranslationGraph:
    """Functions of string tensors, to be traced by `tf.function`: `translate`, `score`, `align`.

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
        split_sentences = options.split_sentences is not False
        self.segmenter = Segmenter(tokenizer, predictor.max_length, split_sentences)
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
        terms: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Translates texts, strings `[batch]`.

        Args:
            text, prefix: The texts, and what each translation begins with. A row is refused whose
                text and prefix both have several segments: which belong together is unknown.
            token_scores, confidence: Whether to return the outputs below.
            languages: The rows' languages: see the class.
            terms: For each text lines as `keras_mt.text.terms.parsed` takes them: each translation
                holds these terms, and the spans that the options keep. None for neither. A row with
                a line that is no term, or a term that cannot be, is refused.

        Returns:
            `translations` and `scores` `[batch, n_best]`, and `refused` `[batch]`. With
            `token_scores` also `tokens` and `log_probs` `[batch, n_best, length]`, padded, and
            `lengths`. With `confidence` also `mean_log_probs` with the end; `worst_log_probs`,
            their minimum, and `worst_tokens`, its token; `loops` (a sequence of tokens repeats over
            and over, and none in the source does) and `disproportionate` (source and translation
            differ much in length).
        """
        text, languages, refused = self._admitted(text, languages)
        has_prefix = False if prefix is None else tf.strings.length(tf.strings.strip(prefix)) > 0
        terms = None if terms is None else parsed(terms)
        segments = self._segments(text, has_prefix, terms)
        columns = {"languages": gathered(languages, segments.row)}
        if terms is not None:
            columns["terms"], row = segments.terms, segments.refused.row
            counts = tf.math.unsorted_segment_sum(tf.ones_like(row), row, tf.shape(text)[0])
            refused |= terms.malformed | (counts > 0)
        if prefix is not None:
            columns["prefix"], impossible = self.segmenter.prefixes(prefix, segments)
            refused |= impossible
        columns["refused"] = tf.gather(refused, segments.row)
        outputs = self._translate_segments(segments.pieces, columns, token_scores, confidence)
        outputs = joined(outputs, segments, self.options.length_penalty)
        if confidence:
            parts = {name: outputs.pop(name) for name in CONFIDENCE_PARTS}
            outputs |= confidence_of(parts, outputs["scores"], self.tokenizer)
        return {**outputs, "refused": refused}

    def _segments(self, text, has_prefix, terms):
        limit = self.segmenter.target_limit
        if self.options.max_length is not None:
            limit = min(limit, self.options.max_length - self._forced - 1)
        return self.segmenter.segments(text, has_prefix, terms, self.options.kept_kinds, limit)

    def refused_terms(self, text: str, terms: str) -> list[tuple[str, str]]:
        """The terms of a text that cannot be in its translation: their sources and targets."""
        refused = self._segments(tf.constant([text]), False, parsed(tf.constant([terms]))).refused
        columns = ([x.decode() for x in column.numpy()] for column in refused[1:])
        return list(zip(*columns, strict=True))

    def score(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """The log-probabilities of given translations' tokens, `[batch, length]`, padded.

        If both sides have the same number of lines, each line is scored separately. A refused row
        has no tokens.
        """
        text, languages, refused = self._admitted(text, languages)
        source, target, row, too_long = self.segmenter.pairs(text, target, ~refused)
        languages = gathered(languages, row)
        ids = self.tokenizer.target_ids(target, *languages[1:])
        source = self._padded(self.tokenizer.source_ids(source, *languages)).ids
        target = self._padded(ids)
        log_probs = token_log_probs(self.predictor, source, target, self.tokenizer.bos_id)
        ids = ids[:, self._forced :]
        log_probs = tf.RaggedTensor.from_tensor(log_probs[:, self._forced :], ids.row_lengths())
        ids, log_probs = (_of_texts(x, row, tf.shape(text)[0]) for x in (ids, log_probs))
        return {
            "tokens": ids.to_tensor(self.tokenizer.padding_id),
            "log_probs": log_probs.to_tensor(),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "refused": refused | too_long,
        }

    def align(
        self, text: tf.Tensor, target: tf.Tensor, languages: tuple[tf.Tensor, ...] = ()
    ) -> dict[str, tf.Tensor]:
        """The attention of each row's target over its source.

        Where the target is empty, the text's own translation is aligned, and the text is cut into
        segments as by `translate`. Each segment attends only to its own source. Returns the
        `attention` `[batch, target_tokens, source_tokens]`, padded, and the tokens and lengths of
        both sides; those of a refused row are 0.
        """
        tokenizer, batch = self.tokenizer, tf.shape(text)[0]
        text, languages, refused = self._admitted(text, languages)
        to_translate = (tf.strings.length(target) == 0) & ~refused
        target = tf.strings.unicode_transcode(target, "UTF-8", "UTF-8", errors="replace")
        # Rows whose target is given need no translation.
        segments = self.segmenter.segments(text).of_texts(to_translate)
        columns = {"refused": tf.zeros_like(segments.row, tf.bool)}
        columns["languages"] = gathered(languages, segments.row)
        outputs = self._translate_segments(segments.pieces, columns)
        whole = joined(outputs, segments, self.options.length_penalty)
        place = tf.gather(whole["place"][:, :1], segments.row)
        written = tf.gather(outputs["translations"], place, batch_dims=1)[:, 0]
        translated = tokenizer.target_pieces(written)[:, : self.segmenter.target_limit]
        source, given, row, too_long = self.segmenter.pairs(text, target, ~refused & ~to_translate)
        row = tf.concat([segments.row, row], axis=0)
        order = tf.argsort(row, stable=True)
        row = tf.gather(row, order)
        source = tf.gather(tf.concat([segments.pieces, source], axis=0), order)
        pieces = tf.gather(tf.concat([translated, given], axis=0), order)
        languages = gathered(languages, row)
        source = tokenizer.source_ids(source, *languages)
        ids = tokenizer.target_ids(pieces, *languages[1:])
        inputs = shifted(self._padded(ids).ids, tokenizer.bos_id)
        attention = self.predictor.attention(self._padded(source).ids, inputs)[:, self._forced :]
        ids = ids[:, self._forced :]
        refused |= too_long
        translations = tf.where(to_translate, whole["translations"][:, 0], target)
        outputs = {
            "translations": tf.where(refused, "", translations),
            "attention": attention_of_texts(attention, ids, source, row, batch),
            "refused": refused,
        }
        for side, tokens, id_to_string in (
            ("source", source, tokenizer.source_id_to_string),
            ("target", ids, tokenizer.id_to_string),
        ):
            pieces = _of_texts(tokens.with_values(id_to_string(tokens.flat_values)), row, batch)
            outputs[f"{side}_tokens"] = pieces.to_tensor("")
            outputs[f"{side}_lengths"] = tf.cast(pieces.row_lengths(), tf.int32)
        return outputs

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

    def _translate_segments(self, pieces, columns, token_scores=False, confidence=False):
        """Translates pieces, ragged `[segments, (tokens)]`, with columns `[segments, ...]`.

        The outputs are those of `_translate_batch`, for all segments.
        """
        dtypes = {"translations": tf.string, "scores": tf.float32, "lengths": tf.int32}
        if confidence:
            dtypes |= {name: dtype for name, (dtype, _) in CONFIDENCE_PARTS.items()}
        n_best = self.options.n_best
        empty = {name: tf.zeros((0, n_best), dtype) for name, dtype in dtypes.items()}
        if token_scores:
            empty["tokens"] = tf.zeros((0, n_best, 0), tf.int32)
            empty["log_probs"] = tf.zeros((0, n_best, 0))
        translate = functools.partial(
            self._translate_batch, token_scores=token_scores, confidence=confidence
        )
        padding = {"tokens": self.tokenizer.padding_id}
        return in_batches(translate, pieces, columns, empty, padding, self.options.beams)

    def _translate_batch(
        self,
        pieces,
        refused,
        languages,
        token_scores,
        confidence,
        prefix=None,
        terms=None,
    ):
        tokenizer, empty = self.tokenizer, pieces.row_lengths() == 0
        if prefix is not None:  # A decoder-only model may have nothing but the prefix.
            empty &= prefix.row_lengths() == 0
        arguments = {}
        if prefix is not None or self._forced:
            begun = pieces[:, :0] if prefix is None else prefix
            arguments["prefix"] = tokenizer.target_ids(begun, *languages[1:])[:, :-1]
        if self._forced:
            arguments["forced_length"] = tf.fill((pieces.nrows(),), self._forced)
        read, terms = self._annotated(pieces, terms)
        source = tokenizer.source_ids(read, *languages)
        if self.options.samples:
            arguments["row_seeds"] = _hashes(source)
        source, pieces = self._padded(source).ids, self._padded(pieces)
        if terms is not None:
            arguments["constraints"] = self._constraints(terms, tf.shape(source)[1])
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
            "tokens": hypotheses.tokens,
        }
        if token_scores or confidence:
            source = tf.repeat(source, n_best, axis=0)
            log_probs = token_log_probs(self.predictor, source, target, tokenizer.bos_id)
            outputs["log_probs"] = tf.reshape(log_probs, tf.shape(hypotheses.tokens))
        if confidence:
            parts = confidence_parts(pieces, target, log_probs, self._forced, tokenizer.eos_id)
            outputs |= {name: tf.reshape(x, (rows, n_best)) for name, x in parts.items()}
        return outputs

    def _annotated(self, pieces, terms):
        """What the model reads: the pieces, with terms behind their words if it has learned so."""
        markers = self.tokenizer.term_markers
        if terms is None or not self.predictor.reads_terms or not markers:
            return pieces, terms
        return annotated(pieces, terms, markers, self.segmenter.source_limit)

    def _constraints(self, terms, source_length):
        # The batch may have fewer terms than others.
        count = tf.math.count_nonzero(tf.reduce_any(terms.tokens >= 0, axis=(0, 2)))
        tokens, words, kept = (x[:, :count] for x in (terms.tokens, terms.words, terms.kept))
        source = terms._replace(words=words).source(self.segmenter.before_pieces, source_length)
        return Constraints(tokens, source, self._continues_word, kept)

    @functools.cached_property
    def _continues_word(self):
        with tf.init_scope():
            return continues_word(self.tokenizer)

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
