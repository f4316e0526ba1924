"""The `Predictor` that a search, a score or an alignment asks, of one model or several."""

import contextlib
import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from keras_mt.alignment.shortlist import Shortlist, Vocabulary
from keras_mt.decoding import Hypotheses, beam_search
from keras_mt.inference.constants import ConstantScope
from keras_mt.inference.in_place import InPlaceScope, quantized
from keras_mt.layers.layer import inner_layers
from keras_mt.models import Seq2Seq
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer


class Predictor:
    """Predicts the next token, by one model or by the mean log-probability of several.

    Its users need not know how many there are, and whether weights are constants. A shortlist is
    for the search alone. `gives_logits` says whether `decode_step` gives logits, or
    log-probabilities.
    """

    _scope: contextlib.AbstractContextManager = contextlib.nullcontext()
    _block = 0  # The positions that the cache of a search grows by at once; 0 for one.
    _vocabulary: Vocabulary | None = None  # The tokens that `decode_step` is restricted to.

    def __init__(self, models: Sequence[Seq2Seq], shortlist: Shortlist | None = None):
        self.models, self._shortlist = list(models), shortlist
        self.variables = [variable for model in models for variable in model.variables]
        self.variables += shortlist.variables if shortlist else []
        self.max_length = min(model.max_length for model in models)
        self.target_vocab_size = models[0].target_vocab_size
        self.gives_logits, self.has_shortlist = len(self.models) == 1, shortlist is not None
        # A head that aligns words was chosen or taught in all of them.
        self.trusted_attention = all(getattr(m, "alignment_head", None) for m in models)
        self.reads_terms = all(model.reads_terms for model in models)
        self._steps = [model.decode_step for model in models]

    def in_place(self, block: int, in_8_bits: bool = False) -> Self:
        """The predictor for a search whose cache grows by blocks, as is fast in LiteRT."""
        layers = [layer for model in self.models if in_8_bits for layer in inner_layers(model)]
        tables = [x.embeddings for x in layers if isinstance(x, keras.layers.Embedding)]
        predictor = self._with_scope(InPlaceScope({id(x): quantized(x.numpy()) for x in tables}))
        predictor._block = block
        return predictor

    def with_constant_vectors(self) -> Self:
        """The predictor with biases and scales as constants: normalization by these is faster."""
        vectors = [variable for variable in self.variables if len(variable.shape) == 1]
        return self._with_scope(ConstantScope(vectors))

    def _with_scope(self, scope):
        predictor = copy.copy(self)
        predictor._scope = scope
        return predictor

    def search(
        self,
        tokenizer: BaseTokenizer,
        options: TranslationOptions,
        forced_length: int,
        source: tf.Tensor | tf.RaggedTensor,
        lengths: tf.Tensor,
        skipped: tf.Tensor,
        prefix: tf.Tensor | tf.RaggedTensor | None = None,
        row_seeds: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Searches for the translations of rows of source ids `[rows, length]`.

        `lengths` `[rows]` are their numbers of pieces, without special ids. The `prefix` of each
        row begins with the forced ids; a dense one has -1 after it.
        """
        source = _dense(source, tokenizer.padding_id)
        max_length = _max_lengths(options, lengths, self.max_length)
        if prefix is not None:
            prefix = _dense(prefix, -1)
            room = tf.math.count_nonzero(prefix >= 0, axis=1, dtype=tf.int32) + 1
            max_length = tf.maximum(max_length, tf.minimum(room, self.max_length))
        special = {name: getattr(tokenizer, name) for name in ("bos_id", "eos_id", "padding_id")}
        forbidden = tokenizer.forbidden_ids
        predictor = copy.copy(self)
        if self._shortlist is not None:
            predictor._restrict(source, sorted({*special.values(), *forbidden}), prefix)
        if prefix is not None:
            prefix = tf.where(prefix < 0, -1, predictor.index(tf.maximum(prefix, 0)))
        hypotheses = beam_search(
            predictor.decode_step,
            predictor.start_decoding(source, options.beams),
            tf.where(skipped, 0, max_length),
            prefix=prefix,
            forced_length=forced_length,
            row_seeds=row_seeds,
            reorder=predictor.reorder_cache,
            gives_logits=self.gives_logits,
            block=self._block,
            forbidden_ids=[predictor.index(i) for i in forbidden],
            **{name: predictor.index(i) for name, i in special.items()},
            **options.search_arguments(),
        )
        return hypotheses._replace(tokens=predictor.id(hypotheses.tokens))

    def _restrict(self, source, special_ids, prefix):
        """Restricts `decode_step` to the shortlist's tokens for the sources of one batch.

        These are `special_ids` and, for each row, its own and those of its prefix `[rows, length]`.
        """
        arguments = source, special_ids, self.target_vocab_size, prefix
        with self._scope:
            self._vocabulary = self._shortlist.vocabulary(*arguments)
            self._steps = [model.decode_step_for(self._vocabulary.ids) for model in self.models]

    def index(self, ids: Any) -> Any:
        """The index of each id, in a tensor or as an int, among the tokens of `decode_step`."""
        return ids if self._vocabulary is None else self._vocabulary.index(ids)

    def id(self, indices: Any) -> Any:
        """The id at each index."""
        return indices if self._vocabulary is None else self._vocabulary.id(indices)

    def start_decoding(self, source: tf.Tensor, beams: int) -> dict[str, Any]:
        """The cache of the first `decode_step`."""
        with self._scope:
            cache = {"models": [model.start_decoding(source, beams) for model in self.models]}
        if self._vocabulary is not None:
            cache["penalties"] = tf.where(self._vocabulary.allowed, 0.0, -math.inf)
        return cache

    def decode_step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: dict[str, Any], mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, dict[str, Any]]:
        """Logits or log-probabilities of the next token, and the next cache."""
        tokens, logits, parts = self.id(tokens), [], []
        scope = self._scope.at(position * tokens.shape[1]) if self._block else self._scope
        with scope:
            for step, before in zip(self._steps, cache["models"], strict=True):
                outputs, part = step(tokens, position, before, mask)
                logits.append(outputs)
                parts.append(part)
        if "penalties" in cache:
            logits = [x + tf.cast(cache["penalties"][:, None], x.dtype) for x in logits]
        logits = logits[0] if self.gives_logits else _mean(map(_log_probs, logits))
        return logits, {**cache, "models": parts}

    def reorder_cache(self, cache: dict[str, Any], parents: tf.Tensor) -> dict[str, Any]:
        """The cache of the hypotheses that live on."""
        with self._scope:
            parts = [
                model.reorder_cache(part, parents)
                for model, part in zip(self.models, cache["models"], strict=True)
            ]
        return {**cache, "models": parts}

    def score(self, source: tf.Tensor, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Log-probabilities of `targets` `[rows, length]`, each after the `inputs` up to it."""
        read = {"source": source, "target": inputs}
        with self._scope:
            return _mean(
                tf.gather(_log_probs(model(read)), targets, batch_dims=2) for model in self.models
            )

    def attention(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor | None:
        """The attention of each input over the source; None where there is none."""
        with self._scope:
            weights = [model.attention(source, inputs) for model in self.models]
        weights = [tf.cast(x, tf.float32) for x in weights if x is not None]
        return _mean(weights) if weights else None


def _dense(rows, padding):
    return rows.to_tensor(padding) if isinstance(rows, tf.RaggedTensor) else rows


def _max_lengths(options, lengths, limit):
    """The maximum numbers of tokens of translations, of sources of `lengths` pieces."""
    if options.max_length is not None:
        return tf.fill(tf.shape(lengths), options.max_length)
    max_length = 2 * lengths + 10
    if options.max_length_factor is not None:
        with_end = tf.cast(lengths + 1, tf.float32)
        max_length = tf.cast(tf.math.ceil(options.max_length_factor * with_end), tf.int32)
    return tf.minimum(tf.maximum(max_length, options.min_length), limit)


def _log_probs(logits):
    return tf.nn.log_softmax(tf.cast(logits, tf.float32))


def _mean(tensors):
    tensors = list(tensors)
    return tensors[0] if len(tensors) == 1 else tf.add_n(tensors) / len(tensors)
