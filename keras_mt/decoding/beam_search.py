"""Beam search and sampling over any step function; greedy search is beam search with one beam.

A cache need not be reordered. At each position it holds the entries of all beams side by side, and
an attention mask selects those of each hypothesis and its ancestors. Only this mask and the tokens
are reordered when beams are chosen.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding import selection
from keras_mt.decoding.rules import Rule, rules_of
from keras_mt.errors import InputError
from keras_mt.options.search import NO_HYPOTHESIS, SearchOptions


class Hypotheses(NamedTuple):
    """The hypotheses that a search found, best first.

    Attributes:
        tokens: int32 `[batch, n_best, length]`: the generated tokens, with the end where there is
            one, then padding.
        scores: float32 `[batch, n_best]`: (log_prob - word_penalty * length) / length **
            length_penalty, where the log-probability includes the repetition penalty;
            `NO_HYPOTHESIS` where there are fewer than `n_best` hypotheses.
        lengths: int32 `[batch, n_best]`: number of tokens, with the end where there is one.

    Example:

    >>> found = Hypotheses(np.array([[[5, 3, 0]]]), np.array([[-0.5]]), np.array([[2]]))
    >>> found.tokens[0, 0, : found.lengths[0, 0]].tolist()  # The best of the first row.
    [5, 3]
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor


class _Rows(NamedTuple):
    """The sentences that are still searched; `length` tokens of each have been generated."""

    index: tf.Tensor  # [rows]: the sentence's place in the batch
    max_length: tf.Tensor  # [rows]
    tokens: tf.Tensor  # [rows, beams, length]
    last_tokens: tf.Tensor  # [rows, beams]: the start before the first step
    mask: tf.Tensor  # [rows, beams, length * beams]: the entries of the cache that are its own
    log_probs: tf.Tensor  # [rows, beams]
    finished: Hypotheses  # [rows, finished, length], [rows, finished], [rows, finished]
    done: tf.Tensor  # [rows]
    cache: Any  # [rows, ...]


