"""The operations of layers on weights that are constants of a graph, as TensorFlow fuses them."""

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_mt.layers.constants import are_constants
from keras_mt.layers.types import Tensor

# That of TensorFlow's fused normalisation, whatever the graph that it takes the place of has.
_FUSED_EPSILON = 1e-3


def normalize(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Layer normalisation of the last axis in float32 or bfloat16, which becomes one operation.

    TensorFlow's graph optimizer puts a kernel in the place of these ten operations if they stand in
    this order, the axis is counted from the front, and scale and offset are constants. The kernel
    takes bfloat16 and computes in float32; its epsilon is 0.001, whatever theirs was. Scaled inputs
    make any other of it: `x / sqrt(var(x) + epsilon)` is `cx / sqrt(var(cx) + c^2 epsilon)`.

    Reference:
        FindMklLayerNorm in tensorflow/core/grappler/optimizers/remapper.cc
    """
    # Not by Keras's operations, which take bfloat16 to float32 and back.
    scale = math.sqrt(_FUSED_EPSILON / epsilon)
    if x.dtype != tf.float32:
        scale = 2.0 ** round(math.log2(scale))  # Exact; epsilon is less than twice or half itself.
    x, axis = x * tf.constant(scale, x.dtype), x.shape.rank - 1
    mean = tf.reduce_mean(x, axis, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axis, keepdims=True)
    scale = tf.math.rsqrt(variance + tf.constant(_FUSED_EPSILON, x.dtype)) * gamma
    return x * scale + (beta - mean * scale)


def multiply(x: Tensor, kernel: Tensor) -> Tensor:
    """The product of two matrices with a bias that rounds away: such a kernel is packed only once.

    oneDNN's products with a bias keep a constant kernel in the layout that they want; those without
    one read it as it is.
    """
    return tf.nn.bias_add(tf.matmul(x, kernel), tf.constant(1e-30, x.dtype, kernel.shape[1:]))


def dense_together(x: Tensor, denses: Sequence[keras.layers.Dense]) -> Tensor | None:
    """The outputs of dense layers on the same inputs, side by side, by one product.

    None where their kernels are no constants: to join them at each step would take longer.
    """
    if any(dense.lora_enabled or dense.quantization_mode for dense in denses):
        return None  # Their kernels are made anew each time.
    kernels = [dense.kernel.value for dense in denses]
    if not are_constants(*kernels):
        return None
    kernel = np.concatenate([tf.get_static_value(each) for each in kernels], axis=1)
    product = tf.matmul(x, tf.constant(kernel))
    if not denses[0].use_bias:
        return product
    bias = np.concatenate([tf.get_static_value(dense.bias.value) for dense in denses])
    return tf.nn.bias_add(product, tf.constant(bias))
