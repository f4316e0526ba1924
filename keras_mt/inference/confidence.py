"""Measures of confidence in a translation: its tokens' probabilities, repetition, and length."""

import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.inference.search import Rows
from keras_mt.text import BaseTokenizer

# What the confidence is computed from, for each segment and for each text: the dtype, and how the
# texts' comes from that of their segments.
CONFIDENCE_PARTS = {
    "log_prob_sums": (tf.float32, tf.math.unsorted_segment_sum),
    "counts": (tf.int32, tf.math.unsorted_segment_sum),
    "worst_log_probs": (tf.float32, tf.math.unsorted_segment_min),
    "worst_ids": (tf.int32, tf.math.unsorted_segment_max),  # -1 where there is no token.
    "loops": (tf.int32, tf.math.unsorted_segment_max),  # 0 or 1.
    "disproportionate": (tf.int32, tf.math.unsorted_segment_max),
}
# The longest sequence of tokens that is checked for repetition.
_LONGEST = 16


def repeats(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Boolean `[rows]`, true where a sequence of ids repeats right after itself.

    A single token must occur four times in a row, a sequence of two or three tokens three times, a
    longer one of up to 16 tokens twice.
    """
    found = tf.zeros_like(lengths, tf.bool)
    for period in range(1, _LONGEST + 1):
        again = {1: 3, 2: 4, 3: 6}.get(period, period)  # Tokens equal to the one a period before.
        same = ids[:, period:] == ids[:, :-period]
        same &= tf.sequence_mask(lengths - period, tf.shape(same)[1])
        counts = tf.pad(tf.cumsum(tf.cast(same, tf.int32), axis=1), ((0, 0), (1, 0)))
        found |= tf.reduce_any(counts[:, again:] - counts[:, :-again] == again, axis=1)
    return found


def confidence_parts(
    source: Rows, target: Rows, log_probs: tf.Tensor, forced: int, eos_id: int
) -> dict[str, tf.Tensor]:
    """The `CONFIDENCE_PARTS` of each target, `[targets]`, as many targets for each source.

    `log_probs` `[targets, length]` are those of its tokens; the first `forced` are left out.
    """
    one_more = ((0, 0), (0, 1))  # argmin needs at least one column.
    ids = tf.pad(target.ids[:, forced:], one_more)
    lengths = tf.maximum(target.lengths - forced, 0)
    log_probs = tf.pad(log_probs[:, forced:], one_more)
    log_probs = tf.where(tf.sequence_mask(lengths, tf.shape(ids)[1]), log_probs, 0.0)
    worst_ids = tf.gather(ids, tf.argmin(log_probs, axis=1), batch_dims=1)
    last = tf.maximum(lengths - 1, 0)
    words = tf.where(tf.gather(ids, last, batch_dims=1) == eos_id, last, lengths)
    # Each source stands for as many targets.
    count = tf.size(lengths) // tf.maximum(tf.size(source.lengths), 1)
    loops = repeats(ids, words) & ~tf.repeat(repeats(*source), count)
    read = tf.repeat(source.lengths, count)
    unlike = tf.maximum(read, words) > 2 * tf.minimum(read, words) + 5
    return {
        "log_prob_sums": tf.reduce_sum(log_probs, axis=1),
        "counts": lengths,
        "worst_log_probs": tf.reduce_min(log_probs, axis=1),
        "worst_ids": tf.where(lengths > 0, worst_ids, -1),
        "loops": tf.cast(loops, tf.int32),
        "disproportionate": tf.cast(unlike & (lengths > 0), tf.int32),
    }


def joined_confidence_parts(
    parts: dict[str, tf.Tensor], row: tf.Tensor, batch: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The parts of texts `[batch, n_best]`, from those of their segments `[segments, n_best]`."""
    worst = tf.math.unsorted_segment_min(parts["worst_log_probs"], row, batch)
    is_worst = parts["worst_log_probs"] == tf.gather(worst, row)
    parts = parts | {"worst_ids": tf.where(is_worst, parts["worst_ids"], -1)}
    return {name: join(parts[name], row, batch) for name, (_, join) in CONFIDENCE_PARTS.items()}


def confidence_of(
    parts: dict[str, tf.Tensor], scores: tf.Tensor, tokenizer: BaseTokenizer
) -> dict[str, tf.Tensor]:
    """The outputs of a graph, `[batch, n_best]` each, from the parts of texts."""
    exists = scores > NO_HYPOTHESIS
    ids = tf.reshape(parts["worst_ids"], (-1,))
    pieces = tf.where(ids < 0, "", tokenizer.id_to_string(tf.maximum(ids, 0)))
    means = parts["log_prob_sums"] / tf.cast(tf.maximum(parts["counts"], 1), tf.float32)
    return {
        "mean_log_probs": tf.where(exists, means, NO_HYPOTHESIS),
        "worst_log_probs": tf.where(exists, parts["worst_log_probs"], NO_HYPOTHESIS),
        "worst_tokens": tf.where(exists, tf.reshape(pieces, tf.shape(scores)), ""),
        "loops": (parts["loops"] > 0) & exists,
        "disproportionate": (parts["disproportionate"] > 0) & exists,
    }
