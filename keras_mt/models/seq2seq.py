"""The interface between a translator and its model."""

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar

import keras
from keras import ops

from keras_mt.layers.layer import inner_layers
from keras_mt.layers.types import Tensor
from keras_mt.models.fitting import Fitting
from keras_mt.models.mixins import ModelMixin, ensure_built

# A nest of tensors whose first axis is the batch.
Cache = Any

_Model = TypeVar("_Model", bound="Seq2Seq")


class Seq2Seq(Fitting, ModelMixin):
    """A mixin for Keras models that a `keras_mt.Translator` can search, score and export.

    Derive a model from both: `class MyModel(Seq2Seq, keras.Model)`. Called on `{"source": int32
    [batch, source_length], "target": int32 [batch, target_length]}`, where the target begins with
    the tokenizer's start token, the model returns float logits `[batch, target_length,
    target_vocab_size]`, at each position for the token that comes next. `start_decoding` and
    `decode_step` give the same logits token by token, for many hypotheses of each source.

    It is a mixin and not a base class: Keras makes the bases of the first functional subclass
    functional too, and with them every other subclass.

    Attributes:
        source_vocab_size: Number of tokens that a source may have.
        target_vocab_size: Number of tokens that a target may have.
        padding_id: The padding token of source and target.
        max_length: The longest source or target, in tokens.
        d_model: The width in the paper's learning rate; 512 unless the model sets it.
        reads_terms: Whether a glossary's terms are written into its sources, which it must have
            been trained on.
        presets: See `from_preset`.

    Example:

    >>> class Parrot(Seq2Seq, keras.Model):  # Gives each source back.
    ...     source_vocab_size = target_vocab_size = 9
    ...     padding_id, max_length = 0, 64
    ...     def start_decoding(self, source, beams):
    ...         return source
    ...     def decode_step(self, tokens, position, cache, mask=None):
    ...         likely = 20 * ops.one_hot(cache[:, position], 9)[:, None]
    ...         return ops.repeat(likely, tokens.shape[1], axis=1), cache
    """

    source_vocab_size: int
    target_vocab_size: int
    padding_id: int
    max_length: int
    d_model: int = 512
    reads_terms: bool = False

    def start_decoding(self, source: Tensor, beams: int | Tensor = 1) -> Cache:
        """Encodes the source and begins a step-by-step decoding.

        Args:
            source: Integer tokens `[batch, source_length]`.
            beams: Number of hypotheses of each source, an int or a scalar tensor.

        Returns:
            The cache for the first `decode_step`: a nest of tensors. Axis 0 is the batch, of which
            the search drops the rows that are done. State that each hypothesis has to itself has
            `beams` as axis 1 from the start. Axes that grow with the steps begin at size 0.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start_decoding: see Seq2Seq.")

    def decode_step(
        self, tokens: Tensor, position: int | Tensor, cache: Cache, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """Logits for the token after `tokens`, with the cache of the positions before.

        A model may define `decode_states` and `output_projection` in its place.

        Args:
            tokens: Integer tokens `[batch, beams]`.
            position: Their position in the target, from 0; an int or a scalar tensor.
            cache: From `start_decoding` or the previous step.
            mask: Boolean `[batch, beams, (position + 1) * beams]`: which entries of an axis that
                grows by `beams` at each step, the new ones last, belong to each hypothesis. None
                for a single hypothesis. A model that reorders its cache may ignore it.

        Returns:
            Float logits `[batch, beams, target_vocab_size]` and the cache for the next step.
        """
        return self._step(tokens, position, cache, mask, self.output_projection())

    def decode_states(
        self, tokens: Tensor, position: int | Tensor, cache: Cache, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """The part of `decode_step` before the output projection.

        It returns float states `[batch * beams, d_model]` and the cache for the next step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no decode_step: see Seq2Seq.")

    def output_projection(self, token_ids: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """The function from states `[n, d_model]` of `decode_states` to logits `[n, count]`.

        They are those of the integer tokens `[count]`, whose weights are selected now, or of all.
        """
        raise NotImplementedError(f"{type(self).__name__} has no output_projection: see Seq2Seq.")

    def decode_step_for(self, token_ids: Tensor) -> Callable[..., tuple[Tensor, Cache]]:
        """A `decode_step` whose logits `[batch, beams, count]` are those of some tokens alone.

        Of a model with a `decode_step` of its own all logits are computed, and selected from.
        """
        if type(self).decode_step is Seq2Seq.decode_step:
            return functools.partial(self._step, project=self.output_projection(token_ids))

        def step(tokens, position, cache, mask=None):
            logits, cache = self.decode_step(tokens, position, cache, mask)
            return ops.take(logits, token_ids, axis=-1), cache

        return step

    def _step(self, tokens, position, cache, mask=None, project=None):
        states, cache = self.decode_states(tokens, position, cache, mask)
        logits = project(states)
        return ops.reshape(logits, (-1, ops.shape(tokens)[1], ops.shape(logits)[-1])), cache

    def reorder_cache(self, cache: Cache, parents: Tensor) -> Cache:
        """The cache of the hypotheses that the search keeps.

        Unless a model overrides this, the cache stays as it is, at no cost: the mask of
        `decode_step` says which entries belong to which hypothesis.

        Args:
            cache: From `decode_step`.
            parents: int32 `[batch, beams]`: which of the hypotheses each new one continues.

        Returns:
            The cache for the next `decode_step`.
        """
        return cache

    def attention(self, source: Tensor, target: Tensor) -> Tensor | None:
        """The attention of each target position to each source token, to predict the next token.

        Args:
            source: Integer tokens `[batch, source_length]`.
            target: Integer tokens `[batch, target_length]`, from the start token on.

        Returns:
            Float tensor `[batch, target_length, source_length]` whose rows sum to 1, or None for a
            model that has no such attention.
        """
        return None

    def for_inference(self, dtype: str = "float32") -> Self:
        """A copy whose weights and computation have another dtype, laid out for decoding.

        The copy is made from the model's `get_config`, with `dtype` set, and its weights. An output
        projection that shares the embedding's weights gets a kernel to itself, but in bfloat16.
        """
        embedding = self._output_embedding()
        if dtype == "bfloat16" or embedding is None or not embedding.tie_weights:
            return copy_of(self, dtype=dtype)
        # The product with a transposed embedding takes longer, at each step.
        copy = clone(self, dtype=dtype, tie_output=False)
        weights = iter(ensure_built(self).weights)
        kernel, transposed = copy._output_embedding().reverse_embeddings, embedding.embeddings
        own = [ops.transpose(transposed) if w is kernel else next(weights) for w in copy.weights]
        _assign(copy, own)
        return copy

    def _output_embedding(self) -> keras.layers.ReversibleEmbedding | None:
        """The projection to logits, in a model with the argument `tie_output`."""
        return None


def copy_of(model: _Model, **config: Any) -> _Model:
    """A copy of a model with its weights, and with some constructor arguments changed."""
    copy = clone(model, **config)
    _assign(copy, ensure_built(model).weights)
    return copy


def clone(model: _Model, **config: Any) -> _Model:
    """A copy of a model with new weights; `config` as in `copy_of`."""
    if any(layer.quantization_mode for layer in inner_layers(model)):
        raise ValueError(f"{model.name} is quantized: export or train it before `quantize`.")
    return ensure_built(type(model).from_config({**model.get_config(), **config}))


def _assign(model, weights):
    """Sets a model's weights one by one: `get_weights` would hold all of them once more."""
    for variable, value in zip(model.weights, weights, strict=True):
        variable.assign(ops.cast(value, variable.dtype))
