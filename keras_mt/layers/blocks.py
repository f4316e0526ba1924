"""Encoder and decoder blocks: attention and feed-forward, each with its residual and norm."""

import inspect
from typing import Any

import keras
from keras import ops

from keras_mt.layers.attention import CausalSelfAttention, CrossAttention, MultiHeadAttention
from keras_mt.layers.base import SequenceLayer
from keras_mt.layers.dot_product import swap_without_gradient
from keras_mt.layers.dropout import Dropout
from keras_mt.layers.feed_forward import FeedForward
from keras_mt.layers.normalization import norm_layer
from keras_mt.layers.ssru import SSRU
from keras_mt.layers.types import Activation, Shape, Tensor
from keras_mt.layers.validation import check_positive, check_rate, check_sequences


def _given_or_carried(mask, tensor):
    # Before any sublayer: the sum of a sublayer and its residual carries no mask.
    return getattr(tensor, "_keras_mask", None) if mask is None else mask


# The attribute of each sublayer; that of its normalisation ends in `_norm`.
_SUBLAYERS = {"s": "self_attention", "r": "recurrent", "c": "cross_attention", "f": "feed_forward"}


class _Block(SequenceLayer):
    """What encoder and decoder blocks share: arguments, and the residual and norm of sublayers."""

    _order = ""  # A letter for each sublayer, in the paper's order.
    _others = ""  # Those of sublayers that the block may have too.

    def __init__(
        self,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        activation: Activation = "relu",
        pre_norm: bool = False,
        *,
        norm: str = "layer",
        sublayers: str | None = None,
        gated: bool = False,
        use_bias: bool = True,
        num_key_value_heads: int | None = None,
        key_dim: int | None = None,
        scale_attention: bool = True,
        rotary_base: float | None = None,
        feed_forward: keras.layers.Layer | dict[str, Any] | None = None,
        norm_epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        check_positive(num_heads=num_heads, d_ff=d_ff)
        check_rate(dropout=dropout)
        sublayers = self._order if sublayers is None else sublayers
        letters = self._order + self._others
        if not sublayers or sorted(sublayers) != sorted({*sublayers} & {*letters}):
            raise ValueError(
                f"sublayers must be some letters of {letters!r}, each once, in any order. "
                f"Received: sublayers={sublayers!r}"
            )
        self.sublayers = sublayers
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.self_attention = self.recurrent = self.cross_attention = self.feed_forward = None
        self._given_feed_forward = feed_forward is not None
        if "f" in sublayers:
            if isinstance(feed_forward, dict):
                feed_forward = keras.saving.deserialize_keras_object(feed_forward)
            self.feed_forward = feed_forward or FeedForward(
                d_ff,
                activation=activation,
                gated=gated,
                use_bias=use_bias,
                dtype=self.dtype_policy,
                name="feed_forward",
            )
            self._takes_mask = "mask" in inspect.signature(self.feed_forward.call).parameters
            self.feed_forward_norm = self._norm_layer("feed_forward")

    def _norm_layer(self, sublayer):
        return norm_layer(self.norm, self.dtype_policy, f"{sublayer}_norm", self.norm_epsilon)

    def _build_attention(self, letter, layer_class, *shapes, **options):
        if letter not in self.sublayers:
            return
        name, policy = _SUBLAYERS[letter], self.dtype_policy
        options |= {n: getattr(self, n) for n in ("key_dim", "use_bias", "scale_attention")}
        layer = layer_class(self.num_heads, dtype=policy, name=name, **options)
        norm = self._norm_layer(name)
        layer.build(*shapes)
        norm.build(shapes[0])
        setattr(self, name, layer)
        setattr(self, f"{name}_norm", norm)

    def _build_self_attention(self, layer_class, *shapes):
        options = {name: getattr(self, name) for name in ("num_key_value_heads", "rotary_base")}
        self._build_attention("s", layer_class, *shapes, **options)

    def _build_feed_forward(self, input_shape):
        if self.feed_forward is not None:
            if not self.feed_forward.built:  # One from a file may be built already.
                self.feed_forward.build(input_shape)
            self.feed_forward_norm.build(input_shape)

    def _run(self, hidden, attend, mask=None, training=None, scores=None):
        """Applies the sublayers in their order, each with its norm, dropout and residual.

        `attend` has a function for each attention, by its letter; `scores` is a dict for the
        attention weights, None if nobody wants them.
        """
        for letter in self.sublayers:
            if letter == "c" and self.cross_attention is None:
                continue
            norm = getattr(self, f"{_SUBLAYERS[letter]}_norm")
            x = norm(hidden) if self.pre_norm else hidden
            if letter == "f":
                options = {"mask": mask} if self._takes_mask else {}
                x = self.feed_forward(x, training=training, **options)
            elif scores is None or letter == "r":
                x = attend[letter](x)
            else:
                x, scores[letter] = attend[letter](x, return_attention_scores=True)
            hidden = hidden + self.dropout_layer(x, training=training)
            if not self.pre_norm:
                hidden = norm(hidden)
        return hidden

    def call_with_attention_scores(
        self, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The block's outputs, and a dict of its attention weights by the sublayers' letters.

        The weights are `[batch, num_heads, length, key_length]`.
        """
        scores = {}
        return self._attend(*args, **kwargs, scores=scores), scores

    def get_config(self) -> dict[str, Any]:
        given = self._given_feed_forward
        feed_forward = keras.saving.serialize_keras_object(self.feed_forward) if given else None
        return {**super().get_config(), "feed_forward": feed_forward}


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
        norm: `"layer"` for layer normalisation, `"rms"` for RMS normalisation.
        sublayers: The sublayers and their order, as letters: `s` for self-attention, `f` for
            feed-forward; None for `"sf"`. Stacks of blocks with only some of them have other
            orders, such as the sandwich of Press et al.
        gated: Whether the feed-forward network has a gate, as in `FeedForward`.
        use_bias: Whether attention and feed-forward add biases.
        num_key_value_heads: Number of key and value heads in self-attention, as in
            `MultiHeadAttention`; None for `num_heads`.
        key_dim: Width of each head; None for the width of the input divided by `num_heads`.
        scale_attention: As in `MultiHeadAttention`.
        rotary_base: Base of the rotary positions in self-attention, such as 10000; None for none.
        feed_forward: A layer in place of `FeedForward`, to which `d_ff`, `activation`, `gated` and
            `use_bias` then do not apply; it is called with `training` and, if it takes one, `mask`.
        norm_epsilon: What the normalisations add to the variance.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens; only those are seen. When None, the
            mask that the inputs carry.
        training: Whether dropout is on.
        attention_bias: As in `MultiHeadAttention`, for the self-attention.

    Returns:
        Float tensor `[batch, length, width]`, which carries the mask, whether it came with the
        inputs or as `mask=`.

    Raises:
        ValueError: If `num_heads` does not divide the width and `key_dim` is None, an argument is
            out of range, or the input is not float `[batch, length, width]`.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.1
        (https://arxiv.org/abs/1706.03762); pre-norm: Xiong et al. 2020, On Layer Normalization in
        the Transformer Architecture (https://arxiv.org/abs/2002.04745); RMS normalisation: Zhang
        and Sennrich 2019, Root Mean Square Layer Normalization (https://arxiv.org/abs/1910.07467);
        orders of sublayers: Press et al. 2020, Improving Transformer Models by Reordering their
        Sublayers (https://arxiv.org/abs/1911.03864).

    Example:

    >>> tuple(EncoderBlock(num_heads=4, d_ff=64)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    _order = "sf"

    def build(self, input_shape: Shape) -> None:
        check_sequences(self.name, input_shape)
        self._build_self_attention(MultiHeadAttention, input_shape, input_shape)
        self._build_feed_forward(input_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        attention_bias: Tensor | None = None,
    ) -> Tensor:
        return self._attend(inputs, mask, training, attention_bias)

    def _attend(self, inputs, mask=None, training=None, attention_bias=None, scores=None):
        self._check_inputs(inputs)
        mask = _given_or_carried(mask, inputs)
        given = {"value_mask": mask, "training": training, "attention_bias": attention_bias}

        def attend(x, **options):
            return self.self_attention(x, x, **given, **options)

        return self._run(inputs, {"s": attend}, mask, training, scores)


@keras.saving.register_keras_serializable(package="keras_mt")
class DecoderBlock(_Block):
    """A Transformer decoder block: causal self-attention, cross-attention, then feed-forward.

    Each sublayer is `LayerNorm(x + Dropout(sublayer(x)))`, or with `pre_norm`
    `x + Dropout(sublayer(LayerNorm(x)))`. Called on a target alone, without memory, the block has
    no cross-attention (a language model's block).

    Args:
        num_heads: Number of attention heads; must divide the width of the target.
        d_ff: Inner width of the feed-forward network.
        sublayers: As in `EncoderBlock`, with `c` for cross-attention and `r` for a recurrence,
            `SSRU`, which may stand in for self-attention; None for `"scf"`.
        dropout, activation, pre_norm, norm, gated, use_bias: As in `EncoderBlock`.
        num_key_value_heads, key_dim, scale_attention: As in `EncoderBlock`.
        rotary_base, feed_forward, norm_epsilon: As in `EncoderBlock`.
        **kwargs: As in `EncoderBlock`.

    Call arguments:
        target: Float tensor `[batch, target_length, width]`.
        memory: Float tensor `[batch, memory_length, memory_width]`, or None.
        target_mask, memory_mask: Boolean `[batch, target_length]` and `[batch, memory_length]`,
            true at real tokens; only those are seen. When None, the masks that the tensors carry.
        return_attention_scores: Whether to return the weights of the cross-attention
            `[batch, num_heads, target_length, memory_length]` too.
        training: Whether dropout is on.
        attention_bias: As in `MultiHeadAttention`, for the self-attention.

    Returns:
        Float tensor `[batch, target_length, width]`; with `return_attention_scores`, a pair of it
        and the weights. The output carries the mask that the target tensor carries; one passed as
        `target_mask` is used, but not carried on.

    Raises:
        ValueError: If `num_heads` does not divide the width, an argument is out of range, an input
            is not float `[batch, length, width]`, a block that was built with memory is called
            without, or the reverse, or attention scores are asked of a block without
            cross-attention.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.1
        (https://arxiv.org/abs/1706.03762); variants: as in `EncoderBlock`.

    Example:

    >>> block = DecoderBlock(num_heads=4, d_ff=64)
    >>> tuple(block(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    _order = "scf"
    _others = "r"
    _inputs = ("target", "memory")

    def build(self, target_shape: Shape, memory_shape: Shape | None = None) -> None:
        check_sequences(self.name, target_shape, memory_shape)
        self._build_self_attention(CausalSelfAttention, target_shape)
        if "r" in self.sublayers:
            self.recurrent = SSRU(use_bias=self.use_bias, dtype=self.dtype_policy, name="recurrent")
            self.recurrent.build(target_shape)
            self.recurrent_norm = self._norm_layer("recurrent")
            self.recurrent_norm.build(target_shape)
        if memory_shape is not None:
            self._build_attention("c", CrossAttention, target_shape, memory_shape)
        self._build_feed_forward(target_shape)

    def call(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        scores = {} if return_attention_scores else None
        self._check_inputs(target, memory, return_attention_scores=return_attention_scores)
        given = target, memory, target_mask, memory_mask, training, attention_bias
        outputs = self._attend(*given, scores)
        return (outputs, scores["c"]) if return_attention_scores else outputs

    def _attend(
        self,
        target,
        memory=None,
        target_mask=None,
        memory_mask=None,
        training=None,
        attention_bias=None,
        scores=None,
    ):
        target_mask = _given_or_carried(target_mask, target)
        memory_mask = _given_or_carried(memory_mask, memory)
        given = {"mask": target_mask, "training": training, "attention_bias": attention_bias}
        attend = {
            "s": lambda x, **options: self.self_attention(x, **given, **options),
            "r": lambda x: self.recurrent(x, mask=target_mask, training=training),
            "c": lambda x, **options: self.cross_attention(
                x, memory, memory_mask=memory_mask, training=training, **options
            ),
        }
        return self._run(target, attend, target_mask, training, scores)

    def _check_inputs(self, target, memory, return_attention_scores=False):
        super()._check_inputs(target, memory)
        if "c" in self.sublayers and (memory is None) != (self.cross_attention is None):
            built, called = ("with", "without") if memory is None else ("without", "with")
            raise ValueError(f"{self.name} was built {built} memory but is called {called} it.")
        if return_attention_scores and self.cross_attention is None:
            raise ValueError(
                f"{self.name} has no memory or no cross-attention: there are no attention scores "
                "to return."
            )

    def initial_cache(
        self, batch_size: int | Tensor, memory: Tensor | None = None, beams: int | Tensor = 1
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The cache for the first `step`, and the memory's keys and values for every step.

        Args:
            batch_size: Number of rows.
            memory: Float tensor `[batch, memory_length, memory_width]`, or None.
            beams: Number of hypotheses of each row, for the states of a recurrence.

        Returns:
            `cache` and `memory_cache` of `step`; () for a sublayer that the block does not have.
        """
        cache = memory_cache = ()
        if self.self_attention is not None:
            cache = self.self_attention.empty_cache(batch_size)
        if self.recurrent is not None:
            cache = (*cache, self.recurrent.initial_state(batch_size, beams))
        if self.cross_attention is not None:
            memory_cache = self.cross_attention.project(memory)
        return cache, memory_cache

    def prefill(
        self, target: Tensor, target_mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs the block on a prefix that all hypotheses share, such as a prompt.

        Args:
            target: Float tensor `[batch, length, width]`, from position 0 on.
            target_mask: Boolean `[batch, length]`, true at real tokens.

        Returns:
            The outputs `[batch, length, width]`, and the `prefix` for each `step`; None for a block
            without self-attention.

        Raises:
            ValueError: If the block attends to a memory, which a prefix has not, or has a
                recurrence.
        """
        if self.recurrent is not None or self.cross_attention is not None:
            raise ValueError(
                "prefill is for blocks without cross-attention and recurrence, as of DecoderOnly."
            )
        prefix = None

        def attend_to_self(x):
            nonlocal prefix
            prefix = self.self_attention.prefill(x)
            return self.self_attention(x, mask=target_mask)

        return self._run(target, {"s": attend_to_self}, target_mask), prefix

    def step(
        self,
        target: Tensor,
        cache: tuple[Tensor, ...],
        mask: Tensor | None = None,
        memory_cache: tuple[Tensor, ...] | None = None,
        memory_mask: Tensor | None = None,
        positions: int | Tensor | None = None,
        prefix: tuple[Tensor, Tensor] | None = None,
        attention_bias: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Runs the block on new positions of the target, with the cache of those before.

        Args:
            target: Float tensor `[batch * new, width]`: usually one new position for each beam.
            cache: What `initial_cache` or the previous step returned.
            mask: Boolean tensor that broadcasts to `[batch, new, length + new]`: which positions
                of the cache, and of the new ones at its end, each new position sees. None: all.
            memory_cache: What `initial_cache` returned; the same for each step.
            memory_mask: Boolean `[batch, memory_length]`, true at real tokens.
            positions, prefix: As in `CausalSelfAttention.step`.
            attention_bias: As `bias` in `CausalSelfAttention.step`.

        Returns:
            The outputs `[batch * new, width]` and the cache with the new positions at its end.
        """

        def attend_to_self(x):
            nonlocal cache
            given = mask, positions, prefix, attention_bias
            outputs, grown = self.self_attention.step(x, cache[:2], *given)
            cache = (*grown, *cache[2:])
            return outputs

        def recur(x):
            nonlocal cache
            outputs, state = self.recurrent.step(x, cache[-1])
            cache = (*cache[:-1], state)
            return outputs

        def attend_to_memory(x):
            seen = None if memory_mask is None else ops.expand_dims(memory_mask, 1)
            swap = swap_without_gradient
            return self.cross_attention.attend(x, *memory_cache, seen, swap=swap)[0]

        attend = {"s": attend_to_self, "r": recur, "c": attend_to_memory}
        return self._run(target, attend), cache

    def reorder_cache(self, cache: tuple[Tensor, ...], parents: Tensor) -> tuple[Tensor, ...]:
        """The cache of the hypotheses that a search keeps: each has its own state of a recurrence.

        Args:
            cache: What `step` returned, with one new position for each hypothesis.
            parents: int32 `[batch, beams]`: which of the hypotheses each new one continues.

        Returns:
            The cache for the next `step`.
        """
        if self.recurrent is None:
            return cache
        *keys_and_values, state = cache
        return (*keys_and_values, ops.take_along_axis(state, ops.expand_dims(parents, -1), axis=1))
