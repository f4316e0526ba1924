"""The continuations that a search ranks: the best tokens of all beams, sampled or forced ones."""

from typing import NamedTuple

import tensorflow as tf

from keras_mt.options.search import NO_HYPOTHESIS, SearchOptions


class Continuations(NamedTuple):
    """Hypotheses extended by one token, best first; all `[rows, count]`."""

    log_probs: tf.Tensor
    parents: tf.Tensor  # The beam that each continues.
    tokens: tf.Tensor


def best_continuations(
    best: tf.Tensor, tokens: tf.Tensor, log_probs: tf.Tensor, banned: tf.Tensor
) -> Continuations:
    """The best continuations of all beams of a row, twice as many as there are beams.

    `best` `[rows, beams, width]` are the greatest log-probabilities of next tokens, `tokens` these
    tokens, `log_probs` `[rows, beams]` those of the hypotheses. At most one continuation of each
    beam ends. Banned tokens `[count]` are struck out, so `width` has room for them too.
    """
    best = clip_log_probs(best + log_probs[..., None])
    best = tf.where(_is_among(tokens, banned), NO_HYPOTHESIS, best)
    beams, width = log_probs.shape[1], best.shape[2]
    best, chosen = tf.math.top_k(tf.reshape(best, (-1, beams * width)), 2 * beams)
    tokens = tf.gather(tf.reshape(tokens, (-1, beams * width)), chosen, batch_dims=1)
    return Continuations(best, chosen // width, tokens)


def forced_continuations(
    continuations: Continuations, tokens: tf.Tensor, next_log_probs: tf.Tensor, log_probs: tf.Tensor
) -> Continuations:
    """The continuations, but in rows that must take a token each beam with this token alone.

    `tokens` `[rows]` are -1 in the other rows; `next_log_probs` `[rows, beams]` are theirs, and
    `log_probs` `[rows, beams]` those of the hypotheses.
    """
    count, beams = continuations.tokens.shape[1], log_probs.shape[1]
    missing = ((0, 0), (0, count - beams))
    forced = Continuations(
        tf.pad(clip_log_probs(next_log_probs + log_probs), missing, constant_values=NO_HYPOTHESIS),
        tf.pad(beam_numbers(log_probs), missing),
        tokens[:, None] + tf.zeros(count, tf.int32),
    )
    return Continuations(
        *(tf.where(tokens[:, None] >= 0, *both) for both in zip(forced, continuations, strict=True))
    )


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


def is_possible(log_probs: tf.Tensor) -> tf.Tensor:
    """True where log-probabilities are of a possible token or hypothesis; False for NaN."""
    return log_probs > NO_HYPOTHESIS / 2


def clip_log_probs(log_probs: tf.Tensor) -> tf.Tensor:
    """Log-probabilities with `NO_HYPOTHESIS` for what is impossible, NaN and -inf among it."""
    # NaN comes from a beam all of whose logits are -inf, or from a model that has diverged.
    return tf.where(is_possible(log_probs), log_probs, NO_HYPOTHESIS)


def strike_out(values: tf.Tensor, banned: tf.Tensor) -> tf.Tensor:
    """Values `[rows, beams, vocab_size]` of all tokens, impossible ones for the banned tokens."""
    is_banned = _is_among(tf.range(values.shape[-1] or tf.shape(values)[-1]), banned)
    return values + tf.where(is_banned, NO_HYPOTHESIS, 0.0)  # A broadcast sum is fast.


def log_normalizer(logits: tf.Tensor, best: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """`logsumexp(logits)`, `[rows, beams, 1]`, by softmax, which oneDNN computes faster.

    `best` `[rows, beams, width]` are the greatest logits, best first, and `tokens` their places.
    """
    probability = tf.gather(tf.nn.softmax(logits), tokens[..., :1], batch_dims=2)
    return best[..., :1] - tf.math.log(probability)


def top_k(values: tf.Tensor, count: int, longest: int = 64) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k`, computed only in the chunks of the last axis with the greatest maxima.

    Within those chunks the same is done with shorter ones. For values of -inf, and if there are
    fewer than `count`, another index and the dtype's least value may be returned.
    """
    size, uneven = values.shape[-1], True
    if size is not None:
        lengths = (c for c in range(longest // 2 + 1, 2 * longest + 1) if size % c == 0)
        chunk = min(lengths, key=lambda length: abs(length - longest), default=longest)
        chunks, uneven = -(-size // chunk), size % chunk > 0
        if chunk == 1 or chunks < 2 * count:
            return tf.math.top_k(values, count)
    else:
        size, chunk = tf.shape(values)[-1], longest
        chunks = tf.maximum(-(-size // chunk), count)
    if uneven:
        missing = chunks * chunk - size
        values = tf.pad(values, ((0, 0), (0, 0), (0, missing)), constant_values=values.dtype.min)
    beams = values.shape[1]
    values = tf.reshape(values, (-1, beams, chunks, chunk))
    _, chosen = tf.math.top_k(tf.reduce_max(values, axis=-1), count)  # [rows, beams, count]
    values = tf.gather(values, chosen, batch_dims=2)  # [rows, beams, count, chunk]
    values = tf.reshape(values, (-1, beams, count * chunk))
    best, place = top_k(values, count, longest // 8)
    chosen = tf.gather(chosen, place // chunk, batch_dims=2)
    place = chosen * chunk + place % chunk
    if uneven:  # The padding is greater than -inf.
        place = tf.minimum(place, size - 1)
    return best, place


def beam_numbers(log_probs: tf.Tensor) -> tf.Tensor:
    """0, 1, 2, ... for each of the rows `[rows, beams]`."""
    return tf.zeros_like(log_probs, tf.int32) + tf.range(log_probs.shape[1])


def _is_among(tokens, banned):
    return tf.reduce_any(tf.expand_dims(tokens, -1) == banned, axis=-1)


def _uniform(seed, row_seeds, length, beams, vocab_size):
    """Random numbers in (0, 1), `[rows, beams, vocab_size]`, from each row's own seed.

    TensorFlow's stateless generators take one seed for a whole tensor, so that a row's numbers
    would depend on its place in the batch.
    """
    state = _hash(tf.bitcast(tf.constant(seed), tf.uint32), row_seeds)  # [rows]
    state = _hash(_hash(state, length)[:, None], tf.range(beams))
    bits = _hash(state[..., None], tf.range(vocab_size))
    bits = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))  # As many as float32 holds.
    return (tf.cast(bits, tf.float32) + 0.5) / 2.0**23


def _hash(state, number):
    """Mixes int32 numbers into a uint32 state, with Wellons's lowbias32 applied twice."""
    return _mix(_mix(state) + tf.bitcast(number, tf.uint32))


def _mix(x):
    def shifted(x, places):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(places, tf.uint32)))

    x = shifted(x + tf.constant(0x9E3779B9, tf.uint32), 16) * tf.constant(0x7FEB352D, tf.uint32)
    return shifted(shifted(x, 15) * tf.constant(0x846CA68B, tf.uint32), 16)
