"""Beam search and sampling over any step function; greedy search is beam search with one beam.

The cache of a step function need not be reordered. At each position it holds the entries of all
beams side by side. A table of each hypothesis's ancestors becomes an attention mask that selects
the entries of that hypothesis. Only this table and the tokens are reordered when beams are chosen.
A step function whose cache must be reordered too gives a function `reorder`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.options import SearchOptions

# The log-probability of an impossible token, and the score where there is no hypothesis. It is
# finite, so that arithmetic on it never gives NaN.
NO_HYPOTHESIS = -1e9


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
    """The sentences that are still searched; `length` tokens of each have been generated.

    An optional field is a tuple of one element, or () where it is not used.
    """

    index: tf.Tensor  # [rows]: the sentence's place in the batch
    max_length: tf.Tensor  # [rows]
    prefix: tuple  # ([rows, prefix_length], [rows]): tokens to begin with, and how many
    forced: tuple  # ([rows],): how many of the prefix's tokens cost nothing
    own: tuple  # (dict of [rows],): each row's own options
    seeds: tuple  # ([rows],)
    tokens: tf.Tensor  # [rows, beams, length]
    ancestors: tf.Tensor  # [rows, beams, length]: the beam whose cache entry it uses at a position
    log_probs: tf.Tensor  # [rows, beams]
    finished: Hypotheses  # [rows, n_best, length], [rows, n_best], [rows, n_best]
    done: tf.Tensor  # [rows]
    cache: Any  # [rows, ...]


class _Continuations(NamedTuple):
    """Hypotheses extended by one token, best first."""

    log_probs: tf.Tensor  # [rows, count]
    parents: tf.Tensor  # [rows, count]: the beam that each continues
    tokens: tf.Tensor  # [rows, count]


class _Ids(NamedTuple):
    """The ids of special tokens."""

    bos: int
    eos: int
    padding: int
    forbidden: tuple[int, ...]


def beam_search(
    step: Callable,
    cache: Any,
    max_length: Any,
    *,
    prefix: Any = None,
    forced_length: Any = None,
    row_options: dict[str, Any] | None = None,
    row_seeds: Any = None,
    reorder: Callable | None = None,
    normalize: bool = True,
    bos_id: int = 2,
    eos_id: int = 3,
    padding_id: int = 0,
    forbidden_ids: Any = None,
    observe: Callable | None = None,
    **options: Any,
) -> Hypotheses:
    """Finds the most probable token sequences by beam search, or samples sequences.

    At each step the best continuations of all beams of a row are ranked together. Of the first
    `beam_size`, those that end are set aside as finished, with the score
    `log_prob / length ** length_penalty`, where the length counts the end. The first `beam_size`
    continuations that do not end live on. A sequence that reaches its maximum length is set aside
    as it is. A row is done when no live hypothesis can still beat the worst of the `n_best` kept,
    however it continues, or earlier if `early_stopping` says so. Done rows are removed from the
    batch as soon as they are a quarter of it.

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
            Axes that grow must be of size 0. Or a function from the number of beams to such a
            cache.
        max_length: Integers `[batch]`: the most tokens to generate, with the end; 0 generates
            nothing.
        prefix: The tokens that each hypothesis begins with, which count in its length and its
            log-probability: ragged integers `[batch, (length)]`, or integers `[batch, length]`.
            None for none.
        forced_length: Integers `[batch]`: how many tokens of the prefix have log-probability 0;
            they count in the length all the same. None for none.
        row_options: A dict of the rows' own `beam_size` and `n_best`, integers `[batch]`, and
            `length_penalty`, floats `[batch]`; the `beam_size` and `n_best` of `options` are then
            upper bounds. None if all rows have those of `options`. There are as many beams as the
            widest row has.
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
        observe: Function `(continuations, live) -> None` that is called after each step, only
            outside of a `tf.function`. Both arguments have `log_probs`, `parents` and `tokens`:
            `[rows, count]` for the continuations that were ranked, `[rows, beams]` for those that
            live on. `search_tree` is built on it.
        **options: The fields of `SearchOptions`: `beam_size`, `n_best`, ...

    Returns:
        `Hypotheses`, with as many per row as `n_best`.

    Raises:
        ValueError: If an option is out of range, if `max_length`, `prefix`, `forced_length`,
            `row_seeds` or an integer of `row_options` has another dtype or rank, or if `eos_id` is
            forbidden.

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
    ids = _Ids(bos_id, eos_id, padding_id, tuple(forbidden_ids))
    if eos_id in ids.forbidden:
        raise InputError(
            f"forbidden_ids must not have eos_id={eos_id}, which ends a hypothesis. "
            f"Received: forbidden_ids={ids.forbidden}"
        )
    max_length = _integers("max_length", max_length, rank=1)
    batch = tf.shape(max_length)[0]
    beams, widths = options.beams, None
    if row_options is not None:
        row_options = {
            **{
                name: _integers(f"row_options[{name!r}]", row_options[name], rank=1)
                for name in ("beam_size", "n_best")
            },
            "length_penalty": tf.cast(row_options["length_penalty"], tf.float32),
        }
        widths = row_options["n_best" if options.samples else "beam_size"]
        beams = tf.clip_by_value(tf.reduce_max(widths), 1, options.beams)
    seeds = ()
    if options.samples:
        seeds = (tf.range(batch) if row_seeds is None else _integers("row_seeds", row_seeds, 1),)
    rows = _Rows(
        index=tf.range(batch),
        max_length=max_length,
        prefix=() if prefix is None else _dense_prefix(prefix),
        forced=() if forced_length is None else (_integers("forced_length", forced_length, 1),),
        own=() if row_options is None else (row_options,),
        seeds=seeds,
        tokens=_empty(batch, beams),
        ancestors=_empty(batch, beams),
        log_probs=_first_log_probs(batch, beams, widths, options),
        finished=_no_hypotheses(batch, options.finished),
        done=max_length <= 0,
        cache=tf.nest.map_structure(
            tf.convert_to_tensor, cache(beams) if callable(cache) else cache
        ),
    )

    def searching(length, rows, found):
        return tf.reduce_any(~rows.done)

    def enough_live(length, rows):
        live = tf.math.count_nonzero(~rows.done, dtype=tf.int32)
        return 4 * live > 3 * tf.size(rows.done)

    def advance(length, rows):
        """Extends every hypothesis by a token."""
        ancestors = _with_themselves(rows.ancestors)
        single = isinstance(beams, int) and beams == 1
        logits, cache = step(
            _last_tokens(rows.tokens, bos_id),
            length,
            rows.cache,
            None if single else _ancestry_mask(ancestors),
        )
        rows = rows._replace(ancestors=ancestors, cache=cache)
        # Without ensure_shape, TensorFlow would move the cast behind each of the reshapes.
        logits = tf.ensure_shape(tf.cast(logits, tf.float32), (None, None, logits.shape[-1]))
        continuations = _continuations(logits, length, rows, beams, options, normalize, ids)
        rows, parents = _choose(rows, continuations, length + 1, beams, options, ids)
        if observe is not None:
            observe(continuations, _Continuations(rows.log_probs, parents, rows.tokens[..., -1]))
        if reorder is not None:
            rows = rows._replace(cache=reorder(rows.cache, parents))
        return length + 1, rows

    def search_on(length, rows, found):
        """Searches until a quarter of the rows are done, and removes those."""
        length, rows = _while(enough_live, advance, (length, rows))
        found = _collect(found, rows, ids.padding)
        live = tf.where(~rows.done)[:, 0]
        return length, tf.nest.map_structure(lambda x: tf.gather(x, live), rows), found

    _, _, found = _while(
        searching, search_on, (tf.constant(0), rows, _no_hypotheses(batch, options.finished))
    )
    if options.finished > options.n_best:
        found = Hypotheses(*(tensor[:, : options.n_best] for tensor in found))
    if row_options is not None:
        kept = tf.range(options.n_best) < row_options["n_best"][:, None]
        found = Hypotheses(
            tf.where(kept[..., None], found.tokens, padding_id),
            tf.where(kept, found.scores, NO_HYPOTHESIS),
            tf.where(kept, found.lengths, 0),
        )
    return found


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


