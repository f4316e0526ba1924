"""Scaled dot-product attention: what the attention layers compute."""

import math

import keras
from keras import ops

from keras_mt.layers.layer import count_rows, export_operation
from keras_mt.layers.types import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: keras.layers.Layer | None = None,
    training: bool | None = None,
    bias: Tensor | None = None,
    scaled: bool = True,
) -> tuple[Tensor, Tensor]:
    """Attention of queries over keys and values: `softmax(q k^T / sqrt(key_dim) + bias) v`.

    Args:
        query: Float tensor `[batch, num_heads, query_length, key_dim]`.
        key: Float tensor `[batch, num_key_value_heads, key_length, key_dim]`: as many heads as the
            query or, with grouped queries, a divisor of that number. Each key head then serves the
            same number of consecutive query heads.
        value: Float tensor `[batch, num_key_value_heads, key_length, value_dim]`.
        mask: Boolean tensor that broadcasts to `[batch, num_heads, query_length, key_length]`, true
            where a query may see a key. The output of a query that may see no key at all is a
            weighted mean of the values, never NaN.
        dropout: A `Dropout` layer for the attention weights, or None.
        training: Whether dropout is on.
        bias: Float tensor that broadcasts as the mask does, such as that of `RelativePositions`.
        scaled: Whether the products are divided by `sqrt(key_dim)`.

    Returns:
        The outputs `[batch, num_heads, query_length, value_dim]` and the attention weights
        `[batch, num_heads, query_length, key_length]`, before dropout.

    Reference:
        Vaswani et al. 2017, section 3.2.1 (https://arxiv.org/abs/1706.03762); grouped queries:
        Ainslie et al. 2023, GQA (https://arxiv.org/abs/2305.13245).

    Example:

    >>> x = keras.random.normal((2, 4, 7, 8))
    >>> outputs, scores = scaled_dot_product_attention(x, x, x, mask=causal_mask(7, 7))
    >>> tuple(outputs.shape), tuple(scores.shape)
    ((2, 4, 7, 8), (2, 4, 7, 7))
    """
    if scaled:  # Scaling the queries touches fewer numbers than scaling the scores.
        query = query * (1.0 / math.sqrt(query.shape[-1]))
    scores = _product(query, ops.swapaxes(key, -2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        # Finite, so that the output of a query that sees no key is, too; float16 ends at 65504.
        masked = -3e4 if keras.backend.standardize_dtype(scores.dtype) == "float16" else -1e9
        scores = scores + ops.cast(ops.logical_not(mask), scores.dtype) * masked
    # Keras warns about a softmax over one element, which is 1.
    weights = ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
    dropped = weights if dropout is None else dropout(weights, training=training)
    return _product(dropped, value), weights


def _product(x, y):
    """`x @ y` for each head of `x`, of which each head of `y` serves as many in turn."""
    if x.shape[1] == y.shape[1]:
        return ops.matmul(x, y)
    _, heads, length, width = ops.shape(x)  # The rows of a group together: `y` is not copied.
    rows = count_rows(x, length)
    stacked = ops.reshape(x, (rows, y.shape[1], heads // y.shape[1] * length, width))
    return ops.reshape(ops.matmul(stacked, y), (rows, heads, length, ops.shape(y)[-1]))


def swap_axes(x: Tensor, with_gradient: bool = True) -> Tensor:
    """Swaps the two middle axes, of length and of heads; for decoding, in less time on TensorFlow.

    TensorFlow hands transposes of floats to oneDNN, which spends 50 microseconds on each before it
    starts; those of integers, which have no gradient, it does itself, in 5.
    """
    if with_gradient or keras.backend.backend() != "tensorflow":
        return ops.transpose(x, (0, 2, 1, 3))
    if (swapped := export_operation("swap", x)) is not None:
        return swapped
    dtype = keras.backend.standardize_dtype(x.dtype)
    bits = "int32" if dtype == "float32" else "int16"
    return ops.view(swap_axes(ops.view(x, bits)), dtype)


def causal_mask(query_length: int | Tensor, key_length: int | Tensor) -> Tensor:
    """Boolean `[query_length, key_length]`: position i sees the positions up to and including i."""
    return ops.expand_dims(ops.arange(query_length), 1) >= ops.arange(key_length)
