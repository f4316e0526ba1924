"""Rules on the tokens that a hypothesis may continue with, chained by a search.

A search asks its rules at each step, in this order: which tokens are banned; what becomes of the
log-probabilities; and which token a row must take. A rule answers what it needs to and leaves the
rest, at no cost. A new one is a class here and a line in `rules_of`.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.options import SearchOptions

# The log-probability of an impossible token, and the score where there is no hypothesis. It is
# finite, so that arithmetic on it never gives NaN.
NO_HYPOTHESIS = -1e9


class Step(NamedTuple):
    """Where a search stands when it chooses the next token.

    Attributes:
        length: int32 scalar, the number of tokens generated so far.
        tokens: int32 `[rows, beams, length]`, these tokens.
        max_length: int32 `[rows]`, the maximum length of each row.
        columns: A dict of tensors `[rows, ...]`: what the rules asked to have of each row.
        banned: int32 `[count]`, the tokens that are banned at this step; -1 stands for none. None
            if no rule bans any.

    Example:

    >>> step = Step(tf.constant(1), tf.constant([[[7]]]), tf.constant([9]))
    >>> step.tokens.shape.as_list()
    [1, 1, 1]
    """

    length: tf.Tensor
    tokens: tf.Tensor
    max_length: tf.Tensor
    columns: dict[str, tf.Tensor] = {}  # noqa: RUF012
    banned: tf.Tensor | None = None


class Forced(NamedTuple):
    """The tokens that rows must take.

    Attributes:
        applies: Boolean `[rows]`: which rows.
        tokens: int32 `[rows]`.
        free: Boolean `[rows]`: whose token costs nothing, whatever its log-probability.

    Example:

    >>> Forced(tf.constant([True]), tf.constant([3]), tf.constant([True])).tokens.numpy().tolist()
    [3]
    """

    applies: tf.Tensor
    tokens: tf.Tensor
    free: tf.Tensor


class Rule:
    """A rule that changes nothing; a subclass overrides what it needs.

    Attributes:
        adjusts: Whether `adjust` is overridden. It needs all log-probabilities, where a search
            otherwise computes those of the best tokens alone.
        normalizes: Whether `adjust` takes any logits and returns log-probabilities.
        forces: Whether `force` is overridden.

    Example:

    >>> class OnlyEven(Rule):
    ...     adjusts = True
    ...     def adjust(self, log_probs, step):
    ...         return tf.where(tf.range(log_probs.shape[-1]) % 2 == 0, log_probs, NO_HYPOTHESIS)
    """

    adjusts = False
    normalizes = False
    forces = False

    def columns(self) -> dict[str, tf.Tensor]:
        """Tensors `[batch, ...]` to have in `Step.columns`, by names that no other rule uses."""
        return {}

    def banned(self, step: Step) -> tf.Tensor | None:
        """int32 `[count]`: tokens that no hypothesis may take at this step; -1 stands for none."""
        return None

    def adjust(self, log_probs: tf.Tensor, step: Step) -> tf.Tensor:
        """The log-probabilities `[rows, beams, vocab_size]` to search with."""
        return log_probs

    def force(self, step: Step) -> Forced | None:
        """The tokens that rows must take at this step."""
        return None


@dataclasses.dataclass
class BannedTokens(Rule):
    """Tokens that are never generated."""

    ids: tuple[int, ...]

    def banned(self, step: Step) -> tf.Tensor:
        return tf.constant(self.ids, tf.int32)


@dataclasses.dataclass
class MinLength(Rule):
    """No end before a hypothesis has `min_length` tokens, the end included."""

    min_length: int
    eos_id: int

    def banned(self, step: Step) -> tf.Tensor:
        return tf.where(step.length + 1 < self.min_length, self.eos_id, -1)[None]


@dataclasses.dataclass
class RepetitionPenalty(Rule):
    """Multiplies the log-probabilities of tokens that a hypothesis already has."""

    penalty: float
    adjusts = True

    def adjust(self, log_probs: tf.Tensor, step: Step) -> tf.Tensor:
        penalized = tf.gather(log_probs, step.tokens, batch_dims=2) * self.penalty
        return tf.tensor_scatter_nd_update(log_probs, _indices(step.tokens), penalized)


@dataclasses.dataclass
class NoRepeatNgrams(Rule):
    """No sequence of `size` tokens occurs twice in a hypothesis."""

    size: int
    adjusts = True

    def adjust(self, log_probs: tf.Tensor, step: Step) -> tf.Tensor:
        before = self.size - 1
        first = tf.maximum(step.length - before, 0)  # Also the number of windows of `size` tokens.
        last = step.tokens[..., first:]
        repeated = tf.ones_like(step.tokens[..., :first], tf.bool)
        for i in range(before):
            repeated &= step.tokens[..., i : i + first] == last[..., i : i + 1]
        followers = step.tokens[..., before : before + first]
        # A token may follow several windows: the lowest of its values holds.
        values = tf.where(repeated, NO_HYPOTHESIS, log_probs.dtype.max)
        return tf.tensor_scatter_nd_min(log_probs, _indices(followers), values)


class Renormalize(Rule):
    """Normalizes over the tokens that are not ruled out, so that their probabilities sum to 1."""

    adjusts = True
    normalizes = True

    def adjust(self, log_probs: tf.Tensor, step: Step) -> tf.Tensor:
        if step.banned is not None:
            banned = tf.one_hot(step.banned, vocab_size(log_probs), dtype=tf.float32)
            log_probs += NO_HYPOTHESIS * tf.reduce_max(banned, axis=0)
        return tf.nn.log_softmax(log_probs)


@dataclasses.dataclass
class ForcedEnd(Rule):
    """The last token of a hypothesis of the maximum length is the end, at no cost."""

    eos_id: int
    forces = True

    def force(self, step: Step) -> Forced:
        last = step.length + 1 >= step.max_length
        return Forced(last, tf.fill(tf.shape(last), self.eos_id), last)


@dataclasses.dataclass
class ForcedPrefix(Rule):
    """Begins each hypothesis with its row's prefix, of which `free_lengths` tokens cost nothing."""

    prefix: tf.Tensor
    lengths: tf.Tensor
    free_lengths: tf.Tensor
    forces = True

    def columns(self) -> dict[str, tf.Tensor]:
        lengths = {"prefix_length": self.lengths, "free_length": self.free_lengths}
        return {"prefix": self.prefix, **lengths}

    def force(self, step: Step) -> Forced:
        prefix = step.columns["prefix"]
        place = tf.minimum(step.length, tf.shape(prefix)[1])
        tokens = tf.gather(tf.pad(prefix, ((0, 0), (0, 1))), place, axis=1)
        applies = step.length < step.columns["prefix_length"]
        return Forced(applies, tokens, step.length < step.columns["free_length"])


