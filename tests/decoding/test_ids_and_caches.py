"""What a search takes from a model and a tokenizer of any kind: ids, caches, forced tokens."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from test_beam_search import RandomModel

from keras_mt.decoding import NO_HYPOTHESIS, beam_search

VOCAB = 6
# Padding the last and the start the padding, as in Marian; the start is the end, as in M2M-100.
IDS = {
    "marian": {"bos_id": 5, "eos_id": 0, "padding_id": 5},
    "m2m": {"bos_id": 2, "eos_id": 2, "padding_id": 1},
}


def every_hypothesis(model, row, max_length, ids, forced=()):
    """All that may be generated, best first: scores of what is not forced over the whole length."""
    allowed = [t for t in range(VOCAB) if t not in {ids["bos_id"], ids["padding_id"]}]
    allowed += [ids["eos_id"]] if ids["eos_id"] not in allowed else []
    found = []
    for length in range(len(forced), max_length + 1):
        for rest in itertools.product(allowed, repeat=length - len(forced)):
            tokens = [*forced, *rest]
            ends = bool(rest) and rest[-1] == ids["eos_id"]
            if not tokens or ids["eos_id"] in rest[:-1] or (not ends and length < max_length):
                continue
            log_probs = [model.log_probs(row, tokens[:i])[t] for i, t in enumerate(tokens)]
            found.append((sum(log_probs[len(forced) :]) / length, tokens))
    return sorted(found, reverse=True)


def listed(found):
    return [
        [(s, t[:n].tolist()) for t, s, n in zip(*row, strict=True) if s > NO_HYPOTHESIS]
        for row in zip(*(x.numpy() for x in found), strict=True)
    ]


def assert_same(found, expected):
    assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
    np.testing.assert_allclose([s for s, _ in found], [s for s, _ in expected], atol=1e-4)


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("forced", [(), (4,), (4, 3)])
def test_ids_that_coincide_are_told_apart(ids, forced):
    rows, lengths = 6, [2, 3, 4, 2, 3, 4]
    model = RandomModel(11, VOCAB, batch=rows)
    found = beam_search(
        model.step,
        (tf.range(rows), tf.zeros((rows, 0), tf.int32)),
        lengths,
        beam_size=130,
        n_best=7,
        prefix=tf.constant([forced] * rows, tf.int32) if forced else None,
        forced_length=len(forced),
        **ids,
    )
    for row, (own, length) in enumerate(zip(listed(found), lengths, strict=True)):
        assert_same(own, every_hypothesis(model, row, length, ids, forced)[:7])
    padding = ~tf.sequence_mask(found.lengths, tf.shape(found.tokens)[2]).numpy()
    assert padding.any() and (found.tokens.numpy()[padding] == ids["padding_id"]).all()


class ReorderedModel(RandomModel):
    """Keeps its hypotheses' tokens in a cache that follows them, and heeds no mask."""

    def step(self, tokens, position, cache, mask):
        rows, history = cache
        history = tf.concat([history, tokens[..., None]], axis=2)  # [rows, beams, position + 1]

        def look_up(rows, history):
            pairs = zip(rows, history, strict=True)
            found = [[self.logits(row, h[1:]) for h in own] for row, own in pairs]
            return np.reshape(found, (*history.shape[:2], self.vocab_size)).astype("float32")

        logits = tf.numpy_function(look_up, [rows, history], tf.float32)
        logits.set_shape((None, None, self.vocab_size))
        return logits, (rows, history)

    @staticmethod
    def reorder(cache, parents):
        return cache[0], tf.gather(cache[1], parents, batch_dims=1)


def test_a_cache_that_follows_its_hypotheses_finds_what_a_masked_one_does():
    rows, beams = 5, 4
    options = {"beam_size": beams, "n_best": 3, "length_penalty": 0.6}
    masked, lengths = RandomModel(5, 9, rows), [3, 6, 6, 5, 1]
    expected = listed(
        beam_search(
            masked.step, (tf.range(rows), tf.zeros((rows, 0), tf.int32)), lengths, **options
        )
    )
    model = ReorderedModel(5, 9, rows)
    cache = tf.range(rows), tf.zeros((rows, beams, 0), tf.int32)
    found = beam_search(model.step, cache, lengths, reorder=model.reorder, **options)
    for own, other in zip(listed(found), expected, strict=True):
        assert_same(own, other)
    unordered = listed(beam_search(model.step, cache, lengths, **options))
    pairs = zip(unordered, expected, strict=True)
    assert any([t for _, t in a] != [t for _, t in b] for a, b in pairs)


def first_tokens(row_seeds, vocab_size=200, **options):
    def step(tokens, position, cache, mask):
        return tf.zeros((*tokens.shape, vocab_size)), cache

    found = beam_search(
        step, (), [1] * len(row_seeds), row_seeds=row_seeds, temperature=1.0, **options
    )
    return found.tokens.numpy()[..., 0]


def test_each_row_draws_noise_of_its_own():
    # 400 even draws of 200 tokens but two: of each token some two, and of 13% none.
    drawn = first_tokens(range(400))[:, 0]
    assert 150 < len(set(drawn)) < 190
    counts = np.bincount(drawn, minlength=200)[np.setdiff1d(np.arange(200), [0, 2])]
    assert np.mean(counts) == pytest.approx(400 / 198) and 1.2 < np.var(counts) < 3.0
    # Neighbours are independent, as are the samples of one row.
    pairs = first_tokens(range(400), n_best=2)
    assert np.mean(pairs[:, 0] == pairs[:, 1]) < 0.03
    assert np.mean(pairs[1:, 0] == pairs[:-1, 0]) < 0.03


def test_noise_is_the_rows_own_wherever_it_stands():
    together = first_tokens([7, 8, 9, 7], n_best=3).tolist()
    assert together[0] == together[3] and together[0] != together[1]
    assert first_tokens([9], n_best=3).tolist() == together[2:3]
    assert first_tokens([9], n_best=3, seed=1).tolist() != together[2:3]
    # More samples of a row begin with the same ones.
    assert set(first_tokens([9], n_best=2)[0]) <= set(first_tokens([9], n_best=3)[0])
