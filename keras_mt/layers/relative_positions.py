"""Relative positions as learned biases of attention."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_mt.layers.layer import BaseLayer
from keras_mt.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class RelativePositions(BaseLayer):
    """Relative positions: a learned bias of each head for each distance of a key from a query.

    What it returns is added to the products of queries and keys before the softmax; a stack of
    blocks shares it. Short distances have a bias each. Longer ones share one in ranges whose bounds
    grow exponentially; from `max_distance` on, all have the same.

    Args:
        num_heads: Number of attention heads.
        bidirectional: Whether keys before and after the query have biases of their own, as in an
            encoder; if not, the keys after it, which a decoder does not see, count as its own.
        num_buckets: Number of biases of a head; half of them are for distances that have one each.
        max_distance: From which distance on all have the same bias.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`, of which only the length counts.

    Returns:
        Float tensor `[1, num_heads, length, length]`, the `attention_bias` of attention layers.

    Raises:
        ValueError: If a number is not a positive integer, or `max_distance` is not greater than
            the number of distances that have a bias each.

    Reference:
        Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer, section 2.1 (https://arxiv.org/abs/1910.10683).

    Example:

    >>> tuple(RelativePositions(num_heads=4)(np.zeros((2, 5, 32))).shape)
    (1, 4, 5, 5)
    """

    def __init__(
        self,
        num_heads: int,
        bidirectional: bool = True,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        near = num_buckets // (4 if bidirectional else 2)
        if not 0 < near < max_distance:
            raise ValueError(
                "max_distance must be greater than the number of distances that have a bias each, "
                f"and that at least 1. Received: {num_buckets=}, {max_distance=}"
            )
        self._buckets = _buckets(num_buckets, max_distance, bidirectional)

    def build(self, input_shape: Shape | None = None) -> None:
        self.biases = self.add_weight(
            shape=(self.num_buckets, self.num_heads), initializer="random_normal", name="biases"
        )

    def call(self, inputs: Tensor) -> Tensor:
        positions = ops.arange(ops.shape(inputs)[1])
        return self.bias(positions, positions)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The bias `[1, num_heads, query_length, key_length]` of queries and keys at positions.

        The positions are integers `[query_length]` and `[key_length]`.
        """
        distances = ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)
        places = ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance
        buckets = ops.take(ops.convert_to_tensor(self._buckets), places)
        biases = ops.take(ops.cast(self.biases, self.compute_dtype), buckets, axis=0)
        return ops.expand_dims(ops.transpose(biases, (2, 0, 1)), 0)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (1, self.num_heads, input_shape[1], input_shape[1])


def _buckets(number, max_distance, bidirectional):
    """The index of the bias of each distance from `-max_distance` to `max_distance`."""
    distances = np.arange(-max_distance, max_distance + 1)
    after, offset = distances > 0, 0
    if bidirectional:
        number //= 2
        offset, distances = after * number, abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    near = number // 2
    # The bounds of the ranges are powers of 2 for the usual numbers: rounding must not miss them.
    ratio = np.log(np.maximum(distances, 1) / near) / np.log(max_distance / near)
    far = near + np.floor(ratio * (number - near) + 1e-6).astype(int)
    buckets = np.where(distances < near, distances, np.minimum(far, number - 1))
    return (offset + buckets).astype("int32")
