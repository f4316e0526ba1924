"""Encoder and decoder blocks: attention and feed-forward, each with its residual and norm."""

from typing import Any

import keras

from keras_mt.layers.attention import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
    swap_without_gradient,
)
from keras_mt.layers.dropout import Dropout
from keras_mt.layers.feed_forward import FeedForward
from keras_mt.layers.types import Activation, Shape, Tensor
from keras_mt.layers.validation import check_positive, check_rate


class _Block(keras.layers.Layer):
    """What encoder and decoder blocks share: their arguments, and a sublayer's surroundings."""

    def __init__(
        self,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        activation: Activation = "relu",
        pre_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, d_ff=d_ff)
        check_rate(dropout=dropout)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.pre_norm = pre_norm
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.feed_forward = FeedForward(
            d_ff, activation=activation, dtype=self.dtype_policy, name="feed_forward"
        )
        self.feed_forward_norm = self._layer_norm("feed_forward_norm")

    def _layer_norm(self, name):
        return keras.layers.LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name=name)

    def _build_feed_forward(self, input_shape):
        self.feed_forward.build(input_shape)
        self.feed_forward_norm.build(input_shape)

    def _sublayer(self, inputs, norm, function, training=None):
        """The residual around `function`, which returns its output and anything beside it."""
        outputs, beside = function(norm(inputs) if self.pre_norm else inputs)
        outputs = inputs + self.dropout_layer(outputs, training=training)
        return (outputs if self.pre_norm else norm(outputs)), beside

    def _feed_forward_sublayer(self, inputs, training=None):
        return self._sublayer(
            inputs,
            self.feed_forward_norm,
            lambda x: (self.feed_forward(x, training=training), None),
            training,
        )[0]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "pre_norm": self.pre_norm,
        }


