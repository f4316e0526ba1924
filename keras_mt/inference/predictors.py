"""The `Predictor` that a search, a score or an alignment asks, of one model or several."""

import contextlib
import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf

from keras_mt.alignment.shortlist import Shortlist, Vocabulary
from keras_mt.inference.constants import ConstantScope
from keras_mt.models import Seq2Seq


class Predictor:
    """Predicts the next token, by one model or by the mean log-probability of several.

    What uses it does not know whether there are several, whether they have a shortlist, and whether
    their weights are constants. A shortlist is for a search alone: scores and attention are without
    it. `gives_logits` says whether `step` gives logits, or log-probabilities.
    """

    _scope: contextlib.AbstractContextManager = contextlib.nullcontext()
    _vocabulary: Vocabulary | None = None  # The tokens that `step` is restricted to.

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

    def frozen(self, what: str, instead: str) -> Self:
        """The predictor with its variables as constants of the graphs that it is traced into.

        TensorFlow packs constants for matrix products once, instead of at each step, and there are
        faster operations for them; they take more memory. `what` and `instead`: see `check_size`.
        """
        return self._with_constants(ConstantScope(self.variables, what, instead))

    def with_constant_vectors(self) -> Self:
        """The predictor with its biases, and scales of normalisations, as constants of the graphs.

        TensorFlow has a faster operation for a normalisation by constants; they are small.
        """
        vectors = [variable for variable in self.variables if len(variable.shape) == 1]
        return self._with_constants(ConstantScope(vectors, "The export", "use a smaller model"))

    def _with_constants(self, scope):
        constant = copy.copy(self)
        constant._scope = scope
        return constant

    def for_batch(
        self, source: tf.Tensor, special_ids: Sequence[int], prefix: tf.Tensor | None
    ) -> Self:
        """The predictor to search the sources of one batch with: with a shortlist, of few tokens.

        Each row's probabilities are over its own tokens, `special_ids` and those of the prefix
        `[rows, length]` among them.
        """
        if self._shortlist is None:
            return self
        restricted = copy.copy(self)
        with self._scope:
            restricted._vocabulary = self._shortlist.vocabulary(
                source, special_ids, self.target_vocab_size, prefix
            )
            ids = restricted._vocabulary.ids
            restricted._steps = [model.decode_step_for(ids) for model in self.models]
        return restricted

    def index(self, ids: Any) -> Any:
        """The index of each id, in a tensor or as an int, among the tokens of `step`."""
        return ids if self._vocabulary is None else self._vocabulary.index(ids)

    def id(self, indices: Any) -> Any:
        """The id at each index."""
        return indices if self._vocabulary is None else self._vocabulary.id(indices)

    def start(self, source: tf.Tensor, beams: int) -> dict[str, Any]:
        """The cache of the first `step`."""
        with self._scope:
            cache = {"models": [model.start_decoding(source, beams) for model in self.models]}
        if self._vocabulary is not None:
            cache["penalties"] = tf.where(self._vocabulary.allowed, 0.0, -math.inf)
        return cache

    def step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: dict[str, Any], mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, dict[str, Any]]:
        """Logits or log-probabilities of the next token, and the next cache."""
        tokens, logits, parts = self.id(tokens), [], []
        with self._scope:
            for step, before in zip(self._steps, cache["models"], strict=True):
                outputs, part = step(tokens, position, before, mask)
                logits.append(outputs)
                parts.append(part)
        if "penalties" in cache:
            logits = [x + tf.cast(cache["penalties"][:, None], x.dtype) for x in logits]
        logits = logits[0] if self.gives_logits else _mean(map(_log_probs, logits))
        return logits, {**cache, "models": parts}

    def reorder(self, cache: dict[str, Any], parents: tf.Tensor) -> dict[str, Any]:
        """The cache of the hypotheses that live on."""
        with self._scope:
            parts = [
                model.reorder_cache(part, parents)
                for model, part in zip(self.models, cache["models"], strict=True)
            ]
        return {**cache, "models": parts}

    def score(self, source: tf.Tensor, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Log-probabilities of `targets` `[rows, length]`, each after the `inputs` up to it."""
        inputs = {"source": source, "target": inputs}
        with self._scope:
            return _mean(
                tf.gather(_log_probs(model(inputs)), targets, batch_dims=2) for model in self.models
            )

    def attention(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor | None:
        """The attention of each input over the source; None where there is none."""
        with self._scope:
            weights = [model.attention(source, inputs) for model in self.models]
        weights = [tf.cast(x, tf.float32) for x in weights if x is not None]
        return _mean(weights) if weights else None


def _log_probs(logits):
    return tf.nn.log_softmax(tf.cast(logits, tf.float32))


def _mean(tensors):
    tensors = list(tensors)
    return tensors[0] if len(tensors) == 1 else tf.add_n(tensors) / len(tensors)