def _first_log_probs(batch, beams, widths, options):
    log_probs = tf.zeros((batch, beams))
    if not options.samples:  # All beams begin alike: only the first may continue.
        log_probs += tf.one_hot(0, beams, on_value=0.0, off_value=NO_HYPOTHESIS)
    elif widths is not None:  # A row's own beams alone: of more, it would keep the most probable.
        log_probs = tf.where(tf.range(beams) < widths[:, None], log_probs, NO_HYPOTHESIS)
    return log_probs


def _no_hypotheses(batch, n_best):
    return Hypotheses(
        _empty(batch, n_best),
        tf.fill((batch, n_best), NO_HYPOTHESIS),
        tf.zeros((batch, n_best), tf.int32),
    )


def _continuations(logits, length, rows, beams, options, normalize, ids):
    """The continuations to choose from, `[rows, count]`."""
    # Otherwise only the best tokens, and those of the prefix, are normalized.
    if options.alters or (options.renormalize and rows.prefix):
        logits, normalize = tf.nn.log_softmax(logits) if normalize else logits, False
    values = _penalize_repetitions(logits, rows.tokens, options.repetition_penalty)
    values = _forbid_repeats(values, rows.tokens, options.no_repeat_ngram_size)
    banned = tf.constant([*ids.forbidden, ids.eos], tf.int32)
    banned = tf.where(length + 1 < options.min_length, banned, tf.concat([banned[:-1], [-1]], 0))
    if options.renormalize:
        struck_out = tf.one_hot(banned, _vocab_size(values), dtype=tf.float32)
        struck_out = tf.reduce_max(struck_out, axis=0)
        values, normalize = tf.nn.log_softmax(values + NO_HYPOTHESIS * struck_out), False
    normalizer = 0.0
    if options.samples:
        found = _samples(values, rows, beams, banned, length, options)
    else:
        # Twice the beams are enough, since at most one continuation per beam ends.
        most = 2 * options.beams + banned.shape[0]
        found, normalizer = _best_continuations(
            values, rows.log_probs, banned, beams, most, normalize
        )
    if options.force_end:
        ends = tf.fill(tf.shape(rows.log_probs), ids.eos)
        found = _instead(found, rows.log_probs, ends, length + 1 >= rows.max_length, beams)
    if rows.prefix:
        found = _with_prefix(found, logits, normalizer, rows, beams, length)
    return found