@keras.saving.register_keras_serializable(package="keras_mt")
class EncoderBlock(_Block):
    """A Transformer encoder block: self-attention, then feed-forward.

    Each sublayer is `LayerNorm(x + Dropout(sublayer(x)))`, or with `pre_norm`
    `x + Dropout(sublayer(LayerNorm(x)))`.

    Args:
        num_heads: Number of attention heads; must divide the width of the input.
        d_ff: Inner width of the feed-forward network.
        dropout: Rate of dropout on the output of each sublayer, as in the paper; at least 0 and
            below 1.
        activation: Activation of the feed-forward network.
        pre_norm: Whether to normalise the input of each sublayer rather than the sum after it. A
            stack of such blocks needs one more normalisation at its end.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens, which alone are seen; the one that
            the inputs carry when None.
        training: Whether dropout is on.

    Returns:
        Float tensor `[batch, length, width]`, which carries the mask, whether it came with the
        inputs or as `mask=`.

    Raises:
        ValueError: If `num_heads` does not divide the width, or an argument is out of range.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.1
        (https://arxiv.org/abs/1706.03762); pre-norm: Xiong et al. 2020, On Layer Normalization in
        the Transformer Architecture (https://arxiv.org/abs/2002.04745).

    Example:

    >>> tuple(EncoderBlock(num_heads=4, d_ff=64)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def build(self, input_shape: Shape) -> None:
        self.self_attention = MultiHeadAttention(
            self.num_heads, dtype=self.dtype_policy, name="self_attention"
        )
        self.self_attention.build(input_shape, input_shape)
        self.self_attention_norm = self._layer_norm("self_attention_norm")
        self.self_attention_norm.build(input_shape)
        self._build_feed_forward(input_shape)

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        def attend(x):
            return self.self_attention(x, x, value_mask=mask, training=training), None

        hidden, _ = self._sublayer(inputs, self.self_attention_norm, attend, training)
        return self._feed_forward_sublayer(hidden, training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@keras.saving.register_keras_serializable(package="keras_mt")
class DecoderBlock(_Block):
    """A Transformer decoder block: causal self-attention, cross-attention, then feed-forward.

    Each sublayer is `LayerNorm(x + Dropout(sublayer(x)))`, or with `pre_norm`
    `x + Dropout(sublayer(LayerNorm(x)))`. Called on a target alone, without memory, the block has
    no cross-attention (a language model's block).

    Args:
        num_heads: Number of attention heads; must divide the width of the target.
        d_ff: Inner width of the feed-forward network.
        dropout: Rate of dropout on the output of each sublayer, as in the paper; at least 0 and
            below 1.
        activation: Activation of the feed-forward network.
        pre_norm: Whether to normalise the input of each sublayer rather than the sum after it. A
            stack of such blocks needs one more normalisation at its end.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        target: Float tensor `[batch, target_length, width]`.
        memory: Float tensor `[batch, memory_length, memory_width]`, or None.
        target_mask, memory_mask: Boolean `[batch, length]`, true at real tokens, which alone are
            seen; those that the tensors carry when None.
        return_attention_scores: Whether to return the weights of the cross-attention
            `[batch, num_heads, target_length, memory_length]` too.
        training: Whether dropout is on.

    Returns:
        Float tensor `[batch, target_length, width]`; with `return_attention_scores`, a pair of it
        and the weights. The output carries the mask that the target tensor carries; one passed as
        `target_mask` is used, but not carried on.

    Raises:
        ValueError: If `num_heads` does not divide the width, an argument is out of range, or a
            block that was built with memory is called without, or the reverse.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.1
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> block = DecoderBlock(num_heads=4, d_ff=64)
    >>> tuple(block(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    def build(self, target_shape: Shape, memory_shape: Shape | None = None) -> None:
        self.self_attention = CausalSelfAttention(
            self.num_heads, dtype=self.dtype_policy, name="self_attention"
        )
        self.self_attention.build(target_shape)
        self.self_attention_norm = self._layer_norm("self_attention_norm")
        self.self_attention_norm.build(target_shape)
        self.cross_attention = None
        if memory_shape is not None:
            self.cross_attention = CrossAttention(
                self.num_heads, dtype=self.dtype_policy, name="cross_attention"
            )
            self.cross_attention.build(target_shape, memory_shape)
            self.cross_attention_norm = self._layer_norm("cross_attention_norm")
            self.cross_attention_norm.build(target_shape)
        self._build_feed_forward(target_shape)

    def call(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        self._check_memory(memory, return_attention_scores)

        def attend_to_self(x):
            return self.self_attention(x, mask=target_mask, training=training), None

        def attend_to_memory(x):
            return self.cross_attention(
                x, memory, memory_mask=memory_mask, return_attention_scores=True, training=training
            )

        hidden, _ = self._sublayer(target, self.self_attention_norm, attend_to_self, training)
        scores = None
        if memory is not None:
            hidden, scores = self._sublayer(
                hidden, self.cross_attention_norm, attend_to_memory, training
            )
        outputs = self._feed_forward_sublayer(hidden, training)
        return (outputs, scores) if return_attention_scores else outputs

    def _check_memory(self, memory, return_attention_scores):
        if (memory is None) != (self.cross_attention is None):
            built, called = ("with", "without") if memory is None else ("without", "with")
            raise ValueError(f"{self.name} was built {built} memory but is called {called} it.")
        if return_attention_scores and memory is None:
            raise ValueError(f"{self.name} has no memory to return attention scores for.")

    def step(
        self,
        target: Tensor,
        cache: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        memory_cache: tuple[Tensor, Tensor] | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The block on new positions of the target, over the cache of those before.

        Args:
            target: Float tensor `[batch * new, width]`: usually one position, or the beams of one.
            cache: What `self_attention.empty_cache` or the step before returned.
            mask: Boolean tensor that broadcasts to `[batch, new, length + new]`: which positions
                of the cache, and of the new ones at its end, each new position sees. None: all.
            memory_cache: What `cross_attention.project(memory)` returned; the same for each step.
            memory_mask: Boolean `[batch, memory_length]`, true at real tokens.

        Returns:
            The outputs `[batch * new, width]` and the cache with the new positions at its end.
        """

        def attend_to_self(x):
            return self.self_attention.step(x, cache, mask)

        def attend_to_memory(x):
            seen = None if memory_mask is None else memory_mask[:, None, :]
            return self.cross_attention.attend(x, *memory_cache, seen, swap=swap_without_gradient)

        hidden, cache = self._sublayer(target, self.self_attention_norm, attend_to_self)
        if self.cross_attention is not None:
            hidden, _ = self._sublayer(hidden, self.cross_attention_norm, attend_to_memory)
        return self._feed_forward_sublayer(hidden), cache

    def compute_mask(self, target: Tensor, target_mask: Tensor | None) -> Tensor | None:
        return target_mask

    def compute_output_shape(self, target_shape: Shape, memory_shape: Shape | None = None) -> Shape:
        return target_shape

    def compute_output_spec(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        *args: Any,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, keras.KerasTensor]:
        self._check_memory(memory, return_attention_scores)
        output = keras.KerasTensor(target.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        shape = (target.shape[0], self.num_heads, target.shape[1], memory.shape[1])
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)
