import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from keras_mt.decoding import NO_HYPOTHESIS, Constraints, beam_search
from keras_mt.errors import InputError

START, END, FORBIDDEN = 2, 3, (0, 2)


def bigrams(seed, vocab_size, batch, length=8):
    """Log-probabilities `[batch, position, before, next]` of a random model of pairs of tokens."""
    shape = batch, length, vocab_size, vocab_size
    logits = np.random.default_rng(seed).normal(size=shape) * 1.5
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype("float32")


def search(
    table,
    max_length,
    terms=None,
    attention=None,
    continues_word=None,
    source=None,
    unbroken=None,
    **kw,
):
    """The hypotheses of each row, (score, tokens); terms are lists of lists for each row."""

    def step(tokens, position, cache, mask):
        return tf.gather(cache["table"][:, position], tokens, batch_dims=1), cache

    if terms is not None:
        terms = Constraints(padded(terms), source, continues_word, unbroken)
    cache = {"table": tf.constant(table)}
    found = beam_search(
        step, cache, tf.constant(max_length), constraints=terms, attention=attention, **kw
    )
    return [
        [(s, t[:n].tolist()) for s, t, n in zip(*row, strict=True) if s > NO_HYPOTHESIS]
        for row in zip(
            found.scores.numpy(), found.tokens.numpy(), found.lengths.numpy(), strict=True
        )
    ]


def padded(terms):
    count = max(map(len, terms))
    length = max([len(term) for row in terms for term in row] + [1])
    array = np.full((len(terms), count, length), -1, np.int32)
    for i, row in enumerate(terms):
        for j, term in enumerate(row):
            array[i, j, : len(term)] = term
    return array


def meets(tokens, terms, continues_word=(), given=0, unbroken=False):
    """Which of the tokens are a term's, if they hold the terms as `Constraints` says, or None.

    Those of a term that is broken off count too.
    """
    unmet, free = list(terms), 0  # Tokens before `free` are part of a term already.
    of_terms = []
    for end in range(1, len(tokens) + 1):
        follows_term = free == end - 1 and free > 0
        if follows_term and end > given and tokens[end - 1] in continues_word:
            return None
        bound = going_on(tokens[free : end - 1], unmet, 2) if unbroken and end > given else ()
        if bound and tokens[end - 1] not in bound:
            return None
        of_terms.append(tokens[end - 1] in going_on(tokens[free : end - 1], unmet, 0))
        ending = [t for t in unmet if len(t) <= end - free and tokens[end - len(t) : end] == t]
        if ending:
            unmet.remove(max(ending, key=len))
            free = end
    return None if unmet else of_terms


def going_on(tokens, terms, least):
    """The next tokens of the terms of which the last tokens are the first ones, at least some."""
    return {
        term[n]
        for term in terms
        for n in range(least, len(term))
        if tokens[max(len(tokens) - n, 0) :] == term[:n]
    }


def enumerated(table, row, max_length, terms, prefix=(), continues_word=(), unbroken=False):
    """Every sequence that meets the terms, best first."""
    allowed = [t for t in range(table.shape[-1]) if t not in FORBIDDEN]
    found = []
    for length in range(1, max_length + 1):
        for tokens in map(list, itertools.product(allowed, repeat=length)):
            if END in tokens[:-1] or (tokens[-1] != END and length < max_length):
                continue
            if tokens[: len(prefix)] != list(prefix)[:length]:
                continue
            of_terms = meets(tokens, terms, continues_word, len(prefix), unbroken)
            if of_terms is not None:
                pairs = zip([START, *tokens], tokens, strict=False)
                costs = [table[row, i, a, b] for i, (a, b) in enumerate(pairs)]
                counted = [
                    max(cost, -4.0) if of_term else cost
                    for cost, of_term in zip(costs, of_terms, strict=True)
                ]
                found.append((sum(counted) / length, tokens))
    return sorted(found, reverse=True)


def some_terms(most):
    return st.lists(st.lists(st.sampled_from([1, 4, 5]), min_size=1, max_size=3), max_size=most)


