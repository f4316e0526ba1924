"""Terms that a translation must hold, for every row of a batch at once, in the graph."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding.rules import NO_HYPOTHESIS
from keras_mt.decoding.selection import Continuations, possible
from keras_mt.errors import InputError


class Constraints(NamedTuple):
    """Terms that every hypothesis of a row must hold, each of them one or more tokens in a row.

    A hypothesis is read from its first token on. Where its last tokens are a term that is not met
    yet, that term is met: the longest if there are several, and of equal ones the first. A token
    counts for one term only, so that a term that is given twice must occur twice, apart.

    Attributes:
        tokens: int32 `[batch, count, length]`, padded with -1; a term of -1 alone is none.
        source: Boolean `[batch, count, source_length]`: the source positions that each term
            translates. A term with none is offered at every step, as all are if this is None.
        continues_word: Boolean `[vocab_size]`: the tokens that may not come directly after a term
            that a token has completed, since they would lengthen its last word. None for none.
        unbroken: Boolean `[batch, count]`: the terms that, once two of their tokens are there, go
            on to the last. None for none.

    Example:

    >>> terms = Constraints(tf.constant([[[7, 8], [9, -1]], [[-1, -1], [-1, -1]]]))
    >>> terms.tokens.shape.as_list()  # Two terms for the first row, none for the second.
    [2, 2, 2]
    """

    tokens: tf.Tensor
    source: tf.Tensor | None = None
    continues_word: tf.Tensor | None = None
    unbroken: tf.Tensor | None = None


class Progress(NamedTuple):
    """How far hypotheses have come; it follows from their tokens alone."""

    begun: tf.Tensor  # [rows, n, count, length]: whether the last tokens are these first of a term
    met: tf.Tensor  # [rows, n, count]
    completes: tf.Tensor  # [rows, n]: whether the last token completed a term
    relief: tf.Tensor  # [rows, n]: what the tokens of terms have cost beyond the most that counts


class ConstrainedSearch:
    """A beam search's work for its terms: offers their tokens, and keeps places for them.

    As in Post and Vilar 2018 (https://arxiv.org/abs/1804.06609), hypotheses fall into banks by the
    number of tokens of terms that they hold, and the banks take turns at the beams. A term that is
    begun goes on. Another is offered where its source words have the model's `attention`, floats
    `[rows, beams, source_length]` from the cache, where the hypothesis would rather end, and where
    too little room is left to wait.
    """

    # The attention that the source words of a term must have together for it to be offered.
    threshold = 0.25
    # The most that the score takes off for a token of a term. The model may find a term unlikely;
    # at its whole cost, a longer translation would score better, since the mean is then less.
    most = 4.0

    def __init__(
        self,
        constraints: Constraints,
        attention: Callable[[Any], tf.Tensor] | None,
        eos_id: int,
        force_end: bool,
    ):
        tokens = tf.convert_to_tensor(constraints.tokens)
        if tokens.shape.rank not in (3, None) or not tokens.dtype.is_integer:
            raise InputError(
                "constraints.tokens must be integers [batch, count, length], padded with -1. "
                f"Received: {tokens.dtype.name} of shape {tokens.shape}"
            )
        self._tokens, self._source = tf.cast(tokens, tf.int32), constraints.source
        self._continues_word = constraints.continues_word
        self._unbroken = constraints.unbroken
        self._attention = attention
        self._eos_id, self._force_end = eos_id, int(force_end)

    def columns(self) -> dict[str, tf.Tensor]:
        """What the search keeps of each row, `[batch, ...]`."""
        columns = {"terms": self._tokens}
        if self._attention is not None and self._source is not None:
            columns["term_source"] = tf.cast(self._source, tf.float32)
        if self._unbroken is not None:
            columns["unbroken"] = tf.cast(self._unbroken, tf.bool)
        return columns

    def start(self, beams: int) -> Progress:
        """The progress of hypotheses without a token, `[batch, beams, ...]`."""
        batch, count, length = tf.unstack(tf.shape(self._tokens))
        met = tf.repeat(_lengths(self._tokens)[:, None] == 0, beams, axis=1)
        begun = tf.zeros((batch, beams, count, length), tf.bool)
        none = tf.zeros((batch, beams))
        return Progress(begun, met, tf.cast(none, tf.bool), none)

    def allowed(self, values: tf.Tensor, progress: Progress) -> tf.Tensor:
        """The values of all tokens, the lowest where one would lengthen the word of a term."""
        if self._continues_word is None:
            return values
        struck = progress.completes[..., None] & self._continues_word
        return tf.where(struck, values.dtype.min, values)

    def offer(
        self,
        continuations: Continuations,
        values: tf.Tensor,
        model: tf.Tensor,
        normalizer: tf.Tensor | float,
        rows: Any,
        length: tf.Tensor,
    ) -> Continuations:
        """The continuations that break off no term, and those with the next token of terms.

        `values` `[rows, beams, vocab_size]` are those of all tokens after all rules; `model`,
        before them, counts where a rule bans a term's token. Both less `normalizer` are
        log-probabilities; `length` is the number of tokens before.
        """
        progress = rows.progress
        pattern = rows.columns["terms"]
        done = _done(progress)  # [rows, beams, count]
        place = tf.range(tf.shape(pattern)[-1])
        is_next = done[..., None] == place
        tokens = tf.reduce_max(tf.where(is_next, pattern[:, None], -1), axis=-1)
        offered = ~progress.met & ((done > 0) | self._turn(values, rows, length))
        index = tf.maximum(tokens, 0)
        if self._continues_word is not None:
            offered &= ~(progress.completes[..., None] & tf.gather(self._continues_word, index))
        costs = tf.gather(values, index, batch_dims=2)
        banned = costs <= NO_HYPOTHESIS / 2
        costs = tf.where(banned, tf.gather(model, index, batch_dims=2), costs) - normalizer
        costs = possible(costs + rows.log_probs[..., None])
        costs = tf.where(offered, costs, NO_HYPOTHESIS)
        beams = tf.range(tf.shape(tokens)[1])[:, None]
        given = costs, tf.broadcast_to(beams, tf.shape(tokens)), tokens
        size = tf.reduce_prod(tf.shape(tokens)[1:])
        given = (tf.reshape(x, (tf.shape(x)[0], size)) for x in given)
        pairs = zip(continuations, given, strict=True)
        continuations = Continuations(*(tf.concat(pair, axis=1) for pair in pairs))
        if "unbroken" in rows.columns:
            log_probs, parents, tokens = continuations
            before = _chosen(progress, parents)
            broken = _breaks_off(before, tokens, pattern, rows.columns["unbroken"])
            log_probs = tf.where(broken, NO_HYPOTHESIS, log_probs)
            continuations = continuations._replace(log_probs=log_probs)
        return _without_duplicates(continuations)

    def _turn(self, values, rows, length):
        """Whose first token is offered, `[rows, beams, count]`, or a scalar."""
        if "term_source" not in rows.columns:
            return tf.constant(True)
        source = rows.columns["term_source"]
        attention = tf.cast(self._attention(rows.cache), tf.float32)
        turn = tf.matmul(attention, source, transpose_b=True) >= self.threshold
        turn |= ~tf.reduce_any(source > 0, axis=-1)[:, None]
        ends = values[..., self._eos_id] >= tf.reduce_max(values, axis=-1)
        room = (rows.max_length - length - self._force_end)[:, None]
        unmet = tf.math.count_nonzero(~rows.progress.met, axis=-1, dtype=tf.int32)
        late = room - _missing(rows.progress, rows.columns["terms"]) <= unmet
        return turn | (ends | late)[..., None]

    def rank(
        self, continuations: Continuations, rows: Any, length: tf.Tensor
    ) -> tuple[Continuations, Progress]:
        """The continuations in the order in which they get places, and the progress of each.

        Those that end too early, and those that can no longer meet their terms, are impossible.
        """
        log_probs, parents, tokens = continuations
        terms = rows.columns["terms"]
        before = _chosen(rows.progress, parents)
        progress = _advanced(before, tokens, terms)
        cost = tf.gather(rows.log_probs, parents, batch_dims=1) - log_probs
        counts = tf.reduce_any(progress.begun, axis=(2, 3)) | progress.completes
        counts &= log_probs > NO_HYPOTHESIS / 2
        relief = before.relief + tf.where(counts, tf.maximum(cost - self.most, 0.0), 0.0)
        progress = progress._replace(relief=relief)
        missing = _missing(progress, terms)
        room = tf.maximum(rows.max_length - length - self._force_end, 0)[:, None]
        too_early = (tokens == self._eos_id) & (missing > 0)
        log_probs = tf.where(too_early | (missing > room), NO_HYPOTHESIS, log_probs)
        # Best first, then by the place in the bank, and of one place the bank with most tokens.
        count = tf.shape(log_probs)[1]
        log_probs, order = tf.math.top_k(log_probs, count)
        missing = tf.gather(missing, order, batch_dims=1)
        place = _places(missing)
        place = tf.where(log_probs > NO_HYPOTHESIS / 2, place, count)
        _, places = tf.math.top_k(-(place * (1 + tf.reduce_max(missing)) + missing), count)
        order = tf.gather(order, places, batch_dims=1)
        continuations = Continuations(
            tf.gather(log_probs, places, batch_dims=1),
            *(tf.gather(x, order, batch_dims=1) for x in (parents, tokens)),
        )
        return continuations, _chosen(progress, order)


def _lengths(terms):
    return tf.math.count_nonzero(terms >= 0, axis=-1, dtype=tf.int32)


def _done(progress):
    """How many tokens of each term are the last of the hypothesis, `[rows, n, count]`."""
    number = 1 + tf.range(tf.shape(progress.begun)[-1])
    return tf.reduce_max(tf.where(progress.begun, number, 0), axis=-1)


def _missing(progress, terms):
    """How many tokens of terms hypotheses still need, `[rows, n]`."""
    unmet = tf.reduce_sum(tf.where(progress.met, 0, _lengths(terms)[:, None]), axis=-1)
    return unmet - tf.reduce_max(tf.pad(_done(progress), ((0, 0), (0, 0), (0, 1))), axis=-1)


def _chosen(progress, places):
    return Progress(*(tf.gather(x, places, batch_dims=1) for x in progress))


def _advanced(before, tokens, terms):
    """The progress after one more token `[rows, n]`; terms are `[rows, count, length]`."""
    begun = tf.pad(
        before.begun[..., :-1], ((0, 0), (0, 0), (0, 0), (1, 0)), constant_values=True
    ) & (terms[:, None] == tokens[..., None, None])
    begun &= ~before.met[..., None]
    lengths = _lengths(terms)
    is_last = tf.range(1, 1 + tf.shape(terms)[-1]) == lengths[..., None]
    completed = tf.reduce_any(begun & is_last[:, None], axis=-1)
    completed = tf.where(completed, lengths[:, None], 0)
    longest = tf.reduce_max(completed, axis=-1, keepdims=True)
    completes = longest > 0
    # Only the first of those that are equal.
    equal = tf.cast(completes & (completed == longest), tf.int32)
    met = (equal > 0) & (tf.cumsum(equal, axis=-1) == 1)
    return before._replace(
        begun=begun & ~completes[..., None], met=before.met | met, completes=completes[..., 0]
    )


def _breaks_off(before, tokens, terms, unbroken):
    """Where a token does not go on with a term that must, `[rows, n]`."""
    bound = before.begun & ~before.met[..., None] & unbroken[:, None, :, None]
    bound = bound[..., 1:-1]  # Of two tokens or more, and not of all.
    goes_on = bound & (terms[:, None, :, 2:] == tokens[..., None, None])
    return tf.reduce_any(bound, axis=(2, 3)) & ~tf.reduce_any(goes_on, axis=(2, 3))


def _without_duplicates(continuations):
    """The continuations, impossible where one before continues the same parent alike."""
    log_probs, parents, tokens = continuations
    number = tf.broadcast_to(tf.range(tf.shape(tokens)[1]), tf.shape(tokens))
    # What is impossible is like no other.
    pairs = parents * (1 + tf.reduce_max(tokens)) + tokens
    pairs = tf.where(log_probs > NO_HYPOTHESIS / 2, pairs, -1 - number)
    return continuations._replace(log_probs=tf.where(_places(pairs) > 0, NO_HYPOTHESIS, log_probs))


def _places(values):
    """How many before each are equal to it, int32 `[rows, n]`; in memory for n, not for n * n."""
    order = tf.argsort(values, stable=True)
    ordered = tf.gather(values, order, batch_dims=1)
    first = tf.searchsorted(ordered, ordered)
    place = tf.range(tf.shape(values)[1]) - first
    return tf.gather(place, tf.argsort(order), batch_dims=1)
