"""Ragged tensors of a few operations, where TensorFlow's own functions make up to a hundred."""

import tensorflow as tf


def ragged_rows(dense: tf.Tensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first values of rows `[rows, length]`, as many as the `lengths` say."""
    values = tf.gather_nd(dense, tf.where(tf.sequence_mask(lengths, tf.shape(dense)[1])))
    return tf.RaggedTensor.from_row_lengths(values, tf.cast(lengths, tf.int64), validate=False)


def kept(ragged: tf.RaggedTensor, which: tf.Tensor) -> tf.RaggedTensor:
    """Ragged rows with some of their values, by a mask of the flat ones."""
    ends = tf.pad(tf.cumsum(tf.cast(which, ragged.row_splits.dtype)), ((1, 0),))
    values = tf.gather_nd(ragged.flat_values, tf.where(which))
    ends = tf.gather(ends, ragged.row_splits)
    return tf.RaggedTensor.from_row_splits(values, ends, validate=False)
