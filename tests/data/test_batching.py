import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Tokenizer
from keras_mt.data import Batches

random = np.random.default_rng(0)
WORDS = ["red", "old", "book", "cup", "dog", "table", "chair", "bed"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([" ".join(WORDS)] * 20, vocab_size=300)


@pytest.fixture(scope="module")
def texts(tokenizer):
    """Pairs of random lengths, some blank, some too long for 24 tokens."""
    lengths = random.integers(0, 16, (700, 2))
    return [tuple(" ".join(random.choice(WORDS, n)) for n in row) for row in lengths]


def dataset(texts):
    return tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*texts, strict=True))))


def batches(texts, tokenizer, **options):
    return Batches(
        dataset(texts), tokenizer, **{"tokens_per_batch": 96, "max_length": 24, **options}
    )


def pairs_of(data):
    """The pairs in the batches, as tuples of ids, and the shapes."""
    pairs, shapes = [], []
    for inputs, labels in data:
        sides = [side.numpy() for side in (inputs["source"], inputs["target"], labels)]
        assert len({side.shape for side in sides}) == 1
        assert {side.dtype for side in sides} == {np.dtype("int32")}
        shapes.append(sides[0].shape)
        for rows in zip(*sides, strict=True):
            s, t, own = (row[row != 0].tolist() for row in rows)
            if s:
                assert s[-1] == own[-1] == 3 and t == [2, *own[:-1]]
                pairs.append((tuple(s[:-1]), tuple(own[:-1])))
            else:
                assert not t and not own
    return pairs, shapes


def expected_pairs(texts, tokenizer, max_length):
    kept = []
    for source, target in texts:
        pair = tuple(tuple(tokenizer.tokenize(t).numpy().tolist()) for t in (source, target))
        if min(map(len, pair)) > 0 and max(map(len, pair)) + 1 <= max_length:
            kept.append(pair)
    return kept


@pytest.mark.parametrize("seed", [None, 7])
def test_every_pair_comes_once_and_the_rest_is_counted(texts, tokenizer, seed):
    data = batches(texts, tokenizer, seed=seed)
    found, shapes = pairs_of(data.epoch(0))
    expected = expected_pairs(texts, tokenizer, 24)
    assert sorted(found) == sorted(expected)
    counts = data.counts
    assert counts.pairs == len(expected)
    assert counts.blank == sum(not (s and t) for s, t in texts) > 0
    assert counts.too_long == len(texts) - counts.pairs - counts.blank > 0
    assert counts.source_tokens == sum(len(s) + 1 for s, _ in expected)
    assert counts.target_tokens == sum(len(t) + 1 for _, t in expected)
    assert counts.batches == len(shapes) == data.epoch(0).cardinality().numpy()
    assert f"{counts.too_long} longer than 24 tokens, {counts.blank} blank" in str(counts)


def test_few_shapes_under_the_budget_and_little_waste(texts, tokenizer):
    _, shapes = pairs_of(batches(texts, tokenizer, seed=1).epoch(0))
    assert {length for _, length in shapes} <= {8, 12, 16, 20, 24}
    assert len(set(shapes)) <= 5
    assert all(96 - length < rows * length <= 96 for rows, length in shapes)


def test_rows_stand_in_the_bucket_of_their_longer_side(texts, tokenizer):
    for inputs, labels in batches(texts, tokenizer).epoch(0):
        length = labels.shape[1]
        longest = np.maximum((inputs["source"] != 0).numpy().sum(1), (labels != 0).numpy().sum(1))
        longest = longest[longest > 0]
        assert longest.max() <= length and (length == 8 or longest.min() > length - 4)


def test_order_depends_on_seed_and_epoch_alone(texts, tokenizer):
    def order(seed, epoch):
        return pairs_of(batches(texts, tokenizer, seed=seed).epoch(epoch))[0]

    first = order(1, 0)
    keras.utils.set_random_seed(123)
    assert order(1, 0) == first
    assert order(1, 1) != first and order(2, 0) != first
    keras.utils.set_random_seed(0)
    assert order(0, 0) != order(0, 1)


def test_without_a_seed_the_corpus_keeps_its_order(tokenizer):
    texts = [(f"{a} {b}",) * 2 for a in WORDS for b in WORDS]
    found, _ = pairs_of(batches(texts, tokenizer).epoch(0))
    lengths = [max(map(len, pair)) for pair in found]
    assert [p for p, n in zip(found, lengths, strict=True) if n < 8] == [
        p for p in expected_pairs(texts, tokenizer, 24) if max(map(len, p)) < 8
    ]


@pytest.mark.parametrize("start", [0, 1, 17])
def test_the_stream_goes_on_from_any_step(texts, tokenizer, start):
    data = batches(texts, tokenizer, seed=3)
    size = data.counts.batches
    whole = [labels.numpy() for _, labels in data.epoch(0)]
    whole += [labels.numpy() for _, labels in data.epoch(1)]
    streamed = [labels.numpy() for _, labels in data.stream(start).take(len(whole) - start)]
    for a, b in zip(whole[start:], streamed, strict=True):
        np.testing.assert_array_equal(a, b)
    _, labels = next(iter(data.stream(size)))
    np.testing.assert_array_equal(labels, whole[size])


@pytest.mark.parametrize("options", [{"max_length": 1}, {"max_length": 97}])
def test_a_budget_that_holds_no_sentence_is_refused(texts, tokenizer, options):
    with pytest.raises(ValueError, match="max_length"):
        batches(texts, tokenizer, **options)


def test_partial_batches_are_mixed_among_the_others(tokenizer):
    texts = [(" ".join((WORDS * 2)[:n]),) * 2 for n in range(1, 12) for _ in range(9)]
    data = batches(texts, tokenizer, seed=5)
    tails = [[length for _, length in pairs_of(data.epoch(n))[1]][-4:] for n in range(3)]
    assert any(tail != sorted(tail) for tail in tails)


def test_a_corpus_without_a_usable_pair_is_refused(tokenizer):
    data = batches([("red", ""), ("", "old")], tokenizer)
    assert data.counts.pairs == 0 and list(data.epoch(0)) == []
    with pytest.raises(ValueError, match=r"nothing to batch: 0 pairs.* 2 blank"):
        data.stream()
