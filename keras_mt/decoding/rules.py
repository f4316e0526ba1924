"""Rules on what a search may generate, which change the log-probabilities of the next tokens.

A rule is a function `(log_probs, tokens, rows) -> log_probs`. It takes float32
`[rows, beams, vocab_size]`; int32 `[rows, beams, length]`, the hypotheses so far; and int32
`[rows]`, the places of the rows in the batch, since rows that are done leave it. It returns the
log-probabilities to search with, `NO_HYPOTHESIS` or less for an impossible token.
"""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_mt.decoding.selection import is_possible
from keras_mt.options.search import NO_HYPOTHESIS, SearchOptions

Rule = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def rules_of(options: SearchOptions, others: Sequence[Rule] = ()) -> list[Rule]:
    """The rules that options turn on, and others, in the order in which they apply."""
    rules = []
    if options.repetition_penalty != 1:
        rules.append(functools.partial(penalize_repetition, penalty=options.repetition_penalty))
    if options.no_repeat_ngram_size:
        rules.append(functools.partial(forbid_repeated_ngrams, size=options.no_repeat_ngram_size))
    rules += others
    return [*rules, renormalize] if rules and options.renormalize else rules


def penalize_repetition(
    log_probs: tf.Tensor, tokens: tf.Tensor, rows: tf.Tensor, *, penalty: float
) -> tf.Tensor:
    """Multiplies the log-probabilities of tokens that a hypothesis already has."""
    # Added in as many parts as there are: where a token occurs twice, LiteRT's update is wrong.
    indices, ones = _indices(tokens), tf.ones_like(tokens, log_probs.dtype)
    counts = tf.gather(tf.scatter_nd(indices, ones, tf.shape(log_probs)), tokens, batch_dims=2)
    more = tf.gather(log_probs, tokens, batch_dims=2) * (penalty - 1)
    return tf.tensor_scatter_nd_add(log_probs, indices, more / counts)


def forbid_repeated_ngrams(
    log_probs: tf.Tensor, tokens: tf.Tensor, rows: tf.Tensor, *, size: int
) -> tf.Tensor:
    """Lets no sequence of `size` tokens occur twice in a hypothesis."""
    before = size - 1
    windows = tf.maximum(tf.shape(tokens)[2] - before, 0)  # Each of `size - 1` and a follower.
    last = tokens[..., windows:]
    repeated = tf.ones_like(tokens[..., :windows], tf.bool)
    for i in range(before):
        repeated &= tokens[..., i : i + windows] == last[..., i : i + 1]
    followers = tokens[..., before : before + windows]
    values = tf.where(repeated, NO_HYPOTHESIS, 0.0)
    struck_out = tf.tensor_scatter_nd_add(log_probs, _indices(followers), values)
    return tf.maximum(struck_out, NO_HYPOTHESIS)  # A token may follow several windows.


def renormalize(log_probs: tf.Tensor, tokens: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Normalizes over the tokens that are not ruled out, so that their probabilities sum to 1."""
    return tf.where(is_possible(log_probs), tf.nn.log_softmax(log_probs), NO_HYPOTHESIS)


def _indices(tokens):
    # Tokens [rows, beams, n] -> [rows, beams, n, 3]: their indices in [rows, beams, vocab_size]
    rows, beams, _ = tf.unstack(tf.shape(tokens))
    row = tf.broadcast_to(tf.range(rows)[:, None, None], tf.shape(tokens))
    beam = tf.broadcast_to(tf.range(beams)[:, None], tf.shape(tokens))
    return tf.stack([row, beam, tokens], -1)