def beam_search(
    step: Callable,
    cache: Any,
    max_length: Any,
    *,
    prefix: Any = None,
    forced_length: int = 0,
    row_seeds: Any = None,
    reorder: Callable | None = None,
    gives_logits: bool = True,
    block: int = 0,
    bos_id: int = 2,
    eos_id: int = 3,
    padding_id: int = 0,
    forbidden_ids: Any = None,
    rules: Sequence[Rule] = (),
    **options: Any,
) -> Hypotheses:
    """Finds the most probable token sequences by beam search, or samples sequences.

    At each step the best continuations of all beams of a row are ranked together. Of the first
    `beam_size`, those that end are set aside as finished, with the score `(log_prob - word_penalty
    * length) / length ** length_penalty`, where the length counts the end. The first `beam_size`
    that do not end live on; with `early_stopping="shrink"` only as many as have not ended are
    ranked. A sequence that reaches its maximum length is set aside as it is. A row is done when
    `early_stopping` says so; with "never", when no live hypothesis can still beat the worst of the
    `n_best` kept. Done rows leave the batch as soon as they are a quarter of it.

    With a `temperature`, each of `n_best` hypotheses samples its own continuation, by the options'
    `seed` and the row's own. Scores are without the temperature.

    Args:
        step: Function `(tokens, position, cache, mask) -> (logits, cache)`. It takes int32 tokens
            `[rows, beams]` at `position`, the cache of the positions before, and a boolean mask
            `[rows, beams, (position + 1) * beams]` (None for one beam), true for the cache entries
            of each beam; those of this step come last. It returns float logits `[rows, beams,
            vocab_size]`, -inf for an impossible token, and the cache with `beams` more entries.
        cache: The cache before the first step: any nest of tensors whose first axis is the batch.
            Axes that grow must be of size 0.
        max_length: Integers `[batch]`: the maximum number of tokens, with the end.
        prefix: The tokens that each hypothesis begins with: ragged integers `[batch, (length)]`, or
            integers `[batch, length]`, -1 behind those of a row. None for none.
        forced_length: How many tokens of each prefix cost nothing, and count in the length alone.
        row_seeds: Integers `[batch]`, the rows' seeds for sampling; None for their numbers.
        reorder: Function `(cache, parents) -> cache`, with parents int32 `[rows, beams]`, the
            hypotheses that those that live on continue. None if `step` heeds its mask instead.
        gives_logits: Whether `step` returns logits; False if it returns log-probabilities.
        block: The search grows the cache by this many positions at once, and `step` writes its
            entries in it, from `position * beams` on, rather than at its end. So shapes stay the
            same, as is fast in LiteRT. There always is a mask, as long as the cache. 0 for no such
            blocks.
        bos_id, eos_id, padding_id: The tokens before the first, and at the end of a hypothesis, and
            that pad `Hypotheses.tokens`.
        forbidden_ids: Tokens never to generate; None means the padding and the start, unless one of
            them is the end.
        rules: Functions as in `keras_mt.decoding.rules`, which apply after those of the options.
        **options: The fields of `SearchOptions`: `beam_size`, `n_best`, ...

    Raises:
        ValueError: If an option is out of range, an argument has another dtype or rank, or `eos_id`
            is forbidden.

    Reference:
        Finished hypotheses, the ranking and the stopping criteria are as in transformers' beam
        search; the length penalty is that of Marian and fairseq.

    Example:

    >>> bigrams = tf.constant([[0., 0, 0, 1, 5], [0, 0, 0, 4, 3]])  # after the start, after others
    >>> def step(tokens, position, cache, mask):
    ...     return tf.gather(bigrams, tf.cast(tokens == 4, tf.int32)), cache
    >>> beam_search(step, (), max_length=tf.constant([5])).tokens.numpy().tolist()
    [[[4, 3]]]
    """
    options = SearchOptions(**options)
    if forbidden_ids is None:
        forbidden_ids = {padding_id, bos_id} - {eos_id}
    if eos_id in forbidden_ids:
        raise InputError(
            f"forbidden_ids must not have eos_id={eos_id}, which ends a hypothesis. "
            f"Received: forbidden_ids={forbidden_ids}"
        )
    max_length = _integers("max_length", max_length, rank=1)
    rows = _first_rows(max_length, cache, bos_id, options)
    search = _Search(
        step=step,
        reorder=reorder,
        gives_logits=gives_logits,
        block=block,
        rules=rules_of(options, rules),
        options=options,
        eos_id=eos_id,
        padding_id=padding_id,
        forbidden_ids=tf.constant([*forbidden_ids], tf.int32),
        prefix=None if prefix is None else _dense_prefix(prefix),
        forced_length=forced_length,
        row_seeds=_integers("row_seeds", rows.index if row_seeds is None else row_seeds, rank=1),
        axes=tf.nest.map_structure(_growing_axis, rows.cache),
    )
    _, _, (tokens, scores, lengths) = while_loop(
        lambda length, rows, hypotheses: tf.reduce_any(~rows.done),
        search.search_on,
        (tf.constant(0), rows, rows.finished),
    )
    tokens, scores, lengths = (x[:, : options.n_best] for x in (tokens, scores, lengths))
    # A place without a hypothesis holds the tokens of one that did not end.
    found = scores > NO_HYPOTHESIS
    tokens = tf.where(found[..., None], tokens, padding_id)
    return Hypotheses(tokens, scores, tf.where(found, lengths, 0))


def _first_rows(max_length, cache, bos_id, options):
    """The rows of a batch before the first step."""
    batch, beams = tf.size(max_length), options.beams
    log_probs = tf.zeros((batch, beams))
    if not options.samples:  # All beams begin alike: only the first may continue.
        log_probs = tf.one_hot(tf.zeros_like(max_length), beams, 0.0, NO_HYPOTHESIS)
    return _Rows(
        index=tf.range(batch),
        max_length=max_length,
        tokens=tf.zeros((batch, beams, 0), tf.int32),
        last_tokens=tf.fill((batch, beams), bos_id),
        mask=tf.zeros((batch, beams, 0), tf.bool),
        log_probs=log_probs,
        finished=no_hypotheses(batch, options.finished),
        done=max_length <= 0,
        cache=tf.nest.map_structure(tf.convert_to_tensor, cache),
    )


