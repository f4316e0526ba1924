"""Weights as constants of a graph."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.inference import fused

# Protobuf's limit of 2 GB, less some for all that is not weights.
_MAX_BYTES = 2**31 - 2**26


class ConstantScope(keras.StatelessScope):
    """A scope in which some Keras variables read as constants of the graph that is being traced.

    Each graph gets its own constants: a constant of an outer graph would become an argument of a
    loop's body, and oneDNN would not pack it. They must not exceed a graph's size together.
    """

    operations = fused  # For the layers: see keras_mt.layers.layer.

    def __init__(self, variables: Sequence[keras.Variable], what: str, instead: str):
        super().__init__()
        check_size(variables, what, instead)
        self._messages = what, instead
        self._values = {id(variable): variable.numpy() for variable in variables}
        self._constants = {}
        self._size = 0

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        if id(variable) not in self._values:
            return None
        key = tf.compat.v1.get_default_graph(), id(variable)
        if key not in self._constants:
            value = self._values[id(variable)]
            self._size += value.nbytes
            _check(self._size, *self._messages)
            self._constants[key] = tf.constant(value)
        return self._constants[key]


def check_size(variables: Sequence[keras.Variable], what: str, instead: str) -> None:
    """Raises InputError for more than a graph's file can hold, before minutes are spent on it.

    It says `what` writes them there, such as "freeze", and what to do `instead`.
    """
    _check(sum(v.value.dtype.size * v.value.shape.num_elements() for v in variables), what, instead)


def _check(size, what, instead):
    if size > _MAX_BYTES:
        raise InputError(
            f"{what} writes the weights, {size / 1e9:.2f} GB, into the graph, and a graph's file "
            f"holds at most {_MAX_BYTES / 1e9:.2f} GB (protobuf's limit): {instead}."
        )
