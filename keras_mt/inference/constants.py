"""Weights as constants of a graph."""

from collections.abc import Sequence
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from keras_mt.inference import fused


class ConstantScope(keras.StatelessScope):
    """A scope in which some Keras variables read as constants of the graph that is being traced.

    Each graph gets its own constants: a constant of an outer graph would become an argument of a
    loop's body, and would not be fused.
    """

    def __init__(self, variables: Sequence[keras.Variable]):
        super().__init__()
        self._values = {id(variable): variable.numpy() for variable in variables}
        self._constants, self._tables = {}, {}
        # For the layers: see keras_mt.layers.layer.
        self.operations = SimpleNamespace(share=self._share, **vars(fused))

    def _share(self, table: np.ndarray) -> tf.Tensor:
        """A table that the SavedModel holds once: all graphs take it as an argument."""
        with tf.init_scope():
            return self._tables.setdefault((table.shape, table.tobytes()), tf.constant(table))

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        if id(variable) not in self._values:
            return None
        key = tf.compat.v1.get_default_graph(), id(variable)
        if key not in self._constants:
            self._constants[key] = tf.constant(self._values[id(variable)])
        return self._constants[key]
