"""Layer operations of exports, written so that TensorFlow fuses them."""

import math

import keras
import tensorflow as tf

from keras_mt.layers.types import Tensor

# The epsilon of TensorFlow's fused normalization, whatever the epsilon of the graph it replaces.
_FUSED_EPSILON = 1e-3


def normalize(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor | None:
    """Layer normalization over the last axis, computed in float32, fused into one kernel.

    TensorFlow (remapper.cc, FindMklLayerNorm) replaces these ten operations if they come in this
    order, the axis is counted from the front, and scale and offset are constants. Its epsilon is
    0.001, so `x / sqrt(var(x) + epsilon)` is computed as `cx / sqrt(var(cx) + c^2 epsilon)`.
    """
    dtype, axis = x.dtype, x.shape.rank - 1
    weights = [tf.get_static_value(w) for w in (gamma, beta)]
    if weights[0] is None or dtype != gamma.dtype or dtype not in (tf.float32, tf.bfloat16):
        return None
    # The kernel takes bfloat16 too, but without oneDNN each of these operations would round.
    gamma, beta = (tf.constant(w.astype("float32")) for w in weights)
    x = tf.cast(x, tf.float32) * math.sqrt(_FUSED_EPSILON / epsilon)
    mean = tf.reduce_mean(x, axis, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axis, keepdims=True)
    scale = tf.math.rsqrt(variance + _FUSED_EPSILON) * gamma
    return tf.cast(x * scale + (beta - mean * scale), dtype)


def project(x: Tensor, embedding: keras.layers.ReversibleEmbedding) -> Tensor | None:
    """The output projection of states `[rows, width]`, by a table that need not be transposed."""
    if x.shape.rank != 2 or embedding.quantization_mode or embedding.lora_enabled:
        return None
    tied = embedding.tie_weights
    kernel = embedding.embeddings if tied else embedding.reverse_embeddings
    return tf.matmul(x, kernel.value, transpose_b=tied)