@given(
    seed=st.integers(0, 10**6),
    terms=st.lists(some_terms(3), min_size=1, max_size=4),
    max_length=st.integers(2, 4),
    prefix=st.lists(st.sampled_from([1, 4]), max_size=2),
    continues_word=st.sets(st.sampled_from([1, 4, 5]), max_size=1),
    unbroken=st.booleans(),
    n_best=st.integers(1, 4),
)
@example(1, [[[1, 4, 5], [1, 5]], [[4, 4, 4]]], 4, [], set(), True, 4)
@example(2, [[[1, 4, 5]]], 4, [1, 4], set(), True, 4)
def test_a_beam_as_wide_as_the_space_finds_the_best_that_meet_the_terms(
    seed, terms, max_length, prefix, continues_word, unbroken, n_best
):
    table = bigrams(seed, 6, len(terms))
    found = search(
        table,
        [max_length] * len(terms),
        terms,
        continues_word=tf.constant([i in continues_word for i in range(6)]),
        unbroken=tf.fill((len(terms), max(map(len, terms))), unbroken),
        beam_size=4 * 3 ** (max_length - 1),
        n_best=n_best,
        prefix=[prefix] * len(terms) if prefix else None,
    )
    for row, wanted in enumerate(terms):
        expected = enumerated(table, row, max_length, wanted, prefix, continues_word, unbroken)[
            :n_best
        ]
        assert [tokens for _, tokens in found[row]] == [tokens for _, tokens in expected]
        np.testing.assert_allclose([s for s, _ in found[row]], [s for s, _ in expected], atol=1e-4)


@given(
    seed=st.integers(0, 10**6),
    terms=st.lists(some_terms(2), min_size=2, max_size=2),
    beam_size=st.integers(1, 4),
    options=st.sampled_from(
        [
            {},
            {"min_length": 4},
            {"no_repeat_ngram_size": 1},
            {"repetition_penalty": 1.5},
            {"renormalize": True},
            {"force_end": True},
            {"early_stopping": True},
            {"early_stopping": False},
        ]
    ),
)
def test_hypotheses_hold_their_terms_whatever_the_batch(seed, terms, beam_size, options):
    lengths = [sum(map(len, row)) + 3 for row in terms]
    options = {"beam_size": beam_size, "n_best": beam_size, **options}
    table = bigrams(seed, 8, len(terms), length=max(lengths))
    found = search(table, lengths, terms, **options)
    without = search(table, lengths, **options)
    for row, wanted in enumerate(terms):
        assert found[row]
        assert all(meets(tokens, wanted) is not None for _, tokens in found[row])
        alone = search(table[row : row + 1], lengths[row : row + 1], [wanted], **options)[0]
        assert [tokens for _, tokens in found[row]] == [tokens for _, tokens in alone]
        if not wanted:
            assert [tokens for _, tokens in found[row]] == [tokens for _, tokens in without[row]]
            costs = [[score for score, _ in rows[row]] for rows in (found, without)]
            np.testing.assert_allclose(*costs, rtol=1e-6)


def copying(vocab_size=40, other=-3.0):
    """A step that copies its source: the next token is that at the position, then the end."""

    def step(tokens, position, cache, mask):
        length = tf.shape(cache["source"])[1]
        place = tf.minimum(position, length - 1)
        token = tf.where(position < length, cache["source"][:, place], END)
        cost = tf.where(position < length, other, 5 * other)  # Dear, so that nothing is put off.
        logits = tf.one_hot(token, vocab_size, on_value=0.0, off_value=cost)
        logits -= tf.reduce_sum(tf.one_hot([9, 10, 11], vocab_size), axis=0)  # What terms are of.
        attention = tf.one_hot(tf.fill(tf.shape(tokens), place), length)
        logits = tf.repeat(logits[:, None], tf.shape(tokens)[1], axis=1)
        return logits, {**cache, "attention": attention}

    return step


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_term_comes_where_the_attention_is_on_its_source(beam_size):
    source = tf.constant([[4, 5, 6, 7], [8, 4, 5, 6]])
    terms = tf.constant([[[10, -1], [9, -1]], [[11, 10], [-1, -1]]])  # For 6 and 5; for 4 and 5.
    places = np.zeros((2, 2, 4), bool)
    places[0, 0, 2] = places[0, 1, 1] = places[1, 0, 1:3] = True
    cache = {"source": source, "attention": tf.zeros((2, beam_size, 4))}
    found = beam_search(
        copying(),
        cache,
        tf.constant([9, 9]),
        constraints=Constraints(terms, tf.constant(places)),
        attention=lambda cache: cache["attention"],
        beam_size=beam_size,
        length_penalty=0.0,
    )
    assert found.tokens[:, 0, :5].numpy().tolist() == [[4, 9, 10, 7, END], [8, 11, 10, 6, END]]


def test_a_row_without_room_has_no_hypothesis():
    table = bigrams(1, 8, 3)
    terms = [[[4, 5, 6]], [[4, 5, 6]], []]
    found = search(table, [2, 3, 2], terms)
    assert not found[0] and [tokens for _, tokens in found[1]] == [[4, 5, 6]] and found[2]
    assert not search(table, [3, 3, 3], terms, force_end=True)[1]


def test_terms_do_not_go_with_sampling():
    with pytest.raises(InputError, match="temperature"):
        search(bigrams(1, 8, 1), [4], [[[4]]], temperature=1.0)
