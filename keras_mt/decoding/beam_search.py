"""Beam search over any step function; greedy search is a beam of one.

The cache of a step function is never reordered. At each position the beams stand side by side in
it, and a table of which beam each hypothesis descends from says, as an attention mask, which
entries are its own. Only that table and the tokens are reordered when beams are chosen.
"""

from typing import Any, NamedTuple

import tensorflow as tf

# The log-probability of what is impossible, and the score where there is no hypothesis: finite, so
# that no arithmetic on it gives NaN.
NO_HYPOTHESIS = -1e9


class Hypotheses(NamedTuple):
    """What a search found, best first.

    Attributes:
        tokens: int32 `[batch, n_best, length]`: the generated tokens, with the end where there is
            one, then zeros.
        scores: float32 `[batch, n_best]`: log-probability divided by length ** length_penalty;
            `NO_HYPOTHESIS` where there are fewer than n_best hypotheses.
    """

    tokens: tf.Tensor
    scores: tf.Tensor


class _State(NamedTuple):
    """The variables of the search's loop; `length` tokens have been generated."""

    length: tf.Tensor  # []
    tokens: tf.Tensor  # [batch, beams, length]
    ancestors: tf.Tensor  # [batch, beams, length]: whose cache entry at each position is its own
    log_probs: tf.Tensor  # [batch, beams]
    finished: Hypotheses  # [batch, n_best, length], [batch, n_best]
    done: tf.Tensor  # [batch]
    cache: Any


def beam_search(
    step,
    cache,
    max_length,
    *,
    beam_size=4,
    n_best=1,
    length_penalty=1.0,
    min_length=0,
    start_id=2,
    end_id=3,
    forbidden_ids=(0, 2),
):
    """Finds the most probable token sequences.

    At each step the beams' best continuations are ranked together. Those among the first
    `beam_size` that end are set aside with their score, `log_prob / length ** length_penalty`,
    where the length counts the end; the first `beam_size` that do not end live on. A sequence that
    reaches its maximum length is set aside as it is. A row is done when no live hypothesis can
    still beat the worst of the `n_best` kept, whatever it grows into.

    Args:
        step: Function `(tokens, position, cache, mask) -> (logits, cache)`: from int32 tokens
            `[batch, beams]` at `position`, the cache of the positions before, and a boolean mask
            `[batch, beams, (position + 1) * beams]` (None for one beam) of the cache entries, the
            new ones last, that belong to each beam, to float logits `[batch, beams, vocab_size]`
            and the cache with `beams` entries more. In the cache's tensors the axes whose size
            changes must be those that differ between the first cache and the next, or be unknown.
        cache: The cache before the first step: any nest of tensors.
        max_length: int32 `[batch]`: the most tokens to generate, with the end. 0: nothing.
        beam_size: Number of live hypotheses; 1 is greedy search.
        n_best: Number of hypotheses to return, at most `beam_size`.
        length_penalty: Exponent of the length in the score, at least 0.
        min_length: The fewest tokens to generate, with the end.
        start_id: The token before the first.
        end_id: The token that ends a hypothesis.
        forbidden_ids: Tokens never to generate.

    Returns:
        `Hypotheses`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Finished hypotheses, the ranking and the bound are as in transformers' beam search with
        `early_stopping="never"`; the length penalty is Marian's and fairseq's.

    Example:

    >>> bigrams = tf.constant([[0., 0, 0, 1, 5], [0, 0, 0, 4, 3]])  # after the start, after others
    >>> def step(tokens, position, cache, mask):
    ...     return tf.gather(bigrams, tf.cast(tokens == 4, tf.int32)), cache
    >>> beam_search(step, (), max_length=tf.constant([5])).tokens.numpy().tolist()
    [[[4, 3]]]
    """
    check_search_options(beam_size, n_best, length_penalty, min_length)
    max_length = tf.convert_to_tensor(max_length, tf.int32)
    batch = tf.shape(max_length)[0]
    first_only = tf.one_hot(0, beam_size, on_value=0.0, off_value=NO_HYPOTHESIS)
    state = _State(
        length=tf.constant(0),
        tokens=tf.zeros((batch, beam_size, 0), tf.int32),
        ancestors=tf.zeros((batch, beam_size, 0), tf.int32),
        log_probs=tf.tile(first_only[None], (batch, 1)),  # All beams begin alike: one will do.
        finished=Hypotheses(
            tf.zeros((batch, n_best, 0), tf.int32), tf.fill((batch, n_best), NO_HYPOTHESIS)
        ),
        done=max_length <= 0,
        cache=cache,
    )

    def body(state):
        ancestors = _with_themselves(state.ancestors)
        logits, cache = step(
            _last_tokens(state.tokens, start_id),
            state.length,
            state.cache,
            _ancestry_mask(ancestors) if beam_size > 1 else None,
        )
        length = state.length + 1
        banned = tf.constant([*forbidden_ids, end_id], tf.int32)
        banned = tf.where(length < min_length, banned, tf.concat([banned[:-1], [-1]], 0))
        # [batch, 2 * beams], best first: enough, since at most one continuation of a beam ends
        log_probs, parents, last = _best_continuations(
            logits, state.log_probs, banned, 2 * beam_size
        )
        tokens = tf.gather(state.tokens, parents, batch_dims=1)
        tokens = tf.concat([tokens, last[..., None]], axis=-1)  # [batch, 2 * beams, length]

        full = (length >= max_length)[:, None]
        finished = _set_aside(
            state.finished,
            tokens[:, :beam_size],
            log_probs[:, :beam_size] / tf.cast(length, tf.float32) ** length_penalty,
            ((last == end_id) | full)[:, :beam_size]
            & (log_probs[:, :beam_size] > NO_HYPOTHESIS / 2)
            & ~state.done[:, None],
        )
        log_probs, chosen = tf.math.top_k(
            tf.where(last == end_id, NO_HYPOTHESIS, log_probs), beam_size
        )
        attainable = log_probs[:, 0] / tf.cast(max_length, tf.float32) ** length_penalty
        hopeless = (finished.scores[:, -1] >= attainable) | (log_probs[:, 0] <= NO_HYPOTHESIS / 2)
        next_state = _State(
            length,
            tf.gather(tokens, chosen, batch_dims=1),
            tf.gather(ancestors, tf.gather(parents, chosen, batch_dims=1), batch_dims=1),
            log_probs,
            finished,
            state.done | full[:, 0] | hopeless,
            cache,
        )
        return (next_state,)

    state = tf.while_loop(
        lambda state: tf.reduce_any(~state.done),
        body,
        (state,),
        shape_invariants=(_shape_invariants(state, beam_size, n_best),),
    )[0]
    return state.finished


