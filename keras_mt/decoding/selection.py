"""What a search continues with: the best tokens of all beams, or sampled ones.

In all functions `values` are float32 `[rows, beams, vocab_size]`, logits or log-probabilities of
the next tokens; `log_probs` float32 `[rows, beams]`, those of the hypotheses; and `banned` int32
`[count]`, or None.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_mt.decoding.rules import NO_HYPOTHESIS, Forced, vocab_size
from keras_mt.options import SearchOptions


class Continuations(NamedTuple):
    """Hypotheses extended by one token, best first; all `[rows, count]`."""

    log_probs: tf.Tensor
    parents: tf.Tensor  # The beam that each continues.
    tokens: tf.Tensor


def best_continuations(
    values: tf.Tensor,
    log_probs: tf.Tensor,
    banned: tf.Tensor | None,
    beams: int,
    logits: tf.Tensor | None,
) -> tuple[Continuations, tf.Tensor | float]:
    """The best continuations of all beams of a row, twice as many as there are beams.

    At most one continuation of each beam ends. The best of each beam are taken first, and banned
    tokens struck out afterwards, so as many more are taken. `logits` are those of all tokens if the
    values are not normalized yet. Returns also what is subtracted from the values to get
    log-probabilities.
    """
    rows, count = tf.shape(values)[0], 2 * beams
    width = count + (0 if banned is None else banned.shape[0])
    if values.shape[-1] is not None:
        width = min(width, values.shape[-1])
    best, tokens = top_k(values, width)  # [rows, beams, width]
    normalizer = 0.0 if logits is None else _log_normalizer(logits, best, tokens)
    best -= normalizer
    best = possible(best + log_probs[..., None])
    if banned is not None:
        is_banned = tf.reduce_any(tf.expand_dims(tokens, -1) == banned, axis=-1)
        best = tf.where(is_banned, NO_HYPOTHESIS, best)
    best = tf.reshape(best, (rows, beams * width))
    # A small vocabulary may not have enough continuations.
    missing = max(0, count - beams * width)
    best = tf.pad(best, ((0, 0), (0, missing)), constant_values=NO_HYPOTHESIS)
    best, chosen = tf.math.top_k(best, count)
    chosen = tf.minimum(chosen, beams * width - 1)
    last = tf.gather(tf.reshape(tokens, (rows, beams * width)), chosen, batch_dims=1)
    return Continuations(best, chosen // width, last), normalizer


def sampled_continuations(
    values: tf.Tensor,
    log_probs: tf.Tensor,
    banned: tf.Tensor | None,
    seeds: tf.Tensor,
    length: tf.Tensor,
    options: SearchOptions,
) -> Continuations:
    """One continuation of each beam, sampled by the Gumbel-max trick from log-probabilities."""
    size = values.shape[-1]
    # Below any log-probability, whatever the temperature.
    lowest = values.dtype.min
    scaled = values / options.temperature
    if banned is not None:
        is_banned = tf.reduce_any(tf.range(size)[:, None] == banned, axis=-1)
        scaled = tf.where(is_banned, lowest, scaled)
    if options.top_k:
        worst = tf.math.top_k(scaled, min(options.top_k, size))[0][..., -1:]
        scaled = tf.where(scaled >= worst, scaled, lowest)
    if options.top_p < 1:
        ranked = tf.math.top_k(scaled, size)[0]
        before = tf.cumsum(tf.nn.softmax(ranked), axis=-1, exclusive=True)
        worst = tf.where(before < options.top_p, ranked, ranked[..., :1])
        worst = tf.reduce_min(worst, axis=-1, keepdims=True)
        scaled = tf.where(scaled >= worst, scaled, lowest)
    uniform = _uniform(options.seed, seeds, length, tf.shape(values)[1], size)
    chosen = tf.argmax(scaled - tf.math.log(-tf.math.log(uniform)), axis=-1, output_type=tf.int32)
    drawn = tf.gather(values, chosen, batch_dims=2) + log_probs
    # It may be that all tokens that are not banned are impossible.
    drawn = tf.where(tf.gather(scaled, chosen, batch_dims=2) > lowest, drawn, NO_HYPOTHESIS)
    return Continuations(drawn, _beam_numbers(drawn), chosen)


def forced_continuations(
    continuations: Continuations,
    forced: Forced,
    logits: tf.Tensor,
    normalizer: tf.Tensor | float,
    log_probs: tf.Tensor,
) -> Continuations:
    """The continuations, but in the rows of `forced` each beam only with the forced token."""
    tokens = tf.broadcast_to(forced.tokens[:, None], tf.shape(log_probs))
    costs = (tf.gather(logits, tokens[..., None], batch_dims=2) - normalizer)[..., 0]
    costs = tf.where(forced.free[:, None], 0.0, costs)
    missing = ((0, 0), (0, tf.shape(continuations.tokens)[1] - tf.shape(log_probs)[1]))
    given = Continuations(
        tf.pad(possible(costs + log_probs), missing, constant_values=NO_HYPOTHESIS),
        tf.pad(_beam_numbers(log_probs), missing),
        tf.pad(tokens, missing),
    )
    return tf.nest.map_structure(
        lambda given, free: tf.where(forced.applies[:, None], given, free), given, continuations
    )


def possible(log_probs: tf.Tensor) -> tf.Tensor:
    """Log-probabilities, at least `NO_HYPOTHESIS`, also where they are NaN or -inf."""
    # NaN comes from a beam all of whose logits are -inf, or from a model that has diverged.
    return tf.where(log_probs > NO_HYPOTHESIS, log_probs, NO_HYPOTHESIS)


def top_k(values: tf.Tensor, count: int, longest: int = 64) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k`, computed only in the chunks of the last axis with the greatest maxima.

    Within those chunks the same is done with shorter ones. For values of -inf, and if there are
    fewer than `count`, another index and the dtype's least value may be returned.
    """
    size, uneven = vocab_size(values), True
    if isinstance(size, int):
        lengths = (c for c in range(longest // 2 + 1, 2 * longest + 1) if size % c == 0)
        chunk = min(lengths, key=lambda length: abs(length - longest), default=longest)
        chunks, uneven = -(-size // chunk), size % chunk > 0
        if chunk == 1 or chunks < 2 * count:
            return tf.math.top_k(values, count)
    else:
        chunk, chunks = longest, tf.maximum(-(-size // longest), count)
    if uneven:
        missing = chunks * chunk - size
        values = tf.pad(values, ((0, 0), (0, 0), (0, missing)), constant_values=values.dtype.min)
    rows, beams = tf.unstack(tf.shape(values)[:2])
    values = tf.reshape(values, (rows, beams, chunks, chunk))
    _, chosen = tf.math.top_k(tf.reduce_max(values, axis=-1), count)  # [rows, beams, count]
    values = tf.gather(values, chosen, batch_dims=2)  # [rows, beams, count, chunk]
    values = tf.reshape(values, (rows, beams, count * chunk))
    best, place = top_k(values, count, longest // 8)
    chosen = tf.gather(chosen, place // chunk, batch_dims=2)
    place = chosen * chunk + place % chunk
    if uneven:  # The padding is greater than -inf.
        place = tf.minimum(place, size - 1)
    return best, place


def _log_normalizer(logits, best, tokens):
    """`logsumexp(logits)`, `[rows, beams, 1]`, by softmax, which oneDNN computes faster."""
    probability = tf.gather(tf.nn.softmax(logits), tokens[..., :1], batch_dims=2)
    return best[..., :1] - tf.math.log(probability)


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


def _beam_numbers(log_probs):
    # [rows, beams]: 0, 1, 2, ...
    return tf.broadcast_to(tf.range(tf.shape(log_probs)[1]), tf.shape(log_probs))