def _choose(rows, continuations, length, beams, options, ids):
    """Sets aside the continuations that end; the best of the others live on.

    Returns:
        The rows, and the parent beam of each of their hypotheses, int32 `[rows, beams]`.
    """
    log_probs, parents, last = continuations
    tokens = tf.gather(rows.tokens, parents, batch_dims=1)
    tokens = tf.concat([tokens, last[..., None]], axis=-1)  # [rows, count, length]
    penalty = rows.own[0]["length_penalty"] if rows.own else options.length_penalty

    full = length >= rows.max_length  # [rows]
    ends = (last == ids.eos) | full[:, None]
    finished = _set_aside(
        rows.finished,
        ids.padding,
        tokens[:, :beams],
        log_probs[:, :beams] / (tf.cast(length, tf.float32) ** penalty)[..., None],
        ends[:, :beams] & _alive(log_probs[:, :beams], rows, options) & ~rows.done[:, None],
    )
    log_probs, chosen = tf.math.top_k(tf.where(last == ids.eos, NO_HYPOTHESIS, log_probs), beams)
    log_probs = tf.where(_alive(log_probs, rows, options), log_probs, NO_HYPOTHESIS)
    over = _is_over(log_probs[:, 0], finished.scores, length, penalty, rows, options)
    hopeless = over | (log_probs[:, 0] <= NO_HYPOTHESIS / 2)
    parents = tf.gather(parents, chosen, batch_dims=1)
    rows = rows._replace(
        tokens=tf.gather(tokens, chosen, batch_dims=1),
        ancestors=tf.gather(rows.ancestors, parents, batch_dims=1),
        log_probs=log_probs,
        finished=finished,
        done=rows.done | full | hopeless,
    )
    return rows, parents


