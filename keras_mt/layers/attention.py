"""The three attention layers of the Transformer."""

import functools
from typing import Any

import keras
from keras import ops

from keras_mt.layers.dot_product import causal_mask, scaled_dot_product_attention, swap_axes
from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import SequenceLayer, count_rows, export_operation
from keras_mt.layers.rotary import rotate_by_position
from keras_mt.layers.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class MultiHeadAttention(SequenceLayer):
    """Multi-head attention.

    `Concat(head_1, ..., head_h) W_O` with `head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)`. The
    width of the output is the width of the query.

    Args:
        num_heads: Number of heads; must divide the width of the query unless `key_dim` is given.
        dropout: Rate of dropout on the attention weights, at least 0 and below 1.
        key_dim: Width of the queries and keys of each head; None for the width of the query
            divided by `num_heads`.
        value_dim: Width of the values of each head; None for `key_dim`.
        use_bias: Whether the four projections add a bias.
        kernel_initializer: Initializer of the four kernels. None for Glorot's uniform one, with
            half of its variance for the projections to queries, keys and values.
        bias_initializer: Initializer of the biases.
        num_key_value_heads: Number of key and value heads, each shared by the same number of query
            heads (grouped queries); must divide `num_heads`. None for as many as `num_heads`.
        rotary_base: Base of the rotary positions of queries and keys, such as 10000, for
            self-attention only; None for no positions.
        scale_attention: Whether the products of queries and keys are divided by the square root of
            their width.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        query: Float tensor `[batch, query_length, width]`.
        value: Float tensor `[batch, key_length, value_width]`.
        key: Float tensor `[batch, key_length, key_width]`; `value` when None.
        query_mask: Has no effect; accepted because `keras.layers.MultiHeadAttention` has it.
        value_mask, key_mask: Boolean `[batch, key_length]`, true at real tokens; only those are
            seen. When None, the masks that the tensors carry.
        attention_mask: Boolean tensor `[batch, query_length, key_length]`, or for each head
            `[batch, num_heads, query_length, key_length]`, true where a query may see a key; axes
            of size 1 broadcast.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether dropout is on.
        use_causal_mask: Whether position i sees only the keys up to and including i.
        attention_bias: Float tensor that broadcasts to `[batch, num_heads, query_length,
            key_length]`, which is added to the scaled products of queries and keys; or None.

    Returns:
        Float tensor `[batch, query_length, width]`; with `return_attention_scores`, a pair of it
        and the weights `[batch, num_heads, query_length, key_length]`. The output carries the mask
        that the query tensor carries; one passed as `query_mask` is not carried on.

    Raises:
        ValueError: If `num_heads` does not divide the width and `key_dim` is None, an argument is
            out of range, the heads have an odd width but rotary positions, query or value is not
            float `[batch, length, width]`, or they differ in batch size, where it is known.

    Reference:
        Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762); grouped queries:
        Ainslie et al. 2023 (https://arxiv.org/abs/2305.13245); rotary positions:
        `rotate_by_position`.

    Example:

    >>> attention = MultiHeadAttention(num_heads=4)
    >>> tuple(attention(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    _inputs = ("query", "value")

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.0,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer = "zeros",
        num_key_value_heads: int | None = None,
        rotary_base: float | None = None,
        scale_attention: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        if num_heads % (num_key_value_heads or 1):
            raise ValueError(
                "num_heads must be divisible by num_key_value_heads. Received: "
                f"num_heads={num_heads}, num_key_value_heads={num_key_value_heads}"
            )
        if rotary_base is not None and not rotary_base > 1:
            raise ValueError(
                f"rotary_base must be greater than 1. Received: rotary_base={rotary_base}"
            )

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self._check_inputs(query_shape, value_shape)
        width = query_shape[-1]
        if self.key_dim is None and width % self.num_heads:
            raise ValueError(
                "The width of the query must be divisible by num_heads, or key_dim must be given. "
                f"Received: width={width}, num_heads={self.num_heads}"
            )
        self._key_width = self.key_dim or width // self.num_heads
        self._value_width = self.value_dim or self._key_width
        if self.rotary_base is not None and self._key_width % 2:
            raise ValueError(
                "The width of each head must be even for rotary positions. "
                f"Received: width={width}, num_heads={self.num_heads}, key_dim={self.key_dim}"
            )
        heads = self._key_heads = self.num_key_value_heads or self.num_heads
        key_shape = value_shape if key_shape is None else key_shape
        output_shape = (*query_shape[:-1], self.num_heads * self._value_width)

        self.query_dense = self._projection("query", self.num_heads * self._key_width, query_shape)
        self.key_dense = self._projection("key", heads * self._key_width, key_shape)
        self.value_dense = self._projection("value", heads * self._value_width, value_shape)
        self.output_dense = self._projection("output", width, output_shape, variance=1.0)
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def _projection(self, name, units, input_shape, variance=0.5):
        # Half of Glorot's variance, as though the three were one kernel. With all of it the mean of
        # the values drowns the residual, and a deep post-norm encoder loses the order of the words.
        glorot = keras.initializers.VarianceScaling(variance, "fan_avg", "uniform")
        return self._dense(
            name,
            units,
            input_shape,
            kernel_initializer=_copy(self.kernel_initializer) or glorot,
            bias_initializer=_copy(self.bias_initializer),
        )

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        self._check_inputs(query, value)
        queries = self._rotate(self._split_heads(self.query_dense(query), self.num_heads))
        keys, values = self.project(value, key)
        # Each mask broadcasts to [batch, num_heads, query_length, key_length].
        given = [mask for mask in (value_mask, key_mask) if mask is not None]
        masks = [ops.expand_dims(ops.cast(mask, "bool"), (1, 2)) for mask in given]
        if attention_mask is not None:
            masks.append(_for_each_head(ops.cast(attention_mask, "bool")))
        if use_causal_mask:
            masks.append(causal_mask(ops.shape(query)[1], ops.shape(keys)[2]))
        mask = functools.reduce(ops.logical_and, masks) if masks else None
        outputs, scores = self.attend(queries, keys, values, mask, attention_bias, training)
        outputs = self._output(outputs, query)
        return (outputs, scores) if return_attention_scores else outputs

    def project(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The keys and values that `attend` takes; the keys have their rotary positions.

        They are `[batch, num_key_value_heads, key_length, key_dim]`, or `value_dim`.
        """
        keys = self._split_heads(self.key_dense(value if key is None else key), self._key_heads)
        values = self._split_heads(self.value_dense(value), self._key_heads)
        return self._rotate(keys), values

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The outputs of each head, `[batch, num_heads, query_length, value_dim]`, and the weights.

        The mask broadcasts to `[batch, query_length, key_length]`, or to that of each head.
        """
        mask = None if mask is None else _for_each_head(mask)
        return scaled_dot_product_attention(
            queries, keys, values, mask, self.dropout_layer, training, bias, self.scale_attention
        )

    def _split_heads(self, x, heads, sizes=None, with_gradient=True):
        """`[batch, length, units]`, or with axes joined, to `[batch, heads, length, dim]`."""
        sizes = ops.shape(x)[:-1] if sizes is None else sizes
        return swap_axes(ops.reshape(x, (*sizes, heads, x.shape[-1] // heads)), with_gradient)

    def _output(self, x, inputs, with_gradient=True):
        """The heads' outputs `[batch, heads, length, dim]`, projected to the inputs' shape."""
        sizes = (-1,) if len(inputs.shape) == 2 else ops.shape(inputs)[:-1]
        units = self.num_heads * self._value_width
        return self.output_dense(ops.reshape(swap_axes(x, with_gradient), (*sizes, units)))

    def _rotate(self, x, positions=None):
        if self.rotary_base is None:
            return x
        return rotate_by_position(x, positions, self.rotary_base)


def _copy(initializer):
    # Keras's initializers return the same values again when they are called again.
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return initializer


def _for_each_head(mask):
    return ops.expand_dims(mask, 1) if len(mask.shape) == 3 else mask


def _joined(before, after):
    """Keys and values, one after the other."""
    return tuple(ops.concatenate(pair, axis=2) for pair in zip(before, after, strict=True))


def _sizes(inputs, keys, new):
    """The numbers of rows and of new positions that the inputs' axis 0 stands for."""
    new = ops.shape(inputs)[0] // ops.shape(keys)[0] if new is None else new
    return count_rows(keys, new), new


