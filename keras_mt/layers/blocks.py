"""Encoder and decoder blocks: attention and feed-forward, each with its residual and norm."""

import inspect
from typing import Any

import keras
from keras import ops

from keras_mt.layers.attention import CausalSelfAttention, CrossAttention, MultiHeadAttention
from keras_mt.layers.dropout import Dropout
from keras_mt.layers.feed_forward import FeedForward
from keras_mt.layers.layer import SequenceLayer, count_rows
from keras_mt.layers.normalization import norm_layer
from keras_mt.layers.ssru import SSRU
from keras_mt.layers.types import Activation, Shape, Tensor

# The attribute of each sublayer; that of its normalization ends in `_norm`.
_SUBLAYERS = {"s": "self_attention", "r": "recurrent", "c": "cross_attention", "f": "feed_forward"}


def resolve_mask(mask: Tensor | None, tensor: Tensor | None) -> Tensor | None:
    """The mask that is given, or else the one that the tensor carries."""
    return getattr(tensor, "_keras_mask", None) if mask is None else mask


class _Block(SequenceLayer):
    """The base of encoder and decoder blocks: arguments, and residual and norm of sublayers."""

    _order = ""  # A letter for each sublayer, in the paper's order.
    _others = ""  # Those of sublayers that the block may have too.
    _attention_class = MultiHeadAttention

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
        sublayers = self._order if sublayers is None else sublayers
        letters = self._order + self._others
        if not sublayers or sorted(sublayers) != sorted({*sublayers} & {*letters}):
            raise ValueError(
                f"sublayers must be some letters of {letters!r}, each once, in any order. "
                f"Received: sublayers={sublayers!r}"
            )
        self.sublayers = sublayers
        self._given_feed_forward = feed_forward is not None
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.self_attention = self.recurrent = self.cross_attention = self.feed_forward = None
        if "f" in sublayers:
            if isinstance(feed_forward, dict):
                feed_forward = keras.saving.deserialize_keras_object(feed_forward)
            options = {n: getattr(self, n) for n in ("d_ff", "activation", "gated")}
            feed_forward = feed_forward or FeedForward(**options, **self._options("feed_forward"))
            self._takes_mask = "mask" in inspect.signature(feed_forward.call).parameters
            self._add_sublayer("feed_forward", feed_forward)
        if "s" in sublayers:
            options = {n: getattr(self, n) for n in ("num_key_value_heads", "rotary_base")}
            self._add_attention("self_attention", self._attention_class, **options)
        if "r" in sublayers:
            self._add_sublayer("recurrent", SSRU(**self._options("recurrent")))

    def _options(self, name):
        return {"name": name, "use_bias": self.use_bias, "dtype": self.dtype_policy}

    def _add_attention(self, name, layer_class, **options):
        options |= {n: getattr(self, n) for n in ("key_dim", "scale_attention")}
        self._add_sublayer(name, layer_class(self.num_heads, **options, **self._options(name)))

    def _add_sublayer(self, name, layer):
        norm = norm_layer(self.norm, self.dtype_policy, f"{name}_norm", self.norm_epsilon)
        setattr(self, name, layer)
        setattr(self, f"{name}_norm", norm)

    def _build_sublayer(self, name, *shapes):
        layer = getattr(self, name)
        if layer is not None:
            if not layer.built:  # A given one may be built already.
                layer.build(*shapes)
            getattr(self, f"{name}_norm").build(shapes[0])

    def _run(self, hidden, sublayers, mask=None, training=None):
        """Applies the sublayers in their order, each with its norm, dropout and residual.

        `sublayers` has a function for each but the feed-forward network. It returns the outputs and
        one more thing, such as attention weights: all of these come back by the sublayers' names.
        """
        others = {}
        for name in map(_SUBLAYERS.get, self.sublayers):
            if getattr(self, name) is None:  # Cross-attention, without memory.
                continue
            norm = getattr(self, f"{name}_norm")
            x = norm(hidden) if self.pre_norm else hidden
            if name == "feed_forward":
                options = {"mask": mask} if self._takes_mask else {}
                x = self.feed_forward(x, training=training, **options)
            else:
                x, others[name] = sublayers[name](x)
            hidden = hidden + self.dropout_layer(x, training=training)
            if not self.pre_norm:
                hidden = norm(hidden)
        return hidden, others

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
        dropout: Rate of dropout on the output of each sublayer, at least 0 and below 1.
        activation: Activation of the feed-forward network.
        pre_norm: Whether to normalize the input of each sublayer rather than the sum after it; a
            stack of such blocks needs one more normalization at its end.
        norm: `"layer"` for layer normalization, `"rms"` for RMS normalization.
        sublayers: The sublayers and their order, as letters: `s` for self-attention, `f` for
            feed-forward; None for `"sf"`.
        gated: Whether the feed-forward network has a gate, as in `FeedForward`.
        use_bias: Whether attention and feed-forward add biases.
        num_key_value_heads, key_dim, scale_attention, rotary_base: As in `MultiHeadAttention`.
        feed_forward: A layer in place of `FeedForward`, to which `d_ff`, `activation`, `gated` and
            `use_bias` then do not apply; it is called with `training` and, if it takes one, `mask`.
        norm_epsilon: What the normalizations add to the variance.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens; only those are seen. When None, the
            mask that the inputs carry.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether dropout is on.
        attention_bias: As in `MultiHeadAttention`, for the self-attention.

    Returns:
        Float tensor `[batch, length, width]`, which carries the mask, whether it came with the
        inputs or as `mask=`; with `return_attention_scores`, a pair of it and a dict whose
        `"self_attention"` is the weights `[batch, num_heads, length, length]`.

    Raises:
        ValueError: If `num_heads` does not divide the width and `key_dim` is None, an argument is
            out of range, or the input is not float `[batch, length, width]`.

    Reference:
        Vaswani et al. 2017, section 3.1 (https://arxiv.org/abs/1706.03762); pre-norm: Xiong et al.
        2020 (https://arxiv.org/abs/2002.04745); RMS normalization: Zhang and Sennrich 2019
        (https://arxiv.org/abs/1910.07467); orders: Press et al. 2020
        (https://arxiv.org/abs/1911.03864).

    Example:

    >>> tuple(EncoderBlock(num_heads=4, d_ff=64)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    _order = "sf"

    def build(self, input_shape: Shape) -> None:
        self._check_inputs(input_shape)
        self._build_sublayer("self_attention", input_shape, input_shape)
        self._build_sublayer("feed_forward", input_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        self._check_inputs(inputs)
        mask = resolve_mask(mask, inputs)
        options = {"training": training, "return_attention_scores": True}

        def attend_to_self(x):
            return self.self_attention(
                x, x, value_mask=mask, attention_bias=attention_bias, **options
            )

        outputs, scores = self._run(inputs, {"self_attention": attend_to_self}, mask, training)
        return (outputs, scores) if return_attention_scores else outputs


@keras.saving.register_keras_serializable(package="keras_mt")
class DecoderBlock(_Block):
    """A Transformer decoder block: causal self-attention, cross-attention, then feed-forward.

    Each sublayer is as in `EncoderBlock`. Called on a target alone, without memory, the block has
    no cross-attention (a language model's block).

    Args:
        num_heads: Number of attention heads; must divide the width of the target.
        d_ff: Inner width of the feed-forward network.
        sublayers: As in `EncoderBlock`, with `c` for cross-attention and `r` for a recurrence,
            `SSRU`, which may stand in for self-attention; None for `"scf"`.
        dropout, activation, pre_norm, norm, gated, use_bias, norm_epsilon: As in `EncoderBlock`.
        num_key_value_heads, key_dim, scale_attention, rotary_base: As in `MultiHeadAttention`.
        feed_forward: As in `EncoderBlock`.
        **kwargs: As in `EncoderBlock`.

    Call arguments:
        target: Float tensor `[batch, target_length, width]`.
        memory: Float tensor `[batch, memory_length, memory_width]`, or None.
        target_mask, memory_mask: Boolean `[batch, target_length]` and `[batch, memory_length]`,
            true at real tokens; only those are seen. When None, the masks that the tensors carry.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether dropout is on.
        attention_bias: As in `MultiHeadAttention`, for the self-attention.

    Returns:
        Float tensor `[batch, target_length, width]`; with `return_attention_scores`, a pair of it
        and a dict of the weights `[batch, num_heads, target_length, key_length]`,
        `"self_attention"` and `"cross_attention"`. The output carries the mask that the target
        tensor carries; one passed as `target_mask` is used, but not carried on.

    Raises:
        ValueError: If `num_heads` does not divide the width, an argument is out of range, an input
            is not float `[batch, length, width]`, or a block that was built with memory is called
            without, or the reverse.

    Reference:
        Vaswani et al. 2017, section 3.1 (https://arxiv.org/abs/1706.03762); variants: as in
        `EncoderBlock`.

    Example:

    >>> block = DecoderBlock(num_heads=4, d_ff=64)
    >>> tuple(block(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    _order = "scf"
    _others = "r"
    _attention_class = CausalSelfAttention
    _inputs = ("target", "memory")

    def build(self, target_shape: Shape, memory_shape: Shape | None = None) -> None:
        # Not its own check, which asks for the layers that are built here.
        super()._check_inputs(target_shape, memory_shape)
        self._build_sublayer("self_attention", target_shape)
        self._build_sublayer("recurrent", target_shape)
        if memory_shape is not None and "c" in self.sublayers:
            self._add_attention("cross_attention", CrossAttention)
            self._build_sublayer("cross_attention", target_shape, memory_shape)
        self._build_sublayer("feed_forward", target_shape)

    def call(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        self._check_inputs(target, memory)
        mask, memory_mask = resolve_mask(target_mask, target), resolve_mask(memory_mask, memory)
        options = {"training": training, "return_attention_scores": True}
        sublayers = {
            "self_attention": lambda x: self.self_attention(
                x, mask=mask, attention_bias=attention_bias, **options
            ),
            "recurrent": lambda x: (self.recurrent(x, mask=mask, training=training), None),
            "cross_attention": lambda x: self.cross_attention(
                x, memory, memory_mask=memory_mask, **options
            ),
        }
        outputs, scores = self._run(target, sublayers, mask, training)
        scores.pop("recurrent", None)
        return (outputs, scores) if return_attention_scores else outputs

    def _check_inputs(self, target, memory):
        super()._check_inputs(target, memory)
        if "c" in self.sublayers and (memory is None) != (self.cross_attention is None):
            built, called = ("with", "without") if memory is None else ("without", "with")
            raise ValueError(f"{self.name} was built {built} memory but is called {called} it.")

    def initial_cache(
        self, batch_size: int | Tensor, memory: Tensor | None = None, beams: int | Tensor = 1
    ) -> dict[str, Any]:
        """The cache for the first `step`, by the names of the sublayers that have one.

        It holds keys and values of length 0, those of the memory, which stay the same, and states
        of a recurrence, of which each hypothesis has its own.
        """
        cache = {}
        if self.self_attention is not None:
            cache["self_attention"] = self.self_attention.empty_cache(batch_size)
        if self.recurrent is not None:
            cache["recurrent"] = self.recurrent.initial_state(batch_size, beams)
        if self.cross_attention is not None:
            cache["cross_attention"] = self.cross_attention.project(memory)
        return cache

    def step(
        self,
        target: Tensor,
        cache: dict[str, Any],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        positions: int | Tensor | None = None,
        attention_bias: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs the block on new positions of the target, with the cache of those before.

        Args:
            target: Float tensor `[batch, new, width]`: usually one new position for each beam.
            cache: What `initial_cache` or the previous step returned. Keys and values that come
                before those of `self_attention`, and do not grow, may stand there as `prefix`.
            mask: Boolean tensor that broadcasts to `[batch, new, length + new]`: which positions
                of the cache, and of the new ones at its end, each new position sees. None: all.
            memory_mask: Boolean `[batch, memory_length]`, true at real tokens.
            positions: As in `CausalSelfAttention.step`.
            attention_bias: As `bias` in `CausalSelfAttention.step`.

        Returns:
            The outputs `[batch, new, width]` and the cache with the new positions at its end.
        """
        new, width = ops.shape(target)[1:]
        own, memory, prefix = map(cache.get, ("self_attention", "cross_attention", "prefix"))

        def attend_to_memory(x):
            return self.cross_attention.step(x, memory, memory_mask, new), memory

        sublayers = {
            "self_attention": lambda x: self.self_attention.step(
                x, own, mask, positions, prefix, attention_bias, new
            ),
            "recurrent": lambda x: self.recurrent.step(x, cache["recurrent"]),
            "cross_attention": attend_to_memory,
        }
        # [batch * new, width]: products of matrices are fused with their bias and ReLU.
        outputs, grown = self._run(ops.reshape(target, (-1, width)), sublayers)
        return ops.reshape(outputs, (count_rows(target, new), new, width)), {**cache, **grown}

    def reorder_cache(self, cache: dict[str, Any], parents: Tensor) -> dict[str, Any]:
        """The cache of the hypotheses that a search keeps: each has its own state of a recurrence.

        `parents`, int32 `[batch, beams]`, says which of the hypotheses each new one continues.
        """
        if self.recurrent is None:
            return cache
        parents = ops.expand_dims(parents, -1)
        return {**cache, "recurrent": ops.take_along_axis(cache["recurrent"], parents, axis=1)}
