import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mt.decoding import NO_HYPOTHESIS, Constraints, beam_search
from keras_mt.errors import InputError

START, END, FORBIDDEN = 2, 3, (0, 2)


def bigrams(seed, vocab_size, batch):
    """Log-probabilities `[batch, before, next]` of a random model of pairs of tokens."""
    logits = np.random.default_rng(seed).normal(size=(batch, vocab_size, vocab_size)) * 1.5
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype("float32")


def search(table, max_length, terms=None, attention=None, continues_word=None, source=None, **kw):
    """The hypotheses of each row, (score, tokens); terms are lists of lists for each row."""

    def step(tokens, position, cache, mask):
        return tf.gather(cache["table"], tokens, batch_dims=1), cache

    if terms is not None:
        terms = Constraints(padded(terms), source, continues_word)
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


def meets(tokens, terms, continues_word=(), given=0):
    """Whether tokens, of which some are given, hold the terms by the definition in `Constraints`."""
    unmet, free = list(terms), 0  # Tokens before `free` are part of a term already.
    for end in range(1, len(tokens) + 1):
        follows_term = free == end - 1 and free > 0
        if follows_term and end > given and tokens[end - 1] in continues_word:
            return False
        ending = [t for t in unmet if len(t) <= end - free and tokens[end - len(t) : end] == t]
        if ending:
            unmet.remove(max(ending, key=len))
            free = end
    return not unmet


def enumerated(table, row, max_length, terms, prefix=(), continues_word=()):
    """Every sequence that meets the terms, best first."""
    allowed = [t for t in range(table.shape[1]) if t not in FORBIDDEN]
    found = []
    for length in range(1, max_length + 1):
        for tokens in map(list, itertools.product(allowed, repeat=length)):
            if END in tokens[:-1] or (tokens[-1] != END and length < max_length):
                continue
            if tokens[: len(prefix)] != list(prefix)[:length]:
                continue
            if meets(tokens, terms, continues_word, len(prefix)):
                pairs = zip([START, *tokens], tokens, strict=False)
                found.append((sum(table[row, a, b] for a, b in pairs) / length, tokens))
    return sorted(found, reverse=True)


some_terms = st.lists(
    st.lists(st.sampled_from([1, 4, 5]), min_size=1, max_size=3), min_size=0, max_size=3
)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    terms=st.lists(some_terms, min_size=1, max_size=6),
    max_length=st.integers(2, 5),
    prefix=st.lists(st.sampled_from([1, 4]), max_size=2),
    continues_word=st.sets(st.sampled_from([1, 4, 5]), max_size=1),
    n_best=st.integers(1, 4),
)
def test_a_beam_as_wide_as_the_space_finds_the_best_that_meet_the_terms(
    seed, terms, max_length, prefix, continues_word, n_best
):
    table = bigrams(seed, 6, len(terms))
    found = search(
        table,
        [max_length] * len(terms),
        terms,
        continues_word=tf.constant([i in continues_word for i in range(6)]),
        beam_size=4 * 3 ** (max_length - 1),
        n_best=n_best,
        prefix=[prefix] * len(terms) if prefix else None,
    )
    for row, wanted in enumerate(terms):
        expected = enumerated(table, row, max_length, wanted, prefix, continues_word)[:n_best]
        assert [tokens for _, tokens in found[row]] == [tokens for _, tokens in expected]
        np.testing.assert_allclose([s for s, _ in found[row]], [s for s, _ in expected], atol=1e-4)