def _grown(cache, entries):
    """The cache with new keys and values at its end, or where an export has room for them."""
    written = [export_operation("append", *pair) for pair in zip(cache, entries, strict=True)]
    return _joined(cache, entries) if written[0] is None else tuple(written)


@keras.saving.register_keras_serializable(package="keras_mt")
class CausalSelfAttention(MultiHeadAttention):
    """Multi-head self-attention in which no position sees a later one.

    Args:
        num_heads: Number of heads; must divide the width of the input unless `key_dim` is given.
        dropout, key_dim, value_dim, use_bias, kernel_initializer: As in `MultiHeadAttention`.
        bias_initializer, num_key_value_heads, rotary_base: As in `MultiHeadAttention`.
        scale_attention: As in `MultiHeadAttention`.
        **kwargs: As in `MultiHeadAttention`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens; only those are seen. When None, the
            mask that the inputs carry.
        return_attention_scores, training, attention_bias: As in `MultiHeadAttention`.

    Returns:
        Float tensor `[batch, length, width]`, which carries the mask, whether it came with the
        inputs or as `mask=`; with `return_attention_scores`, a pair of it and the weights
        `[batch, num_heads, length, length]`.

    Raises:
        ValueError: If `num_heads` does not divide the width and `key_dim` is None, or an argument
            is out of range, or the input is not float `[batch, length, width]`.

    Reference:
        Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762).

    Example:

    >>> tuple(CausalSelfAttention(num_heads=4)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    _inputs = ("inputs",)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape, input_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        return super().call(
            inputs,
            inputs,
            value_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=True,
            attention_bias=attention_bias,
        )

    def empty_cache(self, batch_size: int | Tensor) -> tuple[Tensor, Tensor]:
        """The cache for the first `step`: keys and values as those of `project`, of length 0."""
        return tuple(
            ops.zeros((batch_size, self._key_heads, 0, width), self.compute_dtype)
            for width in (self._key_width, self._value_width)
        )

    def step(
        self,
        inputs: Tensor,
        cache: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        positions: int | Tensor | None = None,
        prefix: tuple[Tensor, Tensor] | None = None,
        bias: Tensor | None = None,
        new: int | Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Attends from new positions over those in the cache and themselves.

        Args:
            inputs: Float tensor `[batch * new, width]`: usually one new position for each beam.
            cache: What `empty_cache` or the previous step returned: keys and values.
            mask: Boolean tensor that broadcasts to `[batch, new, prefix + length + new]`, true
                where a new position sees another; None if each sees all.
            positions: The new positions, for rotary positions: an integer, or integers that
                broadcast to `[batch, new]`.
            prefix: The cache after a step over positions that come before and stay the same.
            bias: As `attention_bias` of a call.
            new: The number of new positions of each row; None to compute it.

        Returns:
            The outputs `[batch * new, width]` and the cache with the new positions at its end.
        """
        if self.rotary_base is not None and positions is None:
            raise ValueError(f"{self.name} has rotary positions: step must be given `positions`.")
        denses = self.query_dense, self.key_dense, self.value_dense
        heads, sizes = (self.num_heads, *[self._key_heads] * 2), _sizes(inputs, cache[0], new)
        queries, keys, values = (
            self._split_heads(dense(inputs), number, sizes, with_gradient=False)
            for dense, number in zip(denses, heads, strict=True)
        )
        queries, keys = self._rotate(queries, positions), self._rotate(keys, positions)
        cache = _grown(cache, (keys, values))
        seen = cache if prefix is None else _joined(prefix, cache)
        outputs, _ = self.attend(queries, *seen, mask, bias)
        return self._output(outputs, inputs, with_gradient=False), cache


