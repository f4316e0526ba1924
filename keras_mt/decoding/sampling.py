"""Sampled continuations, with random numbers that depend on a row's own seed alone."""

import tensorflow as tf

from keras_mt.decoding.selection import Continuations, beam_numbers, clip_log_probs, is_possible
from keras_mt.options import SearchOptions


def sampled_continuations(
    next_log_probs: tf.Tensor,
    log_probs: tf.Tensor,
    seeds: tf.Tensor,
    length: tf.Tensor,
    options: SearchOptions,
) -> Continuations:
    """One continuation of each beam, sampled by the Gumbel-max trick.

    `next_log_probs` `[rows, beams, vocab_size]` are those of the next tokens, `log_probs` `[rows,
    beams]` those of the hypotheses, of which each has `length` tokens, and `seeds` are `[rows]`.
    """
    size = next_log_probs.shape[-1]
    # Below any log-probability, whatever the temperature.
    lowest = next_log_probs.dtype.min
    scaled = tf.where(is_possible(next_log_probs), next_log_probs / options.temperature, lowest)
    if options.top_k:
        worst = tf.math.top_k(scaled, min(options.top_k, size))[0][..., -1:]
        scaled = tf.where(scaled >= worst, scaled, lowest)
    if options.top_p < 1:
        ranked = tf.math.top_k(scaled, size)[0]
        before = tf.cumsum(tf.nn.softmax(ranked), axis=-1, exclusive=True)
        worst = tf.where(before < options.top_p, ranked, ranked[..., :1])
        worst = tf.reduce_min(worst, axis=-1, keepdims=True)
        scaled = tf.where(scaled >= worst, scaled, lowest)
    uniform = _uniform(options.seed, seeds, length, log_probs.shape[1], size)
    chosen = tf.argmax(scaled - tf.math.log(-tf.math.log(uniform)), axis=-1, output_type=tf.int32)
    # All tokens may be impossible.
    drawn = clip_log_probs(tf.gather(next_log_probs, chosen, batch_dims=2) + log_probs)
    return Continuations(drawn, beam_numbers(drawn), chosen)


def _uniform(seed, row_seeds, length, beams, vocab_size):
    """Random numbers in (0, 1), `[rows, beams, vocab_size]`, from each row's own seed.

    TensorFlow's stateless generators take one seed for a whole tensor, so that a row's numbers
    would depend on its place in the batch.
    """
    state = _hash(tf.constant(seed), row_seeds)  # [rows]
    state = _hash(_hash(state, length)[:, None], tf.range(beams))
    bits = _hash(state[..., None], tf.range(vocab_size))
    bits = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))  # As many as float32 holds.
    return (tf.cast(bits, tf.float32) + 0.5) / 2.0**23


def _hash(state, number):
    """Mixes int32 numbers into a 32-bit state, with Wellons's lowbias32 applied twice."""
    state, number = (
        x if x.dtype == tf.uint32 else tf.bitcast(tf.cast(x, tf.int32), tf.uint32)
        for x in (state, number)
    )
    return _mix(_mix(state) + number)


def _mix(x):
    def shifted(x, places):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(places, tf.uint32)))

    x = shifted(x + tf.constant(0x9E3779B9, tf.uint32), 16) * tf.constant(0x7FEB352D, tf.uint32)
    return shifted(shifted(x, 15) * tf.constant(0x846CA68B, tf.uint32), 16)
