"""Beam search and sampling over any step function; greedy search is beam search with one beam.

The cache of a step function need not be reordered. At each position it holds the entries of all
beams side by side. A table of each hypothesis's ancestors becomes an attention mask that selects
the entries of that hypothesis. Only this table and the tokens are reordered when beams are chosen.
A step function whose cache must be reordered too gives a function `reorder`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding.rules import NO_HYPOTHESIS, ForcedPrefix, Rule, Step, rules_of
from keras_mt.decoding.selection import (
    Continuations,
    best_continuations,
    forced_continuations,
    sampled_continuations,
)
from keras_mt.errors import InputError
from keras_mt.options import SearchOptions


class Hypotheses(NamedTuple):
    """The hypotheses that a search found, best first.

    Attributes:
        tokens: int32 `[batch, n_best, length]`: the generated tokens, with the end where there is
            one, then padding.
        scores: float32 `[batch, n_best]`: log_prob / length ** length_penalty, where the
            log-probability includes the repetition penalty; `NO_HYPOTHESIS` where there are fewer
            than `n_best` hypotheses.
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
    columns: dict[str, tf.Tensor]  # [rows, ...]: the rows' seeds, and what rules need
    tokens: tf.Tensor  # [rows, beams, length]
    ancestors: tf.Tensor  # [rows, beams, length]: the beam whose cache entry it uses at a position
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
    forced_length: Any = None,
    row_seeds: Any = None,
    reorder: Callable | None = None,
    normalize: bool = True,
    bos_id: int = 2,
    eos_id: int = 3,
    padding_id: int = 0,
    forbidden_ids: Any = None,
    rules: Sequence[Rule] = (),
    observe: Callable | None = None,
    **options: Any,
) -> Hypotheses:
    """Finds the most probable token sequences by beam search, or samples sequences.

    At each step the best continuations of all beams of a row are ranked together. Of the first
    `beam_size`, those that end are set aside as finished, with the score `(log_prob - word_penalty
    * length) / length ** length_penalty`, where the length counts the end. The first `beam_size`
    continuations that do not end live on; with `early_stopping="shrink"` only as many as have not
    ended are ranked, and those that do not end live on. A sequence that reaches its maximum length
    is set aside as it is. A row is done when no live hypothesis can still beat the worst of the
    `n_best` kept, however it continues, or earlier if `early_stopping` says so. Done rows are
    removed from the batch as soon as they are a quarter of it.

    With a `temperature`, each of `n_best` hypotheses samples its own continuation instead. What a
    row samples depends on the options' `seed` and the row's own seed, not on the rest of the batch.
    Scores are computed from the model's probabilities, without the temperature.

    Args:
        step: Function `(tokens, position, cache, mask) -> (logits, cache)`. It takes int32 tokens
            `[rows, beams]` at `position`, the cache of the positions before, and a boolean mask
            `[rows, beams, (position + 1) * beams]` (None for one beam), which is true for the cache
            entries that belong to each beam; the entries of this step come last. It returns float
            logits `[rows, beams, vocab_size]` and the cache with `beams` more entries. A logit of
            -inf marks an impossible token.
        cache: The cache before the first step: any nest of tensors whose first axis is the batch.
            Axes that grow must be of size 0.
        max_length: Integers `[batch]`: the maximum number of tokens, with the end; 0 generates
            nothing.
        prefix: The tokens that each hypothesis begins with, which count in its length and its
            log-probability: ragged integers `[batch, (length)]`, or integers `[batch, length]`.
            None for none.
        forced_length: Integers `[batch]`: how many tokens of the prefix have log-probability 0;
            they count in the length all the same. None for none.
        row_seeds: Integers `[batch]`, the rows' seeds for sampling; None for each row's index in
            the batch.
        reorder: Function `(cache, parents) -> cache`, with parents int32 `[rows, beams]`: returns
            the cache of the hypotheses that live on, each of which continues its parent. None if
            the step function uses its mask instead.
        normalize: Whether `step` returns logits; False if it returns log-probabilities.
        bos_id: The token before the first.
        eos_id: The token that ends a hypothesis.
        padding_id: The token that pads `Hypotheses.tokens`.
        forbidden_ids: Tokens never to generate; None means the padding and the start, unless one of
            them is the end.
        rules: Further rules on what comes next, each a `Rule`; those of the options come first.
        observe: Function `(continuations, live) -> None` that is called after each step, only
            outside of a `tf.function`. Both arguments have `log_probs`, `parents` and `tokens`:
            `[rows, count]` for the continuations that were ranked, `[rows, beams]` for those that
            live on.
        **options: The fields of `SearchOptions`: `beam_size`, `n_best`, ...

    Returns:
        `Hypotheses`, with as many per row as `n_best`.

    Raises:
        ValueError: If an option is out of range, if `max_length`, `prefix`, `forced_length` or
            `row_seeds` has another dtype or rank, or if `eos_id` is forbidden.

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
    forbidden_ids = tuple(forbidden_ids)
    if eos_id in forbidden_ids:
        raise InputError(
            f"forbidden_ids must not have eos_id={eos_id}, which ends a hypothesis. "
            f"Received: forbidden_ids={forbidden_ids}"
        )
    max_length = _integers("max_length", max_length, rank=1)
    rules = [*rules_of(options, eos_id, forbidden_ids), *rules]
    if prefix is not None:
        prefix, lengths = _dense_prefix(prefix)
        free = tf.zeros_like(lengths) if forced_length is None else forced_length
        rules.append(ForcedPrefix(prefix, lengths, _integers("forced_length", free, rank=1)))
    columns = {name: tensor for rule in rules for name, tensor in rule.columns().items()}
    if options.samples:
        seeds = tf.range(tf.size(max_length)) if row_seeds is None else row_seeds
        columns["seed"] = _integers("row_seeds", seeds, rank=1)
    settings = step, reorder, normalize, observe, options, rules, bos_id, eos_id, padding_id
    return _Search(*settings).run(max_length, columns, cache)


@dataclasses.dataclass(frozen=True)
class _Search:
    """A search: what stays the same from its first step to its last."""

    step: Callable
    reorder: Callable | None
    normalize: bool
    observe: Callable | None
    options: SearchOptions
    rules: Sequence[Rule]
    bos_id: int
    eos_id: int
    padding_id: int

    def run(self, max_length, columns, cache):
        """`Hypotheses` for the rows of a batch."""
        options, batch = self.options, tf.shape(max_length)[0]
        beams = options.beams
        rows = _Rows(
            index=tf.range(batch),
            max_length=max_length,
            columns=columns,
            tokens=_empty(batch, beams),
            ancestors=_empty(batch, beams),
            log_probs=self._first_log_probs(batch),
            finished=_no_hypotheses(batch, options.finished),
            done=max_length <= 0,
            cache=tf.nest.map_structure(tf.convert_to_tensor, cache),
        )
        _, _, hypotheses = _while(
            lambda length, rows, hypotheses: tf.reduce_any(~rows.done),
            self._search_on,
            (tf.constant(0), rows, _no_hypotheses(batch, options.finished)),
        )
        if options.finished > options.n_best:
            hypotheses = Hypotheses(*(tensor[:, : options.n_best] for tensor in hypotheses))
        return hypotheses

    def _first_log_probs(self, batch):
        log_probs = tf.zeros((batch, self.options.beams))
        if self.options.samples:
            return log_probs
        # All beams begin alike: only the first may continue.
        return log_probs + tf.one_hot(0, self.options.beams, on_value=0.0, off_value=NO_HYPOTHESIS)

    def _search_on(self, length, rows, hypotheses):
        """Searches until a quarter of the rows are done, and removes those."""

        def enough_live(length, rows):
            live = tf.math.count_nonzero(~rows.done, dtype=tf.int32)
            return 4 * live > 3 * tf.size(rows.done)

        length, rows = _while(enough_live, self._advance, (length, rows))
        hypotheses = _collect(hypotheses, rows, self.padding_id)
        live = tf.where(~rows.done)[:, 0]
        return length, tf.nest.map_structure(lambda x: tf.gather(x, live), rows), hypotheses

    def _advance(self, length, rows):
        """Extends every hypothesis by a token."""
        ancestors = _with_themselves(rows.ancestors)
        logits, cache = self.step(
            _last_tokens(rows.tokens, self.bos_id),
            length,
            rows.cache,
            None if self.options.beams == 1 else _ancestry_mask(ancestors),
        )
        rows = rows._replace(ancestors=ancestors, cache=cache)
        # Without ensure_shape, TensorFlow would move the cast behind each of the reshapes.
        logits = tf.ensure_shape(tf.cast(logits, tf.float32), (None, None, logits.shape[-1]))
        continuations = self._continuations(logits, length, rows)
        rows, parents = self._choose(rows, continuations, length + 1)
        if self.observe is not None:
            live = Continuations(rows.log_probs, parents, rows.tokens[..., -1])
            self.observe(continuations, live)
        if self.reorder is not None:
            rows = rows._replace(cache=self.reorder(rows.cache, parents))
        return length + 1, rows

    def _continuations(self, logits, length, rows):
        """The continuations to choose from, `[rows, count]`."""
        options, rules, normalize = self.options, self.rules, self.normalize
        step = Step(length, rows.tokens, rows.max_length, rows.columns)
        banned = [ids for ids in (rule.banned(step) for rule in rules) if ids is not None]
        step = step._replace(banned=tf.concat(banned, axis=0) if banned else None)
        adjusting = [rule for rule in rules if rule.adjusts]
        forcing = [rule for rule in rules if rule.forces]
        # Only the best tokens are normalized, unless a rule or the sampling needs them all.
        all_needed = options.samples or any(not rule.normalizes for rule in adjusting)
        if normalize and (all_needed or (adjusting and forcing)):
            logits, normalize = tf.nn.log_softmax(logits), False
        values = logits
        for rule in adjusting:
            values = rule.adjust(values, step)
        normalize, normalizer = normalize and not adjusting, 0.0
        if options.samples:
            continuations = sampled_continuations(
                values, rows.log_probs, step.banned, rows.columns["seed"], length, options
            )
        else:
            continuations, normalizer = best_continuations(
                values,
                rows.log_probs,
                step.banned,
                options.beams,
                logits if normalize else None,
            )
        for rule in forcing:
            continuations = forced_continuations(
                continuations, rule.force(step), logits, normalizer, rows.log_probs
            )
        return continuations

    def _choose(self, rows, continuations, length):
        """Sets aside the continuations that end; returns rows of the best others, and parents."""
        beams = self.options.beams
        log_probs, parents, last = continuations
        log_probs = self._shrunk(log_probs, rows, length)
        tokens = tf.gather(rows.tokens, parents, batch_dims=1)
        tokens = tf.concat([tokens, last[..., None]], axis=-1)  # [rows, count, length]

        full = length >= rows.max_length  # [rows]
        is_end = last == self.eos_id
        ends = is_end | full[:, None]
        finished = _set_aside(
            rows.finished,
            self.padding_id,
            tokens[:, :beams],
            self._score(log_probs[:, :beams], length),
            ends[:, :beams] & _alive(log_probs[:, :beams]) & ~rows.done[:, None],
        )
        log_probs, chosen = tf.math.top_k(tf.where(is_end, NO_HYPOTHESIS, log_probs), beams)
        log_probs = tf.where(_alive(log_probs), log_probs, NO_HYPOTHESIS)
        best = log_probs[:, 0]
        over = self._is_over(best, finished.scores[:, -1], length, rows.max_length)
        hopeless = over | (best <= NO_HYPOTHESIS / 2)
        parents = tf.gather(parents, chosen, batch_dims=1)
        rows = rows._replace(
            tokens=tf.gather(tokens, chosen, batch_dims=1),
            ancestors=tf.gather(rows.ancestors, parents, batch_dims=1),
            log_probs=log_probs,
            finished=finished,
            done=rows.done | full | hopeless,
        )
        return rows, parents

    @property
    def _shrinks(self):
        return self.options.early_stopping == "shrink" and not self.options.samples

    def _shrunk(self, log_probs, rows, length):
        """The continuations `[rows, count]` that a beam without those that ended ranks."""
        if not self._shrinks:
            return log_probs
        live = tf.math.count_nonzero(_alive(rows.log_probs), axis=1, dtype=tf.int32)
        # All beams begin as one.
        width = tf.where(length == 1, self.options.beams, live)
        ranked = tf.range(tf.shape(log_probs)[1]) < width[:, None]
        return tf.where(ranked, log_probs, NO_HYPOTHESIS)

    def _score(self, log_probs, length):
        """The scores of hypotheses of a length."""
        length = tf.cast(length, tf.float32)
        options = self.options
        return (log_probs - options.word_penalty * length) / length**options.length_penalty

    def _is_over(self, best, worst, length, max_length):
        """Which rows are done, by the best live log-probability and the worst finished score."""
        options = self.options
        if self._shrinks:
            return tf.zeros_like(best, tf.bool)
        if options.early_stopping is True and not options.exhaustive:
            return worst > NO_HYPOTHESIS / 2
        # The best score that a live hypothesis can reach: at the greatest length, at no more cost.
        longest = max_length if options.exhaustive else length
        if not options.word_penalty:
            return worst >= self._score(best, longest)
        # Of its words' penalties the least, at the least or at the greatest length.
        least = tf.maximum(self._score(0.0, length), self._score(0.0, longest))
        return worst >= best / tf.cast(longest, tf.float32) ** options.length_penalty + least


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
    """Tokens `[batch, length]` and int32 `[batch]`, how many of each row there are."""
    if isinstance(prefix, tf.RaggedTensor):
        return tf.cast(prefix.to_tensor(), tf.int32), tf.cast(prefix.row_lengths(), tf.int32)
    prefix = _integers("prefix", prefix, rank=2)
    batch, length = tf.unstack(tf.shape(prefix))
    return prefix, tf.fill((batch,), length)


def _empty(batch, beams):
    return tf.zeros((batch, beams, 0), tf.int32)


def _no_hypotheses(batch, n_best):
    return Hypotheses(
        _empty(batch, n_best),
        tf.fill((batch, n_best), NO_HYPOTHESIS),
        tf.zeros((batch, n_best), tf.int32),
    )


def _last_tokens(tokens, bos_id):
    # [rows, beams, length] -> [rows, beams]; the start token before the first step
    start = tf.fill(tf.concat([tf.shape(tokens)[:2], [1]], 0), bos_id)
    return tf.concat([start, tokens], axis=-1)[..., -1]


def _with_themselves(ancestors):
    # [rows, beams, length] -> [rows, beams, length + 1]: each beam uses its own new cache entry
    shape = tf.shape(ancestors)
    themselves = tf.broadcast_to(tf.range(shape[1])[None, :, None], (shape[0], shape[1], 1))
    return tf.concat([ancestors, themselves], axis=-1)


def _ancestry_mask(ancestors):
    # [rows, beams, length] -> boolean [rows, beams, length * beams]
    rows, beams, length = tf.unstack(tf.shape(ancestors))
    mask = tf.expand_dims(ancestors, -1) == tf.range(beams)  # [rows, beams, length, beams]
    return tf.reshape(mask, (rows, beams, length * beams))


def _set_aside(finished, padding_id, tokens, scores, ended):
    """The best of the finished hypotheses and of the new ones that ended."""
    length = tf.fill(tf.shape(scores), tf.shape(tokens)[2])
    before = tf.pad(finished.tokens, ((0, 0), (0, 0), (0, 1)), constant_values=padding_id)
    scores = tf.concat([finished.scores, tf.where(ended, scores, NO_HYPOTHESIS)], axis=1)
    scores, chosen = tf.math.top_k(scores, finished.scores.shape[1])
    return Hypotheses(
        tf.gather(tf.concat([before, tokens], axis=1), chosen, batch_dims=1),
        scores,
        tf.gather(tf.concat([finished.lengths, length], axis=1), chosen, batch_dims=1),
    )


def _collect(hypotheses, rows, padding_id):
    """The hypotheses found for the whole batch, updated with those of these rows."""
    longer = tf.shape(rows.finished.tokens)[2] - tf.shape(hypotheses.tokens)[2]
    longer = tf.pad(hypotheses.tokens, ((0, 0), (0, 0), (0, longer)), constant_values=padding_id)
    # By a gather: LiteRT has no dynamic_stitch, and tokens without a length cannot be scattered.
    batch = tf.shape(hypotheses.scores)[0]
    places = batch + tf.range(tf.size(rows.index))
    order = tf.tensor_scatter_nd_update(tf.range(batch), tf.expand_dims(rows.index, 1), places)
    hypotheses = tf.nest.map_structure(
        lambda before, now: tf.gather(tf.concat([before, now], axis=0), order),
        hypotheses._replace(tokens=longer),
        rows.finished,
    )
    # A place without a hypothesis holds the tokens of one that did not end.
    wanted = hypotheses.scores > NO_HYPOTHESIS
    return hypotheses._replace(
        tokens=tf.where(wanted[..., None], hypotheses.tokens, padding_id),
        lengths=tf.where(wanted, hypotheses.lengths, 0),
    )


def _alive(log_probs):
    """Which hypotheses are possible."""
    return log_probs > NO_HYPOTHESIS / 2


def _while(condition, body, state):
    """`tf.while_loop` over tensors whose first axis may shrink and whose empty axes may grow."""

    def shape(tensor):
        if tensor.shape.rank == 0:
            return tensor.shape
        return tf.TensorShape([None, *(size or None for size in tensor.shape[1:])])

    invariants = tf.nest.map_structure(shape, state)
    return tf.while_loop(condition, body, state, shape_invariants=invariants)