@keras.saving.register_keras_serializable(package="keras_mt")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention of a target sequence over a memory (the encoder's output).

    Args:
        num_heads: Number of heads; must divide the width of the target unless `key_dim` is given.
        dropout, key_dim, value_dim, use_bias, kernel_initializer: As in `MultiHeadAttention`.
        bias_initializer, num_key_value_heads: As in `MultiHeadAttention`.
        scale_attention: As in `MultiHeadAttention`.
        **kwargs: As in `MultiHeadAttention`.

    Call arguments:
        target: Float tensor `[batch, target_length, width]`.
        memory: Float tensor `[batch, memory_length, memory_width]`.
        target_mask: Has no effect, as `query_mask` of `MultiHeadAttention`.
        memory_mask: Boolean `[batch, memory_length]`, true at real tokens; only those are seen.
            When None, the mask that the memory carries.
        return_attention_scores, training: As in `MultiHeadAttention`.

    Returns:
        Float tensor `[batch, target_length, width]`; with `return_attention_scores`, a pair of it
        and the weights `[batch, num_heads, target_length, memory_length]`. The output carries the
        mask that the target tensor carries; one passed as `target_mask` is not carried on.

    Raises:
        ValueError: If `num_heads` does not divide the width and `key_dim` is None, an argument is
            out of range, `rotary_base` is given, target or memory is not float
            `[batch, length, width]`, or they differ in batch size, where it is known.

    Reference:
        Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762).

    Example:

    >>> attention = CrossAttention(num_heads=4)
    >>> tuple(attention(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    _inputs = ("target", "memory")

    def build(self, target_shape: Shape, memory_shape: Shape) -> None:
        if self.rotary_base is not None:
            raise ValueError(
                "rotary_base must be None in cross-attention: target and memory have no distance. "
                f"Received: rotary_base={self.rotary_base}"
            )
        super().build(target_shape, memory_shape)

    def call(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        return super().call(
            target,
            memory,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def step(
        self,
        inputs: Tensor,
        keys_and_values: tuple[Tensor, Tensor],
        memory_mask: Tensor | None = None,
        new: int | Tensor | None = None,
    ) -> Tensor:
        """The outputs `[batch * new, width]` of new positions of the target.

        `keys_and_values` is what `project` returned for the memory, the same at each step.
        """
        sizes = _sizes(inputs, keys_and_values[0], new)
        queries = self._split_heads(
            self.query_dense(inputs), self.num_heads, sizes, with_gradient=False
        )
        mask = None if memory_mask is None else ops.expand_dims(memory_mask, 1)
        outputs, _ = self.attend(queries, *keys_and_values, mask)
        return self._output(outputs, inputs, with_gradient=False)
