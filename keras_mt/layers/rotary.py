"""Rotary positions."""

import math

from keras import ops

from keras_mt.layers.types import Tensor


def rotate_by_position(
    x: Tensor, positions: int | Tensor | None = None, base: float = 10000.0
) -> Tensor:
    """Rotates queries or keys by their positions, so that their products depend on the distance.

    In each head the pair `x[i]` and `x[i + dim / 2]` is rotated, as a point in the plane, by the
    angle `position * base^(-2i / dim)`.

    Args:
        x: Float tensor `[batch, num_heads, length, dim]`; `dim` must be even.
        positions: An integer, or integers that broadcast to `[batch, length]`; 0, 1, 2, ... when
            None.
        base: Base of the angles: the wavelengths grow from `2 pi` towards `2 pi * base`.

    Returns:
        Float tensor of the shape of `x`.

    Raises:
        ValueError: If `dim` is odd.

    Reference:
        Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding
        (https://arxiv.org/abs/2104.09864), with the halves as pairs, as Llama has them.

    Example:

    >>> turned = np.array(rotate_by_position(np.ones((1, 1, 3, 2), "float32")))
    >>> [round(float(y), 3) for y in turned[0, 0, :, 0]]  # cos(i) - sin(i)
    [1.0, -0.301, -1.325]
    """
    if x.shape[-1] % 2:
        raise ValueError(f"The last axis of x must have an even size. Received: shape={x.shape}")
    half = x.shape[-1] // 2
    positions = ops.arange(ops.shape(x)[2]) if positions is None else positions
    rates = ops.exp(ops.arange(half, dtype="float32") * (-math.log(base) / half))
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * rates
    if len(angles.shape) == 3:  # [batch, length, half]
        angles = ops.expand_dims(angles, 1)
    cos, sin = ops.cast(ops.cos(angles), x.dtype), ops.cast(ops.sin(angles), x.dtype)
    first, second = x[..., :half], x[..., half:]
    return ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
