"""Layer operations of exports to LiteRT, whose loops are fast with shapes that stay the same."""

from collections.abc import Mapping
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_mt.layers.dot_product import swap_axes
from keras_mt.layers.types import Tensor


class InPlaceScope(keras.StatelessScope):
    """A scope in which layers write new entries into a cache that has room for them.

    `tables` are embeddings in 8 bits, with a scale for each row, by the variable's id: LiteRT would
    hold what it looks up in float32.
    """

    swap = staticmethod(swap_axes)

    def __init__(self, tables: Mapping[int, tuple[np.ndarray, np.ndarray]], place: Any = None):
        super().__init__()
        self._tables, self._place, self.operations = tables, place, self

    def at(self, place: Tensor) -> Self:
        """The scope of a step, whose entries come to stand at `place` in the cache."""
        return type(self)(self._tables, place)

    def append(self, cache: Tensor, entries: Tensor) -> Tensor | None:
        """Keys or values `[batch, heads, length, dim]` with new ones in place; None to append."""
        if self._place is None:
            return None
        return ops.slice_update(cache, (0, 0, self._place, 0), entries)

    def look_up(self, embedding: keras.layers.Embedding, tokens: Tensor) -> Tensor | None:
        """The embeddings of tokens; None for a table that is not in 8 bits."""
        table, scales = self._tables.get(id(embedding.embeddings), (None, None))
        if table is None:
            return None
        rows = tf.cast(tf.gather(tf.constant(table), tokens), tf.float32)
        return rows * tf.expand_dims(tf.gather(tf.constant(scales), tokens), -1)


def quantized(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a table as int8, and the scale of each."""
    scales = np.maximum(np.abs(table).max(axis=1).astype("float32"), 1e-30) / 127
    return np.round(table / scales[:, None]).astype("int8"), scales
