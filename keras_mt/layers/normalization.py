"""Keras's layer normalisation, spelled so that TensorFlow runs it as one operation."""

import math

import keras

from keras_mt.layers.types import Tensor

# That of the operation, whatever the graph that it takes the place of has.
_FUSED_EPSILON = 1e-3


@keras.saving.register_keras_serializable(package="keras_mt")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's own, which TensorFlow fuses where the weights are constants of a graph.

    TensorFlow's graph optimizer puts one kernel in the place of the ten operations if they stand in
    a certain order, the axis is counted from the front, and scale and offset are constants. The
    kernel's epsilon is 0.001, whatever theirs was. Scaled inputs make any other of it:
    `x / sqrt(var(x) + epsilon)` is `cx / sqrt(var(cx) + c^2 epsilon)`.

    Reference:
        FindMklLayerNorm in tensorflow/core/grappler/optimizers/remapper.cc
    """

    def call(self, inputs: Tensor) -> Tensor:
        gamma, beta = self.gamma.value, self.beta.value
        fused = inputs.dtype == gamma.dtype and self.compute_dtype in ("float32", "bfloat16")
        if fused and _is_constant(gamma) and _is_constant(beta):
            return _fused_by_tensorflow(inputs, gamma, beta, self.epsilon)
        return super().call(inputs)


def _is_constant(x):
    return getattr(getattr(x, "op", None), "type", None) == "Const"  # Of TensorFlow's graphs.


def _fused_by_tensorflow(x, gamma, beta, epsilon):
    """The kernel takes bfloat16, too, and computes in float32."""
    import tensorflow as tf  # Keras's own operations take bfloat16 to float32 and back.

    scale = math.sqrt(_FUSED_EPSILON / epsilon)
    if x.dtype != tf.float32:
        scale = 2.0 ** round(math.log2(scale))  # Exact; epsilon is less than twice or half itself.
    x, axis = x * tf.constant(scale, x.dtype), x.shape.rank - 1
    mean = tf.reduce_mean(x, axis, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axis, keepdims=True)
    scale = tf.math.rsqrt(variance + tf.constant(_FUSED_EPSILON, x.dtype)) * gamma
    return x * scale + (beta - mean * scale)
