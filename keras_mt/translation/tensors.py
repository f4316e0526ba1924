"""Tensors of texts: translated as lists are, in a `tf.function` and a `tf.data.Dataset` too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.translation.results import Results


def translated_tensor(
    hypotheses: Callable[..., Results], texts: tf.Tensor, n_best: int, **columns: Any
) -> tf.Tensor:
    """The translations of texts `[batch]`, strings `[batch, n_best]`, by a function of lists.

    Columns that are tensors become lists, others go to the function as they are. The row of a text
    that is refused is empty.
    """
    tensors = {"texts": texts} | {n: x for n, x in columns.items() if isinstance(x, tf.Tensor)}
    for name, column in tensors.items():
        _check(texts, name, column)

    def run(*arrays):
        lists = [[text.decode("utf-8", "replace") for text in array] for array in arrays]
        found = hypotheses(**columns | dict(zip(tensors, lists, strict=True)))
        best = [[h.text.encode() for h in several or ()] for several in found]
        return np.array([text for row in best for text in (row + [b""] * n_best)[:n_best]], object)

    if tf.executing_eagerly():
        flat = run(*(column.numpy() for column in tensors.values()))
        flat = tf.constant(flat.tolist(), tf.string)
    else:
        flat = tf.numpy_function(run, list(tensors.values()), tf.string)
    return tf.ensure_shape(tf.reshape(flat, (-1, n_best)), (texts.shape[0], n_best))


def _check(texts, name, column):
    """Refuses a column that is no string tensor `[batch]`, or of another shape than the texts."""
    if column.dtype != tf.string or column.shape.rank not in (1, None):
        raise InputError(f"{name} must be a string tensor [batch]. Received: {column!r}")
    if not texts.shape.is_compatible_with(column.shape):
        shapes = [texts.shape, column.shape]
        raise InputError(f"texts and {name} must have the same length. Received: shapes {shapes}")