def _is_over(best, finished, length, penalty, rows, options):
    """Which rows are done, given their finished scores and the best live log-probability."""
    worst = finished[:, -1]
    if rows.own:
        deciding = own = rows.own[0]["n_best"]
        if not options.exhaustive:
            several = tf.cast(rows.own[0]["beam_size"], tf.float32) * options.patience
            deciding = tf.maximum(own, tf.cast(tf.floor(several + 0.5), tf.int32))
        worst = tf.gather(finished, deciding - 1, batch_dims=1)
    if options.early_stopping is True and not options.exhaustive:
        return worst > NO_HYPOTHESIS / 2
    # The best score that a live hypothesis can reach: at the greatest length, at no further cost.
    longest = tf.cast(rows.max_length if options.exhaustive else length, tf.float32)
    return worst >= best / longest**penalty


def _alive(log_probs, rows, options):
    """Which of the best `[rows, beams]` are possible, and within their row's own beam."""
    alive = log_probs > NO_HYPOTHESIS / 2
    if rows.own:
        widths = rows.own[0]["n_best" if options.samples else "beam_size"]
        alive &= tf.range(tf.shape(log_probs)[1]) < widths[:, None]
    return alive


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
    own = tf.expand_dims(ancestors, -1) == tf.range(beams)  # [rows, beams, length, beams]
    return tf.reshape(own, (rows, beams, length * beams))