def check_search_options(beam_size, n_best, length_penalty, min_length=0):
    """Raises ValueError where an option of the search is out of range."""
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1. Received: beam_size={beam_size}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(
            "n_best must be at least 1 and at most beam_size. "
            f"Received: n_best={n_best}, beam_size={beam_size}"
        )
    if not 0 <= length_penalty < float("inf"):
        raise ValueError(
            f"length_penalty must be at least 0. Received: length_penalty={length_penalty}"
        )
    if min_length < 0:
        raise ValueError(f"min_length must be at least 0. Received: min_length={min_length}")


def _last_tokens(tokens, start_id):
    # [batch, beams, length] -> [batch, beams]; the start where there is none yet
    start = tf.fill(tf.concat([tf.shape(tokens)[:2], [1]], 0), start_id)
    return tf.concat([start, tokens], axis=-1)[..., -1]


def _with_themselves(ancestors):
    # [batch, beams, length] -> [batch, beams, length + 1]: at the new position each beam is its own
    shape = tf.shape(ancestors)
    themselves = tf.broadcast_to(tf.range(shape[1])[None, :, None], (shape[0], shape[1], 1))
    return tf.concat([ancestors, themselves], axis=-1)


def _ancestry_mask(ancestors):
    # [batch, beams, length] -> boolean [batch, beams, length * beams]
    batch, beams, length = tf.unstack(tf.shape(ancestors))
    own = ancestors[..., None] == tf.range(beams)  # [batch, beams, length, beams]
    return tf.reshape(own, (batch, beams, length * beams))


def _best_continuations(logits, log_probs, banned, count):
    """Log-probabilities, parents and last tokens, each `[batch, count]`, best first.

    The best of each beam are taken first, since the vocabulary is wide and the beams are few.
    `banned` tokens are struck out after that, so a few more are taken.
    """
    batch, (beams, vocab_size) = tf.shape(logits)[0], logits.shape[1:]
    each = min(count + banned.shape[0], vocab_size)
    best, tokens = tf.math.top_k(logits, each)  # [batch, beams, each]
    best = best - tf.reduce_logsumexp(logits, axis=-1, keepdims=True) + log_probs[..., None]
    is_banned = tf.reduce_any(tokens[..., None] == banned, axis=-1)
    best = tf.where(is_banned, NO_HYPOTHESIS, best)
    best = tf.reshape(best, (batch, beams * each))
    # A small vocabulary may not have enough continuations.
    best = tf.pad(best, ((0, 0), (0, max(0, count - beams * each))), constant_values=NO_HYPOTHESIS)
    best, chosen = tf.math.top_k(best, count)
    chosen = tf.minimum(chosen, beams * each - 1)
    last = tf.gather(tf.reshape(tokens, (batch, beams * each)), chosen, batch_dims=1)
    return best, chosen // each, last


def _set_aside(finished, tokens, scores, ended):
    """The best of the finished hypotheses and of those new ones that ended."""
    scores = tf.concat([finished.scores, tf.where(ended, scores, NO_HYPOTHESIS)], axis=1)
    tokens = tf.concat([tf.pad(finished.tokens, ((0, 0), (0, 0), (0, 1))), tokens], axis=1)
    scores, chosen = tf.math.top_k(scores, finished.scores.shape[1])
    return Hypotheses(tf.gather(tokens, chosen, batch_dims=1), scores)


def _shape_invariants(state, beam_size, n_best):
    growing = tf.TensorShape([None, beam_size, None])
    return _State(
        length=tf.TensorShape([]),
        tokens=growing,
        ancestors=growing,
        log_probs=tf.TensorShape([None, beam_size]),
        finished=Hypotheses(tf.TensorShape([None, n_best, None]), tf.TensorShape([None, n_best])),
        done=tf.TensorShape([None]),
        cache=tf.nest.map_structure(_growing_shape, state.cache),
    )


def _growing_shape(tensor):
    # A cache entry keeps its rank; an axis of size 0 grows, and the batch is never known.
    return tf.TensorShape([None] + [size or None for size in tensor.shape[1:]])
