"""Token embedding plus positions."""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import BaseLayer, export_operation
from keras_mt.layers.normalization import LayerNormalization
from keras_mt.layers.types import Shape, Tensor
from keras_mt.layers.validation import check_one_of, check_positive

SINUSOIDS = ("sinusoidal", "marian", "fairseq", "tensor2tensor")
ENCODINGS = (*SINUSOIDS, "learned", None)


@functools.lru_cache(maxsize=8)
def sinusoidal_positions(
    length: int, d_model: int, encoding: str = "sinusoidal", padding_id: int = 0
) -> np.ndarray:
    """Sinusoidal position encodings, computed once for each set of arguments.

    `p[i, 2j] = sin(i / 10000^(2j / d_model))` and `p[i, 2j + 1] = cos(i / 10000^(2j / d_model))`.

    Args:
        length: Number of positions.
        d_model: Width; must be even.
        encoding, padding_id: As in `PositionalEmbedding`, for other sinusoids.

    Returns:
        Read-only float32 NumPy array `[length, d_model]`.

    Raises:
        ValueError: If `d_model` is odd, or an argument is not a positive int.

    Reference:
        Vaswani et al. 2017, section 3.5 (https://arxiv.org/abs/1706.03762).

    Example:

    >>> sinusoidal_positions(3, 4)[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    check_positive(length=length, d_model=d_model)
    by_exponent, half = encoding in ("fairseq", "tensor2tensor"), d_model // 2
    if d_model % 2 or (by_exponent and half < 2):
        least = " and at least 4" if by_exponent else ""
        raise ValueError(
            f"d_model must be even{least} for the encoding {encoding!r}. "
            f"Received: d_model={d_model}"
        )
    if by_exponent:  # In float32, as fairseq has them.
        first = padding_id + 1 if encoding == "fairseq" else 0
        exponents = np.arange(half, dtype="float32") * np.float32(-math.log(10000) / (half - 1))
        angles = np.arange(first, first + length, dtype="float32")[:, None] * np.exp(exponents)
    else:
        angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    # In turns, or first all sines and then all cosines.
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1 if encoding == "sinusoidal" else 1)
    table = table.reshape(length, d_model).astype("float32")
    table.flags.writeable = False  # Shared by every layer of this size.
    return table


def target_mask(target: Tensor, padding_id: int = 0) -> Tensor:
    """The mask of a decoder's input: the tokens that are not padding, and always position 0.

    In some models (Marian's) the start token, at position 0, is the padding token: the target's
    embedding is called with `mask=target_mask(target, padding_id)`.

    Args:
        target: Integer tensor `[batch, length]`, or a symbolic one.
        padding_id: The padding token.

    Returns:
        Boolean tensor `[batch, length]`.

    Example:

    >>> ops.convert_to_numpy(target_mask(np.array([[0, 7, 9, 0]]))).tolist()
    [[True, True, True, False]]
    """
    start = ops.ones_like(target[:, :1], dtype="bool")
    return ops.concatenate([start, ops.not_equal(target[:, 1:], padding_id)], axis=1)


def token_embedding(
    vocab_size: int, d_model: int, tie_weights: bool, policy: keras.DTypePolicy, name: str
) -> keras.layers.ReversibleEmbedding:
    """An embedding, which also projects to logits."""
    return keras.layers.ReversibleEmbedding(
        vocab_size,
        d_model,
        tie_weights,
        # Times sqrt(d_model) this has variance 1, and so have the first logits.
        embeddings_initializer=_normal(d_model),
        # Keras embeds without casting the weights, and so would project in float32.
        reverse_dtype=policy.compute_dtype,
        dtype=policy,
        name=name,
    )


@keras.saving.register_keras_serializable(package="keras_mt")
class PositionalEmbedding(BaseLayer):
    """Embeds tokens and their positions: `embedding[token] * sqrt(d_model) + sinusoid[position]`.

    Called with `reverse=True` it is the output projection over the vocabulary, which shares the
    embedding's weights.

    Args:
        vocab_size: Number of tokens.
        d_model: Width; must be even for sinusoids, and at least 4 for `"fairseq"` and
            `"tensor2tensor"`.
        dropout: Rate of dropout on the sum, at least 0 and below 1.
        max_length: The greatest length of a sequence, in tokens.
        padding_id: The token that pads sequences; masked.
        tie_weights: Whether the output projection shares the embedding's weights.
        encoding: `"sinusoidal"`; `"marian"`, the same, but first all sines and then all cosines;
            `"fairseq"`, those with the rates `10000^(-j / (d_model / 2 - 1))` and positions that
            count from `padding_id + 1`; `"tensor2tensor"`, the same from 0; `"learned"`; or None
            for no positions, for instance where attention has rotary ones.
        scale: Whether the embeddings are multiplied by `sqrt(d_model)`.
        normalize: Whether the sum of embeddings and positions is normalized.
        use_bias: Whether a bias, which does not train, is added to the logits.
        zero_id: A token whose embedding is zero, such as the start in Marian; None for none.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Integer tensor `[batch, length]`, or whole numbers in float32, which Keras uses to
            build models; with `reverse`, float tensor `[batch, length, d_model]`.
        reverse: Whether to project to logits.
        positions: Integer positions that broadcast to the shape of `inputs`, for decoding step by
            step; 0, 1, 2, ... when None.
        training: Whether dropout is on.
        mask: Boolean `[batch, length]`, for the output to carry; by keyword. When None, the mask
            that the inputs carry, or else that of the tokens that are not padding. `target_mask`
            makes the one for a decoder's input.

    Returns:
        Float tensor `[batch, length, d_model]`, or with `reverse` float32 logits
        `[batch, length, vocab_size]`. Both carry the mask.

    Raises:
        ValueError: If sinusoids do not have this `d_model`, an argument is out of range, tokens
            come in half precision, tokens whose positions are counted are not of rank 2, or a
            sequence is longer than `max_length` (where its length is static; else TensorFlow
            reports incompatible shapes).

    Reference:
        Vaswani et al. 2017, sections 3.4 and 3.5 (https://arxiv.org/abs/1706.03762); Press and Wolf
        2017 (https://arxiv.org/abs/1608.05859).

    Example:

    >>> embedding = PositionalEmbedding(vocab_size=100, d_model=32)
    >>> hidden = embedding(np.array([[5, 7, 3, 0]]))
    >>> tuple(hidden.shape), tuple(embedding(hidden, reverse=True).shape)
    ((1, 4, 32), (1, 4, 100))
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        dropout: float = 0.0,
        max_length: int = 1024,
        padding_id: int = 0,
        tie_weights: bool = True,
        *,
        encoding: str | None = "sinusoidal",
        scale: bool = True,
        normalize: bool = False,
        use_bias: bool = False,
        zero_id: int | None = None,
        _embedding: keras.layers.ReversibleEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        check_one_of(ENCODINGS, encoding=encoding)
        if encoding in SINUSOIDS:
            self._table()  # Refuses a width now, not at the call.
        self._in_reverse = False  # The latest call.
        self.autocast = False  # Half precision would round the tokens.
        self.embedding = _embedding or token_embedding(
            vocab_size, d_model, tie_weights, self.dtype_policy, "embedding"
        )
        self.embedding.supports_masking = True  # Else Keras warns when masked states are projected.
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.norm = None
        if normalize:
            self.norm = LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="norm")

    def build(self, input_shape: Shape) -> None:
        if not self.embedding.built:  # A shared one may be built already.
            self.embedding.build()
        if self.encoding == "learned":
            self.position_embeddings = self.add_weight(
                (self.max_length, self.d_model), _normal(self.d_model), name="positions"
            )
        if self.norm is not None:
            self.norm.build((None, None, self.d_model))
        if self.use_bias:
            self.logits_bias = self.add_weight(
                (self.vocab_size,), "zeros", trainable=False, name="logits_bias"
            )

    def call(
        self,
        inputs: Tensor,
        reverse: bool = False,
        positions: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        self._in_reverse = reverse
        if reverse:
            logits = export_operation("project", inputs, self.embedding)
            logits = self.embedding(inputs, reverse=True) if logits is None else logits
            return self._biased(ops.cast(logits, "float32"))
        self._check_tokens(inputs, positions)
        hidden = export_operation("look_up", self.embedding, inputs)
        hidden = self.embedding(inputs) if hidden is None else hidden
        if self.zero_id is not None:
            real = ops.expand_dims(ops.not_equal(inputs, self.zero_id), -1)
            hidden = hidden * ops.cast(real, hidden.dtype)
        if self.scale:
            hidden = hidden * math.sqrt(self.d_model)
        if self.encoding is not None:
            hidden = hidden + ops.cast(self._encodings(inputs, positions), hidden.dtype)
        if self.norm is not None:
            hidden = self.norm(hidden)
        return self.dropout_layer(hidden, training=training)

    def projection(self, tokens: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """The function from states `[n, d_model]` to float32 logits `[n, count]` of some tokens.

        Their weights are selected once; None is for all tokens.
        """
        if tokens is None:
            return functools.partial(self, reverse=True)
        embedding = self.embedding
        if embedding.quantization_mode:
            return lambda states: ops.take(self(states, reverse=True), tokens, axis=-1)
        if embedding.tie_weights:
            rows = export_operation("look_up", embedding, tokens)
            rows = ops.take(embedding.embeddings, tokens, axis=0) if rows is None else rows
            kernel = ops.transpose(rows)
        else:
            kernel = ops.take(embedding.reverse_embeddings, tokens, axis=1)
        kernel = ops.cast(kernel, self.compute_dtype)

        def project(states):
            logits = ops.matmul(ops.cast(states, self.compute_dtype), kernel)
            return self._biased(ops.cast(logits, "float32"), tokens)

        return project

    def _biased(self, logits, tokens=None):
        if not self.use_bias:
            return logits
        bias = self.logits_bias if tokens is None else ops.take(self.logits_bias, tokens)
        return logits + ops.cast(bias, logits.dtype)

    def _table(self):
        if self.encoding == "learned":
            return self.position_embeddings
        table = sinusoidal_positions(self.max_length, self.d_model, self.encoding, self.padding_id)
        shared = export_operation("share", table)
        return table if shared is None else shared

    def _encodings(self, inputs, positions):
        table = ops.convert_to_tensor(self._table())
        if positions is None:
            return table[: ops.shape(inputs)[1]]
        return ops.take(table, positions, axis=0)

    def _check_tokens(self, inputs, positions):
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype in ("float16", "bfloat16"):
            raise ValueError(
                f"{self.name} takes integer tokens, such as from keras.Input((None,), "
                f'dtype="int32"): {dtype} rounds them.'
            )
        if positions is not None or self.encoding is None:
            return
        if len(inputs.shape) != 2:
            raise ValueError(
                f"{self.name} takes tokens [batch, length]. Received: shape {tuple(inputs.shape)}"
            )
        if (inputs.shape[1] or 0) > self.max_length:
            raise ValueError(
                f"{self.name} takes sequences of at most max_length={self.max_length} "
                f"tokens. Received: {inputs.shape[1]} tokens"
            )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        # Keras does not tell whether the call was in reverse. States have one axis more than
        # tokens, but states of no length look like tokens in float32.
        in_reverse = len(inputs.shape) > 2 or self._in_reverse
        states = in_reverse and keras.backend.is_float_dtype(inputs.dtype)
        if states or previous_mask is not None:
            return previous_mask
        return ops.not_equal(inputs, self.padding_id)

    def compute_output_shape(self, input_shape: Shape, reverse: bool = False) -> Shape:
        if reverse:
            return (*input_shape[:-1], self.vocab_size)
        return (*input_shape, self.d_model)

    def compute_output_spec(
        self,
        inputs: Tensor,
        reverse: bool = False,
        positions: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> keras.KerasTensor:
        self._in_reverse = reverse
        if not reverse:
            self._check_tokens(inputs, positions)
        shape = self.compute_output_shape(inputs.shape, reverse)
        return keras.KerasTensor(shape, dtype="float32" if reverse else self.compute_dtype)


def _normal(d_model):
    return keras.initializers.RandomNormal(stddev=d_model**-0.5)
