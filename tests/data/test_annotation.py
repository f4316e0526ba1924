import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from keras_mt.data import Batches
from keras_mt.data.annotation import Annotator, phrases_of
from keras_mt.data.encoded import Links
from keras_mt.text import Tokenizer

WORDS = ["a", "red", "ball", "and", "the", "blue", "dog", "run", "in", "two", "parks"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([" ".join(WORDS)] * 20, vocab_size=330)


def brute_force(source_words, target_words, links):
    """All pairs of runs of words that no link leaves, with a link within."""
    found = set()
    runs = [
        [(i, j) for i in range(n) for j in range(i + 1, min(i + 3, n) + 1)]
        for n in (source_words, target_words)
    ]
    for a, b in runs[0]:
        for c, d in runs[1]:
            inside = [(a <= i < b, c <= j < d) for i, j in links]
            tight = {j for i, j in links if a <= i < b}
            if all(x == y for x, y in inside) and tight and (min(tight), max(tight)) == (c, d - 1):
                found.add((a, b, c, d))
    return found


@hypothesis.given(
    strategies.integers(1, 6),
    strategies.integers(1, 6),
    strategies.lists(strategies.tuples(strategies.integers(0, 5), strategies.integers(0, 5))),
)
def test_phrases_are_those_that_no_link_leaves(n, m, links):
    links = sorted({(i, j) for i, j in links if i < n and j < m})
    begins = np.ones(50, bool)  # Each token is a word.
    ids = [np.array([*range(10, 10 + k), 3]) for k in (n, m)]
    found = phrases_of(*ids, np.array(links, int).reshape(-1, 2), begins)
    found = [(a.start, a.stop, b.start, b.stop) for a, b in found]
    assert {*found} == brute_force(n, m, links)
    assert len(found) == len({*found})


@pytest.mark.parametrize("step", [1, -1])
def test_a_term_stands_behind_its_words_and_in_the_target(tokenizer, step):
    annotator = Annotator(tokenizer, share=1.0, seed=3)
    words = tokenizer.pieces(tf.constant(WORDS[:7])).to_list()
    ids, own = (np.concatenate([*x, [3]]).astype(np.int32) for x in (words, words[::step]))
    ends = np.cumsum([0, *map(len, words)])
    order = [np.arange(*ends[i : i + 2]) for i in range(len(words))][::step]
    links = np.stack([np.concatenate(order), np.arange(len(ids) - 1)], axis=1)
    begin, end = tokenizer.term_markers
    copied = made_up = 0
    for index in range(80):
        source, target, linked = annotator(ids, own, links, epoch=0, index=index)
        again = annotator(ids, own, links, epoch=0, index=index)
        assert all(
            np.array_equal(*pair) for pair in zip((source, target, linked), again, strict=True)
        )
        starts, ends = np.flatnonzero(source == begin), np.flatnonzero(source == end)
        assert 1 <= len(starts) == len(ends) <= 3
        assert begin not in target and end not in target
        bare = source.copy().tolist()
        for start, stop in reversed([*zip(starts, ends, strict=True)]):
            term = source[start + 1 : stop].tolist()
            windows = [target[i : i + len(term)].tolist() for i in range(len(target))]
            assert term in windows
            assert all(
                (start + 1 + k, windows.index(term) + k) in {*map(tuple, linked.tolist())}
                or windows.count(term) > 1
                for k in range(len(term))
            )
            del bare[start : stop + 1]
            copied += bare[start - len(term) : start] == term
        made_up += not np.array_equal(target, own)
        if np.array_equal(target, own):
            assert bare == ids.tolist()
        # Links are of equal tokens: the target's words, or the term's.
        kept = [(i, j) for i, j in linked.tolist() if source[i] == target[j]]
        assert len(kept) == len(linked)
    assert 20 < made_up < 72 and copied > 40


def test_batches_hold_terms_in_their_share_and_the_same_ones_again(tokenizer):
    texts = [" ".join(np.roll(WORDS, i)) for i in range(11)] * 6
    pairs = tf.data.Dataset.from_tensor_slices((texts, texts))
    batches = Batches(pairs, tokenizer, 400, 100, seed=1)
    encoded = batches.encoded
    length = encoded.lengths[:, 0] - 1
    links = Links(batches.kept, (np.stack([np.arange(n)] * 2, axis=1) for n in length))
    batches = batches.with_links(links, annotator=Annotator(tokenizer, share=0.5))
    marker, rows, annotated = tokenizer.term_markers[0], 0, 0
    for (inputs, labels), (others, _) in zip(batches.epoch(1), batches.epoch(1), strict=True):
        np.testing.assert_array_equal(inputs["source"], others["source"])
        rows += len(labels)
        annotated += int((inputs["source"].numpy() == marker).any(axis=1).sum())
        row, position, at = np.nonzero(inputs["alignment"].numpy())
        source = inputs["source"].numpy()[row, at]
        np.testing.assert_array_equal(source, labels.numpy()[row, position])
    assert 0.35 < annotated / rows < 0.65


def test_a_tokenizer_without_markers_is_refused(tokenizer):
    class Unmarked(Tokenizer):
        def __init__(self, model):
            super().__init__(model)
            self.term_markers = None

    with pytest.raises(ValueError, match="markers"):
        Annotator(Unmarked(tokenizer.model), 0.5)
