"""Measures of confidence in a translation: its tokens' probabilities, repetition, and length."""

import tensorflow as tf

from keras_mt.options.search import LOOPS, NO_HYPOTHESIS
from keras_mt.text.ragged import kept


def repeats(ids: tf.RaggedTensor) -> tf.Tensor:
    """Boolean `[rows]`, true where a sequence of ids repeats right after itself.

    A single token must occur four times in a row, a sequence of two or three tokens three times, a
    longer one of up to 16 tokens twice.
    """
    lengths, ids = tf.cast(ids.row_lengths(), tf.int32), tf.transpose(ids.to_tensor())
    size = tf.shape(ids)[0]
    periods, again = (tf.constant(x)[:, None] for x in zip(*LOOPS.items(), strict=True))
    # All periods at once, [periods, tokens, rows]: one by one they would be hundreds of operations.
    after = tf.range(size) + periods
    same = (ids == tf.gather(ids, tf.minimum(after, size - 1))) & (after[..., None] < lengths)
    counts = tf.pad(tf.cumsum(tf.cast(same, tf.int32), axis=1), ((0, 0), (1, 0), (0, 0)))
    ends = tf.minimum(tf.range(size + 1) + again, size)
    runs = tf.gather(counts, ends, batch_dims=1) - counts
    return tf.reduce_any(runs == again[..., None], axis=(0, 1))


def doubts(source: tf.RaggedTensor, target: tf.RaggedTensor, eos_id: int) -> dict[str, tf.Tensor]:
    """`loops` and `length_mismatch`, boolean `[rows]`: doubts about targets of sources.

    The ids are without special ones, but for the end of targets. A source that repeats itself
    excuses a loop, and an empty target has no length.
    """
    words = kept(target, target.flat_values != eos_id)
    sizes = source.row_lengths(), words.row_lengths()
    differ = tf.maximum(*sizes) > 2 * tf.minimum(*sizes) + 5
    return {
        "loops": repeats(words) & ~repeats(source),
        "length_mismatch": differ & (target.row_lengths() > 0),
    }


def confidence_of(outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The mean and the least log-probability of hypotheses, and the token of the latter.

    The `tokens` and `log_probs` are `[batch, n_best, length]`; those count that the model chose
    itself, `is_own`. A place without a hypothesis, by the `scores` `[batch, n_best]`, has none.
    """
    is_own = outputs["is_own"]
    own = tf.where(is_own, outputs["log_probs"], 0.0)
    tokens = tf.where(is_own, outputs["tokens"], "")
    # argmin needs at least one column.
    own, tokens = (tf.pad(x, ((0, 0), (0, 0), (0, 1))) for x in (own, tokens))
    count = tf.math.count_nonzero(is_own, axis=-1, dtype=tf.float32)
    exists = outputs["scores"] > NO_HYPOTHESIS
    mean = tf.reduce_sum(own, axis=-1) / tf.maximum(count, 1.0)
    worst = tf.gather(tokens, tf.argmin(own, axis=-1), batch_dims=2)
    return {
        "mean_log_probs": tf.where(exists, mean, NO_HYPOTHESIS),
        "worst_log_probs": tf.where(exists, tf.reduce_min(own, axis=-1), NO_HYPOTHESIS),
        "worst_tokens": tf.where(exists, worst, ""),
    }
