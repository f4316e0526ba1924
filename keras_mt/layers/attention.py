"""Scaled dot-product attention and the three layers that the Transformer makes of it."""

import math

import keras
from keras import ops

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.validation import check_positive, check_rate


def scaled_dot_product_attention(query, key, value, mask=None, dropout=None, training=None):
    """Attention of queries over keys and values: `softmax(q k^T / sqrt(head_width)) v`.

    Args:
        query: Float tensor `[batch, num_heads, query_length, head_width]`.
        key: Float tensor `[batch, num_heads, key_length, head_width]`.
        value: Float tensor `[batch, num_heads, key_length, head_width]`.
        mask: Boolean tensor that broadcasts to `[batch, num_heads, query_length, key_length]`, true
            where a query may see a key. A query that may see no key at all takes some mean of the
            values, never NaN.
        dropout: A `Dropout` layer for the attention weights, or None.
        training: Whether dropout is on.

    Returns:
        The pair of the outputs `[batch, num_heads, query_length, head_width]` and the attention
        weights `[batch, num_heads, query_length, key_length]`.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.2.1
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> x = keras.random.normal((2, 4, 7, 8))
    >>> outputs, scores = scaled_dot_product_attention(x, x, x, mask=causal_mask(7, 7))
    >>> tuple(outputs.shape), tuple(scores.shape)
    ((2, 4, 7, 8), (2, 4, 7, 7))
    """
    # Scaling the queries touches fewer numbers than scaling the scores.
    query = query * (1.0 / math.sqrt(query.shape[-1]))
    scores = ops.matmul(query, ops.swapaxes(key, -2, -1))
    if mask is not None:
        # Finite, so that a row with nothing to see stays finite; float16 ends at 65504.
        hidden = -3e4 if keras.backend.standardize_dtype(scores.dtype) == "float16" else -1e9
        scores = scores + ops.cast(ops.logical_not(mask), scores.dtype) * hidden
    # Keras warns of a softmax over one element, which is 1.
    scores = ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
    weights = scores if dropout is None else dropout(scores, training=training)
    return ops.matmul(weights, value), scores


def _swap(x):
    return ops.transpose(x, (0, 2, 1, 3))


