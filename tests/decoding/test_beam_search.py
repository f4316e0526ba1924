import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mt.decoding import NO_HYPOTHESIS, beam_search

START, END, FORBIDDEN = 2, 3, (0, 2)


class RandomModel:
    """Random logits for each prefix: a model whose every probability a test can look up."""

    def __init__(self, seed, vocab_size, batch, sharpness=1.5):
        self.seed, self.vocab_size, self.batch, self.sharpness = seed, vocab_size, batch, sharpness

    def logits(self, row, prefix):
        generator = np.random.default_rng([self.seed, row, *prefix])
        return (self.sharpness * generator.normal(size=self.vocab_size)).astype("float32")

    def log_probs(self, row, prefix):
        logits = self.logits(row, prefix).astype("float64")
        return logits - np.log(np.exp(logits).sum())

    def step(self, tokens, position, cache, mask):
        """As a decoder sees it: it knows only what stands in the cache, and its mask."""
        beams = tokens.shape[1]
        cache = tf.concat([cache, tokens], axis=1)  # [batch, (position + 1) * beams]
        if mask is None:
            mask = tf.ones((tf.shape(tokens)[0], 1, tf.shape(cache)[1]), tf.bool)

        def look_up(cache, mask):
            return np.stack(
                [
                    [self.logits(row, cache[row][mask[row, beam]][1:]) for beam in range(beams)]
                    for row in range(len(cache))
                ]
            )

        logits = tf.numpy_function(look_up, [cache, mask], tf.float32)
        logits.set_shape((None, beams, self.vocab_size))
        return logits, cache

    def search(self, max_length, **options):
        cache = tf.zeros((self.batch, 0), tf.int32)
        found = beam_search(self.step, cache, tf.constant(max_length), **options)
        hypotheses = []
        for tokens, scores in zip(found.tokens.numpy(), found.scores.numpy(), strict=True):
            rows = [[int(t) for t in row if t] for row in tokens]
            hypotheses.append([(s, row) for s, row in zip(scores, rows, strict=True)])
        return hypotheses


def every_hypothesis(model, row, max_length, min_length, penalty):
    """Every sequence the model can end with, by enumeration, best first."""
    allowed = [t for t in range(model.vocab_size) if t not in FORBIDDEN]
    found = []
    for length in range(1, max_length + 1):
        for tokens in itertools.product(allowed, repeat=length):
            ends = tokens[-1] == END
            if END in tokens[:-1] or (not ends and length < max_length):
                continue
            if ends and length < min_length:
                continue
            log_prob = sum(model.log_probs(row, tokens[:i])[t] for i, t in enumerate(tokens))
            found.append((log_prob / length**penalty, list(tokens)))
    return sorted(found, reverse=True)


def reference_search(model, row, max_length, beam_size, n_best, min_length, penalty):
    """The same algorithm in plain Python: lists, one row, no stopping before the end."""
    live, finished = [(0.0, [])], []
    for length in range(1, max_length + 1):
        candidates = sorted(
            (
                (log_prob + model.log_probs(row, prefix)[token], [*prefix, token])
                for log_prob, prefix in live
                for token in range(model.vocab_size)
                if token not in FORBIDDEN and not (token == END and length < min_length)
            ),
            reverse=True,
        )
        for log_prob, tokens in candidates[:beam_size]:
            if tokens[-1] == END or length == max_length:
                finished.append((log_prob / length**penalty, tokens))
        live = [c for c in candidates if c[1][-1] != END][:beam_size]
    return sorted(finished, reverse=True)[:n_best]


def assert_same(found, expected):
    found = [(score, tokens) for score, tokens in found if score > NO_HYPOTHESIS]
    assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
    np.testing.assert_allclose([s for s, _ in found], [s for s, _ in expected], atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(4, 6),
    max_length=st.integers(1, 4),
    min_length=st.integers(0, 3),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    n_best=st.integers(1, 5),
)
def test_a_beam_as_wide_as_the_space_is_exact(
    seed, vocab_size, max_length, min_length, penalty, n_best
):
    model = RandomModel(seed, vocab_size, batch=1)
    expected = every_hypothesis(model, 0, max_length, min_length, penalty)
    found = model.search(
        [max_length],
        beam_size=(vocab_size - 2) ** max_length + n_best,
        n_best=n_best,
        min_length=min_length,
        length_penalty=penalty,
    )
    assert_same(found[0], expected[:n_best])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(5, 12),
    max_lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    min_length=st.integers(0, 3),
    beam_size=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    data=st.data(),
)
def test_a_narrow_beam_equals_the_plain_reference(
    seed, vocab_size, max_lengths, min_length, beam_size, penalty, data
):
    n_best = data.draw(st.integers(1, beam_size))
    model = RandomModel(seed, vocab_size, batch=len(max_lengths))
    found = model.search(
        max_lengths,
        beam_size=beam_size,
        n_best=n_best,
        min_length=min_length,
        length_penalty=penalty,
    )
    for row, max_length in enumerate(max_lengths):
        expected = reference_search(model, row, max_length, beam_size, n_best, min_length, penalty)
        assert_same(found[row], expected)


def test_the_search_stops_when_nothing_live_can_win():
    # After the start the end is nearly certain; a model that is asked once more would fail.
    def step(tokens, position, cache, mask):
        if position > 0:
            raise AssertionError("searched on")
        return tf.tile(tf.constant([[[0.0, 0, 0, 20, 1, 0]]]), (1, 2, 1)), cache

    found = beam_search(step, (), [50], beam_size=2)
    assert found.tokens.numpy().tolist() == [[[END]]]


def test_the_search_goes_on_while_a_longer_hypothesis_may_win():
    # The end now costs log(0.4); one more sure token halves that with length_penalty 1.
    def step(tokens, position, cache, mask):
        first = tf.math.log([1e-9, 1e-9, 1e-9, 0.45, 0.55, 1e-9])
        then = tf.math.log([1e-9, 1e-9, 1e-9, 0.999, 1e-9, 1e-9])
        return tf.tile((first if position == 0 else then)[None, None], (1, 2, 1)), cache

    found = beam_search(step, (), [10], beam_size=2, n_best=2, length_penalty=1.0)
    assert found.tokens.numpy().tolist() == [[[4, END], [END, 0]]]


def test_a_row_with_maximum_length_zero_generates_nothing():
    model = RandomModel(0, 8, batch=2)
    found = model.search([0, 4], beam_size=3)
    assert found[0] == [(NO_HYPOTHESIS, [])]
    assert found[1][0][1]


def test_an_empty_batch_is_an_empty_answer():
    found = beam_search(
        RandomModel(0, 8, 0).step, tf.zeros((0, 0), tf.int32), tf.zeros(0, tf.int32)
    )
    assert found.tokens.shape[:2] == (0, 1) and found.scores.shape == (0, 1)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 2, "n_best": 3}, "n_best"),
        ({"n_best": 0}, "n_best"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"min_length": -1}, "min_length"),
    ],
)
def test_impossible_options_are_refused_by_name(options, name):
    with pytest.raises(ValueError, match=name):
        beam_search(None, (), [5], **options)