def _best_continuations(values, log_probs, banned, beams, most, normalize):
    """The best continuations of all beams, twice as many as there are beams, and the normalizer.

    The normalizer, `[rows, beams, 1]` or 0, is subtracted from the values to get log-probabilities.

    The best of each beam are taken first, since the vocabulary is large and the beams are few.
    `banned` tokens are struck out afterwards, so a few more are taken: `most`, which is enough for
    the greatest number of beams.
    """
    rows, count = tf.shape(values)[0], 2 * beams
    each = most if values.shape[-1] is None else min(most, values.shape[-1])
    best, tokens = _top_k(values, each)  # [rows, beams, each]
    normalizer = _log_normalizer(values, best, tokens) if normalize else 0.0
    best -= normalizer
    best = _possible(best + log_probs[..., None])
    is_banned = tf.reduce_any(tf.expand_dims(tokens, -1) == banned, axis=-1)
    best = tf.where(is_banned, NO_HYPOTHESIS, best)
    best = tf.reshape(best, (rows, beams * each))
    # A small vocabulary may not have enough continuations.
    missing = (max if isinstance(beams, int) else tf.maximum)(0, count - beams * each)
    best = tf.pad(best, ((0, 0), (0, missing)), constant_values=NO_HYPOTHESIS)
    best, chosen = tf.math.top_k(best, count)
    chosen = tf.minimum(chosen, beams * each - 1)
    last = tf.gather(tf.reshape(tokens, (rows, beams * each)), chosen, batch_dims=1)
    return _Continuations(best, chosen // each, last), normalizer


def _possible(log_probs):
    # NaN comes from a beam all of whose logits are -inf, or from a model that has diverged.
    return tf.where(log_probs > NO_HYPOTHESIS, log_probs, NO_HYPOTHESIS)


def _top_k(values, count, longest=64):
    """`tf.math.top_k`, computed only in the chunks of the last axis with the greatest maxima.

    No other chunk can hold one of the best values, so most of the vocabulary costs no more than a
    maximum. Within those chunks the same is done with shorter ones. For values of -inf, and if
    there are fewer than `count`, another index and the dtype's least value may be returned.
    """
    size, uneven = _vocab_size(values), True
    if isinstance(size, int):
        chunk = next((c for c in range(longest, longest // 2, -1) if size % c == 0), longest)
        chunks, uneven = -(-size // chunk), size % chunk > 0
        if chunk == 1 or chunks < 2 * count:
            return tf.math.top_k(values, count)
    else:
        chunk, chunks = longest, tf.maximum(-(-size // longest), count)
    if uneven:
        missing = chunks * chunk - size
        lowest = values.dtype.min
        values = tf.pad(values, ((0, 0), (0, 0), (0, missing)), constant_values=lowest)
    rows, beams = tf.unstack(tf.shape(values)[:2])
    values = tf.reshape(values, (rows, beams, chunks, chunk))
    _, chosen = tf.math.top_k(tf.reduce_max(values, axis=-1), count)  # [rows, beams, count]
    values = tf.gather(values, chosen, batch_dims=2)  # [rows, beams, count, chunk]
    values = tf.reshape(values, (rows, beams, count * chunk))
    best, place = _top_k(values, count, longest // 8)
    chosen = tf.gather(chosen, place // chunk, batch_dims=2)
    place = chosen * chunk + place % chunk
    if uneven:  # The padding is greater than -inf.
        place = tf.minimum(place, size - 1)
    return best, place


def _vocab_size(values):
    """The size of the last axis: an int, or a scalar tensor if it is not static."""
    return tf.shape(values)[-1] if values.shape[-1] is None else values.shape[-1]


def _log_normalizer(logits, best, tokens):
    """`logsumexp(logits)`, `[rows, beams, 1]`, from the probability of the best token.

    oneDNN computes softmax as one vectorized operation, which is faster than logsumexp.
    """
    probability = tf.gather(tf.nn.softmax(logits), tokens[..., :1], batch_dims=2)
    return best[..., :1] - tf.math.log(probability)


def _samples(log_probs, rows, beams, banned, length, options):
    """Samples a continuation of each beam, by the Gumbel-max trick on the log-probabilities."""
    vocab_size = log_probs.shape[-1]
    is_banned = tf.reduce_any(tf.range(vocab_size)[:, None] == banned, axis=-1)
    # Below any log-probability, whatever the temperature.
    lowest = log_probs.dtype.min
    values = tf.where(is_banned, lowest, log_probs / options.temperature)
    if options.top_k:
        values = _keep(values, tf.math.top_k(values, min(options.top_k, vocab_size))[0][..., -1:])
    if options.top_p < 1:
        ranked = tf.math.top_k(values, vocab_size)[0]
        before = tf.cumsum(tf.nn.softmax(ranked), axis=-1, exclusive=True)
        worst = tf.reduce_min(
            tf.where(before < options.top_p, ranked, ranked[..., :1]), axis=-1, keepdims=True
        )
        values = _keep(values, worst)
    uniform = _uniform(options.seed, rows.seeds[0], length, beams, vocab_size)
    chosen = tf.argmax(values - tf.math.log(-tf.math.log(uniform)), axis=-1, output_type=tf.int32)
    drawn = tf.gather(log_probs, chosen, batch_dims=2) + rows.log_probs
    # It may be that all tokens that are not banned are impossible.
    drawn = tf.where(tf.gather(values, chosen, batch_dims=2) > lowest, drawn, NO_HYPOTHESIS)
    return _Continuations(drawn, _own_beams(drawn), chosen)


def _keep(values, worst):
    return tf.where(values >= worst, values, values.dtype.min)


def _uniform(seed, row_seeds, length, beams, vocab_size):
    """Random numbers in (0, 1), `[rows, beams, vocab_size]`, from each row's own seed.

    TensorFlow's stateless generators take one seed for a whole tensor, so that a row's numbers
    would depend on its place in the batch. These are a hash of both seeds, the position, the beam
    and the token.
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


def _own_beams(log_probs):
    # [rows, beams]: 0, 1, 2, ...
    return tf.broadcast_to(tf.range(tf.shape(log_probs)[1]), tf.shape(log_probs))


def _with_prefix(continuations, logits, normalizer, rows, beams, length):
    """The continuations; within the prefix, each beam continues with the prefix's token instead."""
    prefix, prefix_length = rows.prefix
    token = tf.pad(prefix, ((0, 0), (0, 1)))  # [rows, prefix_length + 1]
    token = tf.gather(token, tf.minimum(length, tf.shape(prefix)[1]), axis=1)  # [rows]
    last = tf.broadcast_to(token[:, None], tf.shape(rows.log_probs))  # [rows, beams]
    given = (tf.gather(logits, last[..., None], batch_dims=2) - normalizer)[..., 0]
    if rows.forced:
        given = tf.where((length < rows.forced[0])[:, None], 0.0, given)
    given = _possible(given + rows.log_probs)
    return _instead(continuations, given, last, length < prefix_length, beams)


def _instead(continuations, log_probs, tokens, chosen, beams):
    """The continuations; in the `chosen` rows, each beam only with its one token in `tokens`."""
    missing = ((0, 0), (0, tf.shape(continuations.tokens)[1] - beams))
    given = _Continuations(
        tf.pad(log_probs, missing, constant_values=NO_HYPOTHESIS),
        tf.pad(_own_beams(log_probs), missing),
        tf.pad(tokens, missing),
    )
    chosen = chosen[:, None]
    return tf.nest.map_structure(
        lambda given, free: tf.where(chosen, given, free), given, continuations
    )


def _penalize_repetitions(log_probs, tokens, penalty):
    """Multiplies the log-probabilities of tokens that a hypothesis already has by the penalty."""
    if penalty == 1.0:
        return log_probs
    penalized = tf.gather(log_probs, tokens, batch_dims=2) * penalty
    return tf.tensor_scatter_nd_update(log_probs, _places(tokens), penalized)


def _forbid_repeats(log_probs, tokens, size):
    """Strikes out the tokens that would repeat a sequence of `size` tokens."""
    if not size:
        return log_probs
    length = tf.shape(tokens)[2]
    before = size - 1
    windows = tf.maximum(length - before, 0)  # Number of windows of `size` tokens.
    last = tokens[..., tf.maximum(length - before, 0) :]
    repeated = tf.ones_like(tokens[..., :windows], tf.bool)
    for i in range(before):
        repeated &= tokens[..., i : i + windows] == last[..., i : i + 1]
    followers = tokens[..., before : before + windows]
    # A token may follow several windows: the least of its values holds.
    values = tf.where(repeated, NO_HYPOTHESIS, log_probs.dtype.max)
    return tf.tensor_scatter_nd_min(log_probs, _places(followers), values)


def _places(tokens):
    # Tokens [rows, beams, n] -> [rows, beams, n, 3]: their indices in [rows, beams, vocab_size]
    rows, beams, _ = tf.unstack(tf.shape(tokens))
    row = tf.broadcast_to(tf.range(rows)[:, None, None], tf.shape(tokens))
    beam = tf.broadcast_to(tf.range(beams)[:, None], tf.shape(tokens))
    return tf.stack([row, beam, tokens], -1)


def _set_aside(finished, padding_id, tokens, scores, ended):
    """The best of the finished hypotheses and of the new ones that ended."""
    length = tf.fill(tf.shape(scores), tf.shape(tokens)[2])
    kept = tf.pad(finished.tokens, ((0, 0), (0, 0), (0, 1)), constant_values=padding_id)
    scores = tf.concat([finished.scores, tf.where(ended, scores, NO_HYPOTHESIS)], axis=1)
    scores, chosen = tf.math.top_k(scores, finished.scores.shape[1])
    return Hypotheses(
        tf.gather(tf.concat([kept, tokens], axis=1), chosen, batch_dims=1),
        scores,
        tf.gather(tf.concat([finished.lengths, length], axis=1), chosen, batch_dims=1),
    )


def _collect(found, rows, padding_id):
    """The hypotheses found for the whole batch, updated with those of these rows."""
    longer = tf.shape(rows.finished.tokens)[2] - tf.shape(found.tokens)[2]
    longer = tf.pad(found.tokens, ((0, 0), (0, 0), (0, longer)), constant_values=padding_id)
    # By a gather: LiteRT has no dynamic_stitch, and tokens without a length cannot be scattered.
    batch = tf.shape(found.scores)[0]
    places = batch + tf.range(tf.size(rows.index))
    order = tf.tensor_scatter_nd_update(tf.range(batch), tf.expand_dims(rows.index, 1), places)
    found = tf.nest.map_structure(
        lambda before, now: tf.gather(tf.concat([before, now], axis=0), order),
        found._replace(tokens=longer),
        rows.finished,
    )
    # A place without a hypothesis holds the tokens of one that did not end.
    there = found.scores > NO_HYPOTHESIS
    return Hypotheses(
        tf.where(there[..., None], found.tokens, padding_id),
        found.scores,
        tf.where(there, found.lengths, 0),
    )


def _while(condition, body, state):
    """`tf.while_loop` over tensors whose first axis may shrink and whose empty axes may grow."""

    def shape(tensor):
        if tensor.shape.rank == 0:
            return tensor.shape
        return tf.TensorShape([None, *(size or None for size in tensor.shape[1:])])

    invariants = tf.nest.map_structure(shape, state)
    return tf.while_loop(condition, body, state, shape_invariants=invariants)
