"""What a search, a score or an alignment asks of a model: a `Predictor` of the next token.

`Ensemble` is one model or the mean of several, `Shortlisted` computes the logits of few tokens, and
`Constant` has its weights in the graph. What uses a predictor does not know which it is.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_mt.alignment.shortlist import Shortlist, Vocabulary
from keras_mt.inference.constants import ConstantScope
from keras_mt.models import Seq2Seq


class WholeVocabulary:
    """All target tokens: the index of each is its id. `Vocabulary` is that of a shortlist."""

    def index(self, ids: Any) -> Any:
        """The index of each id, in a tensor or as an int."""
        return ids

    def id(self, indices: Any) -> Any:
        """The id at each index."""
        return indices


class Predictor:
    """What a search, a score or an alignment asks; see `Seq2Seq` for the tensors.

    Attributes:
        variables: The Keras variables that it reads.
        max_length: The maximum length of a source or a target, special ids included.
        target_vocab_size: Number of target tokens.
        gives_logits: Whether `step` gives logits; False for log-probabilities.
        vocabulary: The tokens that `step` takes and predicts, by their indices.
    """

    variables: list[Any]
    max_length: int
    target_vocab_size: int
    gives_logits: bool = True
    vocabulary: WholeVocabulary | Vocabulary = WholeVocabulary()

    def for_batch(
        self, source: tf.Tensor, special_ids: Sequence[int], prefix: tf.Tensor | None
    ) -> "Predictor":
        """The predictor to search the sources of one batch with: itself, or one of few tokens.

        Args:
            source: int32 `[rows, length]`.
            special_ids: Ids that it must have, whatever the source.
            prefix: int32 `[rows, length]`, ids that it must have for each row; or None.
        """
        return self

    def start(self, source: tf.Tensor, beams: int | tf.Tensor) -> Any:
        """The cache of the first `step`."""
        raise NotImplementedError

    def step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: Any, mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        """Logits or log-probabilities of the next token, and the next cache."""
        raise NotImplementedError

    def reorder(self, cache: Any, parents: tf.Tensor) -> Any:
        """The cache of the hypotheses that live on."""
        raise NotImplementedError

    def score(self, source: tf.Tensor, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Log-probabilities of `targets` `[rows, length]`, each after the `inputs` up to it."""
        raise NotImplementedError

    def attention(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor | None:
        """The attention of each input over the source; None where there is none."""
        raise NotImplementedError


class Ensemble(Predictor):
    """One model, or several whose log-probabilities are averaged.

    Args:
        models: `Seq2Seq` models with one vocabulary.
        vocabulary: The tokens that they are restricted to, or None for all.
    """

    def __init__(self, models: Sequence[Seq2Seq], vocabulary: Vocabulary | None = None):
        self.models = list(models)
        self.variables = [variable for model in models for variable in model.variables]
        self.max_length = min(model.max_length for model in models)
        self.target_vocab_size = models[0].target_vocab_size
        self.gives_logits = len(self.models) == 1
        self._decoders = self.models
        if vocabulary is not None:
            self.vocabulary = vocabulary
            self._decoders = [_Restricted(model, vocabulary) for model in models]

    def start(self, source: tf.Tensor, beams: int | tf.Tensor) -> list[Any]:
        return [decoder.start_decoding(source, beams) for decoder in self._decoders]

    def step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: list[Any], mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, list[Any]]:
        steps = [
            decoder.decode_step(tokens, position, part, mask)
            for decoder, part in zip(self._decoders, cache, strict=True)
        ]
        logits, cache = zip(*steps, strict=True)
        return logits[0] if self.gives_logits else _mean(map(_log_probs, logits)), list(cache)

    def reorder(self, cache: list[Any], parents: tf.Tensor) -> list[Any]:
        return [
            decoder.reorder_cache(part, parents)
            for decoder, part in zip(self._decoders, cache, strict=True)
        ]

    def score(self, source: tf.Tensor, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        inputs = {"source": source, "target": inputs}
        return _mean(
            tf.gather(_log_probs(model(inputs)), targets, batch_dims=2) for model in self.models
        )

    def attention(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor | None:
        weights = [model.attention(source, inputs) for model in self.models]
        weights = [tf.cast(x, tf.float32) for x in weights if x is not None]
        return _mean(weights) if weights else None


class _Restricted:
    """What a search asks of a model, with indices in a batch's `Vocabulary` for tokens."""

    def __init__(self, model: Seq2Seq, vocabulary: Vocabulary):
        self._model, self._vocabulary = model, vocabulary
        self._step = model.decode_step_for(vocabulary.ids)

    def start_decoding(self, source, beams):
        return self._model.start_decoding(source, beams), self._vocabulary.allowed

    def decode_step(self, tokens, position, cache, mask):
        cache, allowed = cache
        logits, cache = self._step(self._vocabulary.id(tokens), position, cache, mask)
        logits = tf.where(allowed[:, None], logits, tf.constant(-math.inf, logits.dtype))
        return logits, (cache, allowed)

    def reorder_cache(self, cache, parents):
        cache, allowed = cache
        return self._model.reorder_cache(cache, parents), allowed


class Shortlisted(Ensemble):
    """An ensemble whose search looks only at the tokens that the sources of a batch may need.

    Each row's probabilities are over its own tokens, so that they do not depend on the other rows.
    Scores and attention are those of the ensemble.

    Args:
        models: `Seq2Seq` models with one vocabulary.
        shortlist: The `Shortlist`.
    """

    def __init__(self, models: Sequence[Seq2Seq], shortlist: Shortlist):
        super().__init__(models)
        self.variables += shortlist.variables
        self._shortlist = shortlist

    def for_batch(
        self, source: tf.Tensor, special_ids: Sequence[int], prefix: tf.Tensor | None
    ) -> Predictor:
        size = self.target_vocab_size
        return Ensemble(self.models, self._shortlist.vocabulary(source, special_ids, size, prefix))


class Constant(Predictor):
    """A predictor whose variables are constants of the graphs that it is traced into.

    TensorFlow packs constants for matrix products once, instead of at each step, and there are
    faster operations for them; they take more memory.

    Args:
        predictor: The predictor.
        scope: The `ConstantScope` of its variables.
    """

    def __init__(self, predictor: Predictor, scope: ConstantScope):
        self._predictor, self._scope = predictor, scope
        self.variables, self.max_length = [], predictor.max_length
        self.target_vocab_size = predictor.target_vocab_size
        self.gives_logits, self.vocabulary = predictor.gives_logits, predictor.vocabulary

    def for_batch(
        self, source: tf.Tensor, special_ids: Sequence[int], prefix: tf.Tensor | None
    ) -> Predictor:
        with self._scope:
            predictor = self._predictor.for_batch(source, special_ids, prefix)
        return Constant(predictor, self._scope)

    def start(self, source: tf.Tensor, beams: int | tf.Tensor) -> Any:
        with self._scope:
            return self._predictor.start(source, beams)

    def step(
        self, tokens: tf.Tensor, position: tf.Tensor, cache: Any, mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, Any]:
        with self._scope:
            return self._predictor.step(tokens, position, cache, mask)

    def reorder(self, cache: Any, parents: tf.Tensor) -> Any:
        with self._scope:
            return self._predictor.reorder(cache, parents)

    def score(self, source: tf.Tensor, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with self._scope:
            return self._predictor.score(source, inputs, targets)

    def attention(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor | None:
        with self._scope:
            return self._predictor.attention(source, inputs)


def predictor_of(models: Sequence[Seq2Seq], shortlist: Shortlist | None = None) -> Predictor:
    """The predictor of models with one vocabulary, with a shortlist or without."""
    return Ensemble(models) if shortlist is None else Shortlisted(models, shortlist)


def _log_probs(logits):
    return tf.nn.log_softmax(tf.cast(logits, tf.float32))


def _mean(tensors):
    tensors = list(tensors)
    return tensors[0] if len(tensors) == 1 else tf.add_n(tensors) / len(tensors)