def swap_without_gradient(x):
    """Swaps the two axes in the middle, for decoding.

    TensorFlow hands transposes of floats to oneDNN, which spends 50 microseconds on each before it
    begins; those of integers it does itself, in 5.
    """
    if keras.backend.backend() != "tensorflow":
        return _swap(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    bits = "int32" if dtype == "float32" else "int16"
    return ops.view(_swap(ops.view(x, bits)), dtype)


def causal_mask(query_length, key_length):
    """Boolean `[query_length, key_length]`: position i sees the positions up to and with i."""
    return ops.expand_dims(ops.arange(query_length), 1) >= ops.arange(key_length)


@keras.saving.register_keras_serializable(package="keras_mt")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention.

    `Concat(head_1, ..., head_h) W_O` with `head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)`. The
    width of the output, and of all heads together, is the width of the query.

    Args:
        num_heads: Number of heads; must divide the width of the query.
        dropout: Rate of dropout on the attention weights, at least 0 and below 1.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        query: Float tensor `[batch, query_length, width]`.
        value: Float tensor `[batch, key_length, value_width]`.
        key: Float tensor `[batch, key_length, key_width]`; `value` when None.
        query_mask, value_mask, key_mask: Boolean `[batch, length]` masks, true at real tokens;
            filled in by Keras where the tensors carry masks. Queries do not see masked keys; the
            mask of the query is passed on.
        attention_mask: Boolean tensor `[batch, query_length, key_length]` or one that broadcasts
            to it, true where a query may see a key.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether dropout is on.
        use_causal_mask: Whether position i sees only the keys up to and with i.

    Returns:
        Float tensor `[batch, query_length, width]`; with `return_attention_scores`, a pair of it
        and the weights `[batch, num_heads, query_length, key_length]`.

    Raises:
        ValueError: If `num_heads` does not divide the width, `dropout` is out of range, or query
            and value are batches of other sizes, where these are known.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.2.2
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> attention = MultiHeadAttention(num_heads=4)
    >>> tuple(attention(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    def __init__(self, num_heads, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads)
        check_rate(dropout=dropout)
        self.num_heads = num_heads
        self.dropout = dropout
        self.supports_masking = True

    def build(self, query_shape, value_shape, key_shape=None):
        width = query_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                "The width of the query must be divisible by num_heads. "
                f"Received: width={width}, num_heads={self.num_heads}"
            )
        self.head_width = width // self.num_heads

        def dense(name, variance=1.0):
            initializer = keras.initializers.VarianceScaling(variance, "fan_avg", "uniform")
            return keras.layers.Dense(
                width, kernel_initializer=initializer, dtype=self.dtype_policy, name=name
            )

        # Half of Glorot's variance, as though the three were one kernel. With all of it the mean of
        # the values drowns the residual, and a deep post-norm encoder loses the order of the words.
        self.query_dense = dense("query", variance=0.5)
        self.key_dense = dense("key", variance=0.5)
        self.value_dense = dense("value", variance=0.5)
        self.output_dense = dense("output")
        self.query_dense.build(query_shape)
        self.key_dense.build(value_shape if key_shape is None else key_shape)
        self.value_dense.build(value_shape)
        self.output_dense.build(query_shape)
        self.dropout_layer = None
        if self.dropout:
            self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        self._check_batches(query, value)
        keys, values = self.project(value, key)
        mask = None
        for padding in (value_mask, key_mask):  # [batch, key_length]
            if padding is not None:
                mask = _both(mask, ops.cast(padding, "bool")[:, None, :])
        if attention_mask is not None:
            mask = _both(mask, ops.cast(attention_mask, "bool"))
        if use_causal_mask:
            mask = _both(mask, causal_mask(ops.shape(query)[1], ops.shape(keys)[2])[None])
        outputs, scores = self.attend(query, keys, values, mask, training)
        return (outputs, scores) if return_attention_scores else outputs

    def project(self, value, key=None):
        """Projects to keys and values, each `[batch, num_heads, key_length, head_width]`."""
        key = value if key is None else key
        return (
            self._split_heads(self.key_dense(key), ops.shape(key)[0]),
            self._split_heads(self.value_dense(value), ops.shape(value)[0]),
        )

    def attend(self, query, keys, values, mask=None, training=None, swap=_swap):
        """Attention over what `project` returned.

        Args:
            query: Float tensor `[batch, query_length, width]` or `[batch * query_length, width]`.
            keys: Float tensor `[batch, num_heads, key_length, head_width]`.
            values: Float tensor `[batch, num_heads, key_length, head_width]`.
            mask: Boolean tensor that broadcasts to `[batch, query_length, key_length]`, or None.
            training: Whether dropout is on.
            swap: Function that swaps the two axes in the middle.

        Returns:
            The outputs, of the shape of the query, and the weights.
        """
        if mask is not None:
            mask = ops.expand_dims(mask, -3)
        batch_size = ops.shape(query if len(query.shape) == 3 else keys)[0]
        outputs, scores = scaled_dot_product_attention(
            self._split_heads(self.query_dense(query), batch_size, swap),
            keys,
            values,
            mask,
            dropout=self.dropout_layer,
            training=training,
        )
        outputs = ops.reshape(swap(outputs), ops.shape(query))
        return self.output_dense(outputs), scores

    def _check_batches(self, query, value):
        sizes = {x.shape[0] for x in (query, value)} - {None}
        if len(sizes) > 1:
            raise ValueError(
                f"{self.name} takes a query and a value of one batch size. "
                f"Received: shapes {tuple(query.shape)} and {tuple(value.shape)}"
            )

    def _split_heads(self, x, batch_size, swap=_swap):
        # [batch, length, width] or [batch * length, width]
        # -> [batch, num_heads, length, head_width]
        return swap(ops.reshape(x, (batch_size, -1, self.num_heads, self.head_width)))

    def compute_mask(self, query, query_mask):
        return query_mask

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return query_shape

    def compute_output_spec(self, query, value, *args, return_attention_scores=False, **kwargs):
        self._check_batches(query, value)
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        shape = (query.shape[0], self.num_heads, query.shape[1], value.shape[1])
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "dropout": self.dropout}


def _both(first, second):
    return second if first is None else ops.logical_and(first, second)


@keras.saving.register_keras_serializable(package="keras_mt")
class CausalSelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence over itself, each position seeing none after it.

    Args:
        num_heads: Number of heads; must divide the width of the input.
        dropout: Rate of dropout on the attention weights, at least 0 and below 1.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens; filled in by Keras.
        return_attention_scores: Whether to return the weights `[batch, num_heads, length, length]`
            too.
        training: Whether dropout is on.

    Returns:
        Float tensor `[batch, length, width]`, with the weights where asked.

    Raises:
        ValueError: If `num_heads` does not divide the width, or `dropout` is out of range.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.2.3
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> tuple(CausalSelfAttention(num_heads=4)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def build(self, input_shape):
        super().build(input_shape, input_shape)

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        return super().call(
            inputs,
            inputs,
            value_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=True,
        )

    def empty_cache(self, batch_size):
        """The cache for the first `step`: two tensors `[batch, num_heads, 0, head_width]`."""
        empty = ops.zeros((batch_size, self.num_heads, 0, self.head_width), self.compute_dtype)
        return empty, empty

    def step(self, inputs, cache, mask=None):
        """Attends from new positions over those in the cache and themselves.

        Args:
            inputs: Float tensor `[batch * new, width]`: usually one position, or the beams of one.
            cache: What `empty_cache` or the step before returned: keys and values
                `[batch, num_heads, length, head_width]`.
            mask: Boolean tensor that broadcasts to `[batch, new, length + new]`, or None, when
                every new position sees all.

        Returns:
            The outputs `[batch * new, width]` and the cache with the new positions at its end.
        """
        batch_size = ops.shape(cache[0])[0]
        new_keys, new_values = (
            self._split_heads(dense(inputs), batch_size, swap_without_gradient)
            for dense in (self.key_dense, self.value_dense)
        )
        keys = ops.concatenate([cache[0], new_keys], axis=2)
        values = ops.concatenate([cache[1], new_values], axis=2)
        outputs, _ = self.attend(inputs, keys, values, mask, swap=swap_without_gradient)
        return outputs, (keys, values)

    def compute_mask(self, inputs, mask):
        return mask

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, inputs, *args, **kwargs):
        return super().compute_output_spec(inputs, inputs, **kwargs)


@keras.saving.register_keras_serializable(package="keras_mt")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention of a target sequence over a memory (the encoder's output).

    Args:
        num_heads: Number of heads; must divide the width of the target.
        dropout: Rate of dropout on the attention weights, at least 0 and below 1.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        target: Float tensor `[batch, target_length, width]`.
        memory: Float tensor `[batch, memory_length, memory_width]`.
        target_mask, memory_mask: Boolean `[batch, length]`, true at real tokens; filled in by
            Keras.
        return_attention_scores: Whether to return the weights
            `[batch, num_heads, target_length, memory_length]` too.
        training: Whether dropout is on.

    Returns:
        Float tensor `[batch, target_length, width]`, with the weights where asked.

    Raises:
        ValueError: If `num_heads` does not divide the width, `dropout` is out of range, or target
            and memory are batches of other sizes, where these are known.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.2.3
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> attention = CrossAttention(num_heads=4)
    >>> tuple(attention(keras.random.normal((2, 5, 32)), keras.random.normal((2, 9, 32))).shape)
    (2, 5, 32)
    """

    def build(self, target_shape, memory_shape):
        super().build(target_shape, memory_shape)

    def call(
        self,
        target,
        memory,
        target_mask=None,
        memory_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        return super().call(
            target,
            memory,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def compute_mask(self, target, target_mask):
        return target_mask

    def compute_output_shape(self, target_shape, memory_shape):
        return target_shape

    def compute_output_spec(self, target, memory, *args, **kwargs):
        return super().compute_output_spec(target, memory, **kwargs)