@dataclasses.dataclass(frozen=True)
class _Search:
    """A search: what stays the same from its first step to its last."""

    step: Callable
    reorder: Callable | None
    gives_logits: bool
    block: int
    rules: Sequence[Rule]
    options: SearchOptions
    eos_id: int
    padding_id: int
    forbidden_ids: tf.Tensor  # [count]
    prefix: tf.Tensor | None  # [batch, length + 1], -1 after the prefix of each row
    forced_length: int
    row_seeds: tf.Tensor  # [batch]
    axes: Any  # Of each tensor of the cache, the axis that grows, -1 for none.

    def search_on(self, length, rows, hypotheses):
        """Searches until a quarter of the rows are done, or a block is full; removes those rows."""
        places = None
        if self.block:
            rows = self._with_room(rows, length)
            places = tf.range(tf.shape(rows.mask)[2])  # Here: its size is known in the loop then.

        def enough_live(length, rows):
            live = tf.math.count_nonzero(~rows.done, dtype=tf.int32)
            has_room = places is None or length * self.options.beams < tf.size(places)
            return (4 * live > 3 * tf.size(rows.done)) & has_room

        advance = functools.partial(self._advance, places)
        length, rows = while_loop(enough_live, advance, (length, rows))
        hypotheses = _updated(hypotheses, rows, self.padding_id)
        live = tf.where(~rows.done)[:, 0]
        return length, tf.nest.map_structure(lambda x: tf.gather(x, live), rows), hypotheses

    def _advance(self, places, length, rows):
        """Extends every hypothesis by a token; in a block of `places`, shapes stay the same."""
        beams = self.options.beams
        if places is None:
            own = tf.tile(tf.eye(beams, dtype=tf.bool)[None], (tf.shape(rows.mask)[0], 1, 1))
            mask = tf.concat([rows.mask, own], axis=-1)
        else:
            mask = rows.mask | (places == (length * beams + tf.range(beams))[:, None])
        seen = None if beams == 1 and places is None else mask
        logits, cache = self.step(rows.last_tokens, length, rows.cache, seen)
        rows = rows._replace(mask=mask, cache=cache)
        # Without ensure_shape, TensorFlow would move the cast behind each of the reshapes.
        shape = None, beams, logits.shape[-1]
        logits = tf.ensure_shape(tf.cast(logits, tf.float32), shape)
        continuations = self._continuations(logits, length, rows)
        rows, parents = self._choose(rows, continuations, length + 1, places)
        if self.reorder is not None:
            rows = rows._replace(cache=self.reorder(rows.cache, parents))
        return length + 1, rows

    def _with_room(self, rows, length):
        """The rows, in which what grows has room for a block more, if it is full."""
        more = tf.where(length < tf.shape(rows.tokens)[2], 0, self.block)
        entries = more * self.options.beams

        def grown(x, axis, count, value=0):
            sides = [(0, count if i == axis else 0) for i in range(x.shape.rank)]
            return x if axis < 0 else tf.pad(x, sides, constant_values=value)

        finished = grown(rows.finished.tokens, 2, more, self.padding_id)
        cache = tf.nest.map_structure(lambda *each: grown(*each, entries), rows.cache, self.axes)
        return rows._replace(
            tokens=grown(rows.tokens, 2, more, self.padding_id),
            mask=grown(rows.mask, 2, entries, False),
            finished=rows.finished._replace(tokens=finished),
            cache=cache,
        )

    def _continuations(self, logits, length, rows):
        """The continuations to choose from, `[rows, count]`."""
        options, banned = self.options, self.forbidden_ids
        if options.min_length > 1:
            end = tf.where(length + 1 < options.min_length, self.eos_id, -1)
            banned = tf.concat([banned, end[None]], axis=0)
        # The best tokens of each beam, and as many more as may be banned.
        width = 2 * options.beams + banned.shape[0]
        width = min(width, logits.shape[-1] or width)
        values = selection.strike_out(logits, banned) if options.renormalize else logits
        normalizes = self.gives_logits or options.renormalize
        # With rules or sampling these serve the normalizer alone.
        best, tokens = selection.top_k(values, width)  # [rows, beams, width]
        normalizer = selection.log_normalizer(values, best, tokens) if normalizes else 0.0
        best -= normalizer
        if self.rules or options.samples:  # All log-probabilities are needed.
            log_probs = tf.nn.log_softmax(values) if normalizes else values
            tokens = rows.tokens[..., :length] if self.block else rows.tokens
            for rule in self.rules:
                log_probs = rule(log_probs, tokens, rows.index)
            best, tokens = selection.top_k(log_probs, width)
        if options.samples:
            seeds = tf.gather(self.row_seeds, rows.index)
            log_probs = selection.strike_out(log_probs, banned)
            found = selection.sampled_continuations(
                log_probs, rows.log_probs, seeds, length, options
            )
        else:
            found = selection.best_continuations(best, tokens, rows.log_probs, banned)
        if self.prefix is not None or options.force_end:
            found = self._force(found, logits, normalizer, length, rows)
        return found

    def _force(self, continuations, logits, normalizer, length, rows):
        """The continuations, but the prefix, or the end at the last place, where it is forced."""
        last = length + 1 >= rows.max_length  # [rows]
        tokens, free = tf.where(last & self.options.force_end, self.eos_id, -1), last
        if self.prefix is not None:
            place = tf.minimum(length, tf.shape(self.prefix)[1] - 1)
            prefix = tf.gather(tf.gather(self.prefix, place, axis=1), rows.index)  # [rows]
            tokens = tf.where(prefix >= 0, prefix, tokens)
            free = tf.where(prefix >= 0, length < self.forced_length, free)
        places = tf.maximum(tokens, 0)[:, None] + tf.zeros(self.options.beams, tf.int32)
        next_log_probs = (tf.gather(logits, places[..., None], batch_dims=2) - normalizer)[..., 0]
        next_log_probs = tf.where(free[:, None], 0.0, next_log_probs)  # [rows, beams]
        return selection.forced_continuations(continuations, tokens, next_log_probs, rows.log_probs)

    def _choose(self, rows, continuations, length, places):
        """Sets aside the continuations that end; returns rows of the best others, and parents."""
        options, beams = self.options, self.options.beams
        log_probs, parents, new_tokens = continuations  # [rows, count]
        if options.stopping == "shrink":
            # As many are ranked as have not ended; all beams begin as one.
            live = tf.math.count_nonzero(
                selection.is_possible(rows.log_probs), axis=1, dtype=tf.int32
            )
            ranked = tf.where(length == 1, beams, live)[:, None]
            ranked = tf.range(tf.shape(log_probs)[1]) < ranked
            log_probs = tf.where(ranked, log_probs, NO_HYPOTHESIS)
        tokens = tf.gather(rows.tokens, parents, batch_dims=1)
        tokens = self._appended(tokens, new_tokens, length, places)  # [rows, count, length]

        full = length >= rows.max_length  # [rows]
        is_end = new_tokens == self.eos_id
        ended = (is_end | full[:, None]) & selection.is_possible(log_probs) & ~rows.done[:, None]
        scores = tf.where(ended, self._score(log_probs, length), NO_HYPOTHESIS)
        finished = self._set_aside(rows.finished, tokens[:, :beams], scores[:, :beams], length)
        log_probs, chosen = tf.math.top_k(tf.where(is_end, NO_HYPOTHESIS, log_probs), beams)
        best, worst = log_probs[:, 0], finished.scores[:, -1]
        over = self._is_over(best, worst, length, rows.max_length)
        parents = tf.gather(parents, chosen, batch_dims=1)
        rows = rows._replace(
            tokens=tf.gather(tokens, chosen, batch_dims=1),
            last_tokens=tf.gather(new_tokens, chosen, batch_dims=1),
            mask=tf.gather(rows.mask, parents, batch_dims=1),
            log_probs=log_probs,
            finished=finished,
            done=rows.done | full | over | ~selection.is_possible(best),
        )
        return rows, parents

    def _appended(self, tokens, new, length, places):
        """Tokens `[rows, count, length]` with new last ones."""
        if places is None:
            return tf.concat([tokens, new[..., None]], axis=-1)
        here = places[:: self.options.beams] == (length - 1) * self.options.beams
        return tf.where(here, tf.expand_dims(new, -1), tokens)

    def _set_aside(self, finished, tokens, scores, length):
        """The best of the finished hypotheses and of new ones of a length, with their scores."""
        before, count = finished.tokens, finished.scores.shape[1]
        if not self.block:
            before = tf.pad(before, ((0, 0), (0, 0), (0, 1)), constant_values=self.padding_id)
        scores, chosen = tf.math.top_k(tf.concat([finished.scores, scores], axis=1), count)
        lengths = tf.gather(finished.lengths, tf.minimum(chosen, count - 1), batch_dims=1)
        return Hypotheses(
            tf.gather(tf.concat([before, tokens], axis=1), chosen, batch_dims=1),
            scores,
            tf.where(chosen < count, lengths, length),
        )

    def _score(self, log_probs, length):
        """The scores of hypotheses of a length."""
        length = tf.cast(length, tf.float32)
        options = self.options
        return (log_probs - options.word_penalty * length) / length**options.length_penalty

    def _is_over(self, best, worst, length, max_length):
        """The rows that are done, by the best live log-probability and the worst finished score."""
        options = self.options
        if options.stopping == "shrink":
            return tf.zeros_like(best, tf.bool)
        if options.stopping is True:
            return worst > NO_HYPOTHESIS
        # The best score that a live hypothesis can reach: at the greatest length, at no more cost.
        longest = max_length if options.stopping == "never" else length
        reachable = best / tf.cast(longest, tf.float32) ** options.length_penalty
        if options.word_penalty:
            # Of its words' penalties the least, at the least or at the greatest length.
            reachable += tf.maximum(self._score(0.0, length), self._score(0.0, longest))
        return worst >= reachable


