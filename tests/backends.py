"""What tests of layers and models share, on whichever backend Keras has."""

import keras
import numpy as np


def numpy(x):
    """A tensor as a NumPy array, of float32 where it is in half precision."""
    if keras.backend.standardize_dtype(x.dtype) in ("bfloat16", "float16"):
        x = keras.ops.cast(x, "float32")
    return keras.ops.convert_to_numpy(x)


def gradients(function, *arrays):
    """The gradients of a scalar function of arrays."""
    backend, tensors = keras.backend.backend(), list(map(keras.ops.convert_to_tensor, arrays))
    if backend == "jax":
        import jax

        found = jax.grad(function, argnums=tuple(range(len(tensors))))(*tensors)
    elif backend == "torch":
        import torch

        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        found = torch.autograd.grad(function(*tensors), tensors, materialize_grads=True)
    else:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        found = tape.gradient(value, tensors, unconnected_gradients="zero")
        found = map(tf.convert_to_tensor, found)  # Of an embedding they are slices.
    return list(map(numpy, found))


def check_quantized(model, inputs):
    """After `quantize` it computes the same to its rounding."""
    exact = numpy(model(inputs))
    model.quantize("int8")
    found = numpy(model(inputs))
    error = np.abs(found - exact) / exact.std()
    if any(w.dtype == "int8" for w in model.weights):
        # 127 steps to the greatest weight of a column, and to the greatest state of a position.
        assert 0 < error.mean() < 0.03 and error.max() < 0.2
    else:
        assert error.max() == 0
