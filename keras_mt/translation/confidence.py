"""Signs of a doubtful translation, from its tokens alone."""

import tensorflow as tf

# The longest sequence of tokens that is checked for repetition.
_LONGEST = 16


def repeats(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Which rows have a sequence of tokens that repeats over and over, right after itself.

    A single token must occur four times in a row, a sequence of two or three tokens three times, a
    longer one of up to 16 tokens twice.

    Args:
        ids: Integers `[rows, length]`.
        lengths: int32 `[rows]`: the number of tokens of each row; the rest is padding.

    Returns:
        Boolean `[rows]`.

    Example:

    >>> repeats(tf.constant([[5, 6, 5, 6, 5, 6], [5, 6, 5, 6, 7, 8]]), tf.constant([6, 6])).numpy()
    array([ True, False])
    """
    found = tf.zeros_like(lengths, tf.bool)
    for period in range(1, _LONGEST + 1):
        again = {1: 3, 2: 4, 3: 6}.get(period, period)  # Tokens equal to the one a period before.
        same = ids[:, period:] == ids[:, :-period]
        same &= tf.sequence_mask(lengths - period, tf.shape(same)[1])
        counts = tf.pad(tf.cumsum(tf.cast(same, tf.int32), axis=1), ((0, 0), (1, 0)))
        found |= tf.reduce_any(counts[:, again:] - counts[:, :-again] == again, axis=1)
    return found


def out_of_proportion(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Whether the longer of two lengths is more than twice the shorter plus five tokens.

    Args:
        source: int32, the number of the source's tokens without the end.
        target: int32 of a shape that broadcasts with it, that of the target's.

    Returns:
        Boolean, of their shape.

    Example:

    >>> out_of_proportion(tf.constant([4, 4, 30]), tf.constant([13, 14, 12])).numpy()
    array([False,  True,  True])
    """
    shorter, longer = tf.minimum(source, target), tf.maximum(source, target)
    return longer > 2 * shorter + 5