def _integers(name, values, rank):
    """An int32 tensor from a list, an array or a tensor of integers."""
    values = tf.convert_to_tensor(values)
    empty = values.shape.num_elements() == 0  # An empty list becomes floats.
    if values.shape.rank not in (rank, None) or not (values.dtype.is_integer or empty):
        raise InputError(
            f"{name} must be integers of rank {rank}. "
            f"Received: {values.dtype.name} of shape {values.shape}"
        )
    return tf.cast(values, tf.int32)


def _dense_prefix(prefix):
    """Tokens int32 `[batch, length + 1]`, -1 after those of each row."""
    if isinstance(prefix, tf.RaggedTensor):
        prefix = tf.cast(prefix, tf.int32).to_tensor(-1)
    return tf.pad(_integers("prefix", prefix, rank=2), ((0, 0), (0, 1)), constant_values=-1)


def no_hypotheses(rows: int | tf.Tensor, count: int) -> Hypotheses:
    """`Hypotheses` of rows that have none, with `count` places each."""
    return Hypotheses(
        tf.zeros((rows, count, 0), tf.int32),
        tf.fill((rows, count), NO_HYPOTHESIS),
        tf.zeros((rows, count), tf.int32),
    )


def _updated(hypotheses, rows, padding_id):
    """The hypotheses found for the whole batch, with those of these rows."""
    longer = tf.shape(rows.finished.tokens)[2] - tf.shape(hypotheses.tokens)[2]
    longer = tf.pad(hypotheses.tokens, ((0, 0), (0, 0), (0, longer)), constant_values=padding_id)
    # By a gather: LiteRT has no dynamic_stitch, and tokens without a length cannot be scattered.
    batch = tf.shape(hypotheses.scores)[0]
    places = batch + tf.range(tf.size(rows.index))
    order = tf.tensor_scatter_nd_update(tf.range(batch), tf.expand_dims(rows.index, 1), places)
    return tf.nest.map_structure(
        lambda before, now: tf.gather(tf.concat([before, now], axis=0), order),
        hypotheses._replace(tokens=longer),
        rows.finished,
    )


def _growing_axis(tensor):
    return next((axis for axis, size in enumerate(tensor.shape) if size == 0), -1)


def while_loop(condition: Callable, body: Callable, state: Any, **options: Any) -> Any:
    """`tf.while_loop` over a state whose first axes may shrink and whose empty axes may grow."""

    def shape(tensor):
        if tensor.shape.rank == 0:
            return tensor.shape
        return tf.TensorShape([None, *(size or None for size in tensor.shape[1:])])

    shapes = tf.nest.map_structure(shape, state)
    return tf.while_loop(condition, body, state, shape_invariants=shapes, **options)