def rules_of(options: SearchOptions, eos_id: int, forbidden_ids: tuple[int, ...]) -> list[Rule]:
    """The rules that options turn on, in the order in which they apply."""
    rules = [BannedTokens(forbidden_ids)] if forbidden_ids else []
    if options.min_length > 1:
        rules.append(MinLength(options.min_length, eos_id))
    if options.repetition_penalty != 1:
        rules.append(RepetitionPenalty(options.repetition_penalty))
    if options.no_repeat_ngram_size:
        rules.append(NoRepeatNgrams(options.no_repeat_ngram_size))
    if options.renormalize:
        rules.append(Renormalize())
    if options.force_end:
        rules.append(ForcedEnd(eos_id))
    return rules


def vocab_size(values: tf.Tensor) -> Any:
    """The size of the last axis: an int, or a scalar tensor if it is not static."""
    return tf.shape(values)[-1] if values.shape[-1] is None else values.shape[-1]


def _indices(tokens):
    # Tokens [rows, beams, n] -> [rows, beams, n, 3]: their indices in [rows, beams, vocab_size]
    rows, beams, _ = tf.unstack(tf.shape(tokens))
    row = tf.broadcast_to(tf.range(rows)[:, None, None], tf.shape(tokens))
    beam = tf.broadcast_to(tf.range(beams)[:, None], tf.shape(tokens))
    return tf.stack([row, beam, tokens], -1)
