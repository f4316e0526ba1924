"""Measures of confidence in a translation: its tokens' probabilities, repetition, and length."""

import tensorflow as tf

from keras_mt.options import NO_HYPOTHESIS

# The longest sequence of tokens that is checked for repetition.
_LONGEST = 16


def repeats(ids: tf.RaggedTensor) -> tf.Tensor:
    """Boolean `[rows]`, true where a sequence of ids repeats right after itself.

    A single token must occur four times in a row, a sequence of two or three tokens three times, a
    longer one of up to 16 tokens twice.
    """
    ids, lengths = ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32)
    found = tf.zeros_like(lengths, tf.bool)
    for period in range(1, _LONGEST + 1):
        again = {1: 3, 2: 4, 3: 6}.get(period, period)  # Tokens equal to the one a period before.
        same = ids[:, period:] == ids[:, :-period]
        same &= tf.sequence_mask(lengths - period, tf.shape(same)[1])
        counts = tf.pad(tf.cumsum(tf.cast(same, tf.int32), axis=1), ((0, 0), (1, 0)))
        found |= tf.reduce_any(counts[:, again:] - counts[:, :-again] == again, axis=1)
    return found


def length_mismatch(source: tf.RaggedTensor, target: tf.RaggedTensor) -> tf.Tensor:
    """Boolean `[rows]`, true where the longer side has over twice the shorter's tokens plus 5."""
    lengths = source.row_lengths(), target.row_lengths()
    return tf.maximum(*lengths) > 2 * tf.minimum(*lengths) + 5


def doubts(
    source: tf.RaggedTensor, target: tf.RaggedTensor, eos_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Two boolean tensors `[rows]`: true where a target loops, and where lengths mismatch.

    The ids are without special ones, but for the end of targets. A source that repeats itself
    excuses a loop, and an empty target has no length.
    """
    is_end = target.flat_values == eos_id
    words = tf.ragged.boolean_mask(target, target.with_values(~is_end))
    loops = repeats(words) & ~repeats(source)
    return loops, length_mismatch(source, words) & (target.row_lengths() > 0)


def confidence_of(
    tokens: tf.Tensor, log_probs: tf.Tensor, is_own: tf.Tensor, scores: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The mean and the least log-probability of hypotheses, and the token of the latter.

    Tokens and log-probabilities are `[batch, n_best, length]`; those count that the model chose
    itself, `is_own`. A place without a hypothesis, by `scores` `[batch, n_best]`, has none.
    """
    own = tf.where(is_own, log_probs, 0.0)
    count = tf.math.count_nonzero(is_own, axis=-1, dtype=tf.float32)
    own = tf.pad(own, ((0, 0), (0, 0), (0, 1)))  # argmin needs at least one column.
    tokens = tf.pad(tf.where(is_own, tokens, ""), ((0, 0), (0, 0), (0, 1)))
    exists = scores > NO_HYPOTHESIS
    measures = {
        "mean_log_probs": tf.reduce_sum(own, axis=-1) / tf.maximum(count, 1.0),
        "worst_log_probs": tf.reduce_min(own, axis=-1),
    }
    worst = tf.gather(tokens, tf.argmin(own, axis=-1), batch_dims=2)
    return {
        **{name: tf.where(exists, x, NO_HYPOTHESIS) for name, x in measures.items()},
        "worst_tokens": tf.where(exists, worst, ""),
    }
