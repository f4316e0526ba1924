import os
import warnings
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mt
from keras_mt import Tokenizer
from keras_mt.data import Batches, load_corpus
from keras_mt.data.augmentation import CYCLE, augmented, phase
from keras_mt.options.training import AUGMENTATIONS

random = np.random.default_rng(0)
WORDS = ["red", "old", "book", "cup", "dog", "table", "chair", "bed"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([" ".join(WORDS)] * 20, vocab_size=300)


@pytest.fixture(scope="module")
def texts(tokenizer):
    """Pairs of random lengths, some blank, some too long for 24 tokens."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 16, (400, 2))
    return [tuple(" ".join(generator.choice(WORDS, n)) for n in row) for row in lengths]


def dataset(texts):
    return tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*texts, strict=True))))


def batches(texts, tokenizer, **options):
    return Batches(
        dataset(texts), tokenizer, **{"tokens_per_batch": 96, "max_length": 24, **options}
    )


def pairs_of(data):
    """The pairs in the batches, as tuples of ids, and the shapes of both sides."""
    pairs, shapes = [], []
    for inputs, labels in data:
        sides = [side.numpy() for side in (inputs["source"], inputs["target"], labels)]
        assert sides[1].shape == sides[2].shape and len(sides[0]) == len(sides[1])
        assert {side.dtype for side in sides} == {np.dtype("int32")}
        shapes.append((sides[0].shape, sides[1].shape))
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
    sides = (tokenizer.tokenize(side).to_list() for side in zip(*texts, strict=True))
    for row in zip(*sides, strict=True):
        pair = tuple(map(tuple, row))
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


def test_the_budget_is_kept_and_little_of_it_is_padding(texts, tokenizer):
    data = batches(texts, tokenizer, seed=1)
    _, shapes = pairs_of(data.epoch(0))
    assert all(rows * max(source, target) <= 96 for (rows, source), (_, target) in shapes)
    assert {width % 2 for (_, source), (_, target) in shapes for width in (source, target)} == {0}
    places = sum(rows * (source + target) for (rows, source), (_, target) in shapes)
    tokens = data.counts.source_tokens + data.counts.target_tokens
    assert data.counts.padding == pytest.approx(1 - tokens / places, abs=0.02)


def test_rows_stand_in_the_bucket_of_their_longer_side(texts, tokenizer):
    for inputs, labels in batches(texts, tokenizer).epoch(0):
        longest = np.maximum((inputs["source"] != 0).numpy().sum(1), (labels != 0).numpy().sum(1))
        bucket = np.ceil(np.maximum(longest, 8) / 4)
        assert len(set(bucket)) == 1


def test_no_side_is_wider_than_an_odd_limit(texts, tokenizer):
    made = batches(texts, tokenizer, max_length=15)
    widths = [side.shape[1] for batch, _ in made.epoch(0) for side in batch.values()]
    assert max(widths) == 15  # Batches are of even widths, but for this.


@pytest.mark.long
def test_padding_of_captions_is_under_a_tenth():
    data = os.environ.get("KERAS_MT_DATA")
    if not data:
        pytest.skip("KERAS_MT_DATA names no folder")
    pairs = load_corpus(f"{data}/multi30k_en_de", "en", "de", "validation")
    texts = [text for pair in pairs.as_numpy_iterator() for text in pair]
    tokenizer = Tokenizer.train(texts, vocab_size=2000)
    train = load_corpus(f"{data}/multi30k_en_de", "en", "de", "train")
    counts = Batches(train, tokenizer, tokens_per_batch=4096).counts
    assert counts.pairs == 29_000 and counts.padding < 0.1


def test_order_depends_on_seed_and_epoch_alone(texts, tokenizer):
    def orders(seed, *epochs):
        data = batches(texts[:80], tokenizer, seed=seed)
        return [pairs_of(data.epoch(epoch))[0] for epoch in epochs]

    first, second = orders(1, 0, 1)
    keras.utils.set_random_seed(123)
    assert orders(1, 0) == [first] != orders(2, 0)
    assert first != second
    first, second = orders(0, 0, 1)
    assert first != second


def test_without_a_seed_each_epoch_is_the_same(texts, tokenizer):
    data = batches(texts, tokenizer)
    assert pairs_of(data.epoch(0)) == pairs_of(data.epoch(1))


def test_the_stream_goes_on_from_any_step(texts, tokenizer):
    data = batches(texts, tokenizer, seed=3)
    size = data.counts.batches
    whole = [labels.numpy() for epoch in (0, 1) for _, labels in data.epoch(epoch)]
    for start in (0, 1, size, size + 5):
        streamed = [labels.numpy() for _, labels in data.stream(start).take(len(whole) - start)]
        for a, b in zip(whole[start:], streamed, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{"max_length": 1}, {"max_length": 97}])
def test_a_budget_that_holds_no_sentence_is_refused(texts, tokenizer, options):
    with pytest.raises(ValueError, match="max_length"):
        batches(texts, tokenizer, **options)


def test_long_and_short_batches_are_mixed(texts, tokenizer):
    data = batches(texts, tokenizer, seed=5)
    widths = np.array([target for _, (_, target) in pairs_of(data.epoch(0))[1]])
    half = len(widths) // 2
    assert abs(widths[:half].mean() - widths[half:].mean()) < 3


def test_an_epoch_is_shuffled_as_a_whole(tokenizer):
    texts = [(f"{a} {b} {c}",) * 2 for a in WORDS for b in WORDS for c in WORDS]
    found, _ = pairs_of(batches(texts, tokenizer, seed=2).epoch(0))
    places = {pair: i for i, pair in enumerate(expected_pairs(texts, tokenizer, 24))}
    moved = [abs(places[pair] - i) for i, pair in enumerate(found)]
    assert np.mean(moved) > len(texts) / 5  # A third is expected of a random order.


def test_shards_share_out_each_batch(texts, tokenizer):
    data, count = batches(texts, tokenizer, seed=5, subword_sampling=0.5), 3
    shards = [list(data.epoch(1, (i, count))) for i in range(count)]
    for step, (_, whole) in enumerate(data.epoch(1)):
        parts = [shard[step][1].numpy() for shard in shards]
        assert len({len(part) for part in parts}) == 1
        rows = [tuple(row[row != 0]) for part in parts for row in part if row.any()]
        assert sorted(rows) == sorted(tuple(row[row != 0]) for row in whole.numpy())
    together = list(data.epoch(1, ([0, 1], count)))
    for step, (_, part) in enumerate(shards[1]):
        np.testing.assert_array_equal(together[2 * step + 1][1], part)


def test_corpora_are_mixed_by_weight(tokenizer):
    small, large = [("red", "red")] * 5, [("old", "old")] * 20
    data = Batches(
        [dataset(small), dataset(large)], tokenizer, weights=[3, 1], max_length=24, seed=1
    )
    found, _ = pairs_of(data.epoch(0))
    red, old = (tuple(tokenizer.tokenize(word).numpy().tolist()) for word in ("red", "old"))
    assert data.counts.pairs == 35
    assert found.count((red, red)) == 15 and found.count((old, old)) == 20


def test_sampled_segmentations_spell_the_same_text(texts, tokenizer):
    def spelled(data):
        pairs, _ = pairs_of(data)
        sides = (tokenizer.detokenize(list(map(list, side))) for side in zip(*pairs, strict=True))
        return sorted(zip(*(side.numpy().tolist() for side in sides), strict=True)), pairs

    plain = batches(texts, tokenizer, seed=4)
    sampled = batches(texts, tokenizer, seed=4, subword_sampling=0.2)
    expected, pieces = spelled(plain.epoch(0))
    found, other_pieces = spelled(sampled.epoch(0))
    assert found == expected and sorted(pieces) != sorted(other_pieces)
    assert pairs_of(sampled.epoch(0))[0] == other_pieces != pairs_of(sampled.epoch(1))[0]
    assert plain.counts.batches == sampled.counts.batches


ALL = ",".join(AUGMENTATIONS)


@pytest.fixture(scope="module")
def sentences():
    """Sentences of a few words; in capitals, spelled in bytes, some have more than 40 tokens."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 10, (300, 2))
    return [tuple(" ".join(generator.choice(WORDS, n)) + "'s ." for n in row) for row in lengths]


def augmented_batches(sentences, tokenizer, **options):
    options = {"max_length": 40, "tokens_per_batch": 160, "seed": 6, **options}
    return batches(sentences, tokenizer, **options)


def test_sources_are_changed_as_the_seed_and_the_epoch_say(sentences, tokenizer):
    data = augmented_batches(sentences, tokenizer, augment=ALL)
    kept = 0
    for epoch in (0, 1, 13):
        expected = []
        for index, (source, target) in enumerate(sentences):
            place = (phase(6, index) + epoch) % CYCLE  # Each kind once in a cycle.
            typed = source
            if place < len(AUGMENTATIONS):
                typed = augmented(source, AUGMENTATIONS[place], 6, index)
            texts = tokenizer.tokenize([source, typed, target]).to_list()
            plain, changed, translation = map(tuple, texts)
            if max(len(plain), len(translation)) < 40:
                kept += len(changed) >= 40
                expected.append((changed if len(changed) < 40 else plain, translation))
        found, shapes = pairs_of(data.epoch(epoch))
        assert sorted(found) == sorted(expected)
        assert len(shapes) == data.counts.batches
        assert all(rows * max(source, target) <= 160 for (rows, source), (_, target) in shapes)
        places = sum(rows * source for (rows, source), _ in shapes)
        assert sum(len(source) + 1 for source, _ in found) > 0.8 * places
        assert len(expected) == data.counts.pairs
    assert kept


def test_changed_sources_are_the_same_from_any_step_and_in_shards(sentences, tokenizer):
    options = {"augment": ALL, "subword_sampling": 0.5}
    data = augmented_batches(sentences, tokenizer, **options)
    size = data.counts.batches
    whole = [inputs["source"].numpy() for inputs, _ in data.stream().take(size + 20)]
    again = augmented_batches(sentences, tokenizer, **options).stream(size - 5).take(25)
    for a, (inputs, _) in zip(whole[size - 5 :], again, strict=True):
        np.testing.assert_array_equal(a, inputs["source"])
    shards = [list(data.stream(size, (i, 2)).take(9)) for i in range(2)]
    for step in range(9):
        rows = [
            row[row != 0].tolist() for shard in shards for row in shard[step][0]["source"].numpy()
        ]
        assert sorted(filter(None, rows)) == sorted(
            row[row != 0].tolist() for row in whole[size + step]
        )


def test_no_change_leaves_all_as_it_is(sentences, tokenizer):
    lower = [
        tuple(text.upper() for text in pair) for pair in sentences
    ]  # Which caps does not change.
    plain = augmented_batches(lower, tokenizer)
    changed = augmented_batches(lower, tokenizer, augment="caps")
    assert (
        plain.counts == changed.counts
        and plain.encoded.fingerprints == changed.encoded.fingerprints
    )
    for (a, _), (b, _) in zip(plain.epoch(3), changed.epoch(3), strict=True):
        np.testing.assert_array_equal(a["source"], b["source"])


@pytest.mark.parametrize(
    "options",
    [
        {"augment": "upper"},
        {"subword_sampling": -1},
        {"weights": [1, 1]},
        {"weights": [0]},
        {"temperature": 0.5},
    ],
)
def test_impossible_options_are_refused(texts, tokenizer, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        batches(texts, tokenizer, **options)


def test_kinds_of_changes_may_be_in_any_order(texts, tokenizer):
    assert batches(texts, tokenizer, augment="title, caps").kinds == ("caps", "title")


def test_a_corpus_without_a_usable_pair_is_refused(tokenizer):
    data = batches([("red", ""), ("", "old")], tokenizer)
    assert data.counts.pairs == 0 and list(data.epoch(0)) == []
    with pytest.raises(ValueError, match=r"nothing to batch: 0 pairs.* 2 blank"):
        data.stream()


ENDS_IN_A_BATCH = """
import tensorflow as tf
from keras_mt import Tokenizer
from keras_mt.data import Batches
tokenizer = Tokenizer.train(["the red book"] * 20, vocab_size=300)
pairs = tf.data.Dataset.from_tensors(("the red book", "the book")).repeat(4000)
data = Batches(pairs, tokenizer, tokens_per_batch=2000, max_length=16, subword_sampling=1)
iterators = [iter(data.stream()) for _ in range(4)]
for iterator in iterators * 2:
    next(iterator)
"""


def test_a_script_ends_while_batches_are_made(python):
    assert python("-c", ENDS_IN_A_BATCH).returncode == 0


@pytest.fixture
def model(tokenizer, eager):
    model = keras_mt.Transformer(tokenizer.vocab_size, 1, 8, 2, 8, max_length=16)
    model.compile("adam", keras_mt.losses.CrossEntropy())
    return model


def test_a_model_that_takes_shorter_sentences_refuses_them_by_name(texts, tokenizer, model):
    data = batches(texts, tokenizer)
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"at most max_length=16 tokens\. Received: 20"):
            call(data.epoch(0))


def test_fit_does_not_warn_that_it_cannot_shuffle_them(texts, tokenizer, model):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*shuffle")
        data = batches(texts, tokenizer, max_length=16).stream().prefetch(1)
        model.fit(data, steps_per_epoch=1, verbose=0)


def test_each_corpus_has_its_languages():
    corpora = [["red cup", "old dog", "bed"], ["book", "old table"]]
    words = Tokenizer.train([" ".join(WORDS)] * 20, vocab_size=310, languages=["xx", "yy", "zz"])
    found = Batches(
        [dataset([(text, "chair") for text in texts]) for texts in corpora], words, 96, 24,
        seed=1, subword_sampling=0.5, source_language=["xx", "zz"], target_language=["yy", "xx"],
    )  # fmt: skip
    tokens = {}
    for inputs, labels in found.epoch(3).as_numpy_iterator():
        for row, target in zip(inputs["source"], labels, strict=True):
            tokens[words.detokenize([row]).numpy()[0].decode()] = row[0]
            assert words.detokenize([target]).numpy() == b"chair" and target.min() != row[0]
    assert tokens == dict.fromkeys(corpora[0], 5) | dict.fromkeys(corpora[1], 4)
    with pytest.raises(ValueError, match=r"target_language must be a code .* Received: .*'en'"):
        Batches(found.pairs, words, source_language="xx", target_language=["yy", "en"])
    with pytest.raises(ValueError, match="source_language must be a code, or a list with one for"):
        Batches(found.pairs, words, source_language=["xx"], target_language="yy")


@pytest.mark.parametrize(
    "temperature",
    [5, *(pytest.param(x, marks=[pytest.mark.long, pytest.mark.exhaustive]) for x in (1, 1e9))],
)
def test_a_temperature_samples_corpora_as_the_formula_says(tokenizer, temperature):
    sizes = np.array([30, 7, 1])
    # Each pair has a text of its own, of a length that tells where it is from.
    corpora = [
        [(" ".join(random.choice(WORDS, 9)) + f" {i} {part}", "cup") for i in range(size)]
        for part, size in enumerate(sizes)
    ]
    found = Batches(
        list(map(dataset, corpora)), tokenizer, 640, 64, seed=2, temperature=temperature
    )
    counts, epochs = Counter(), []
    for epoch in range(10):
        batches = found.epoch(epoch).as_numpy_iterator()
        rows = [tuple(row[row != 0]) for inputs, _ in batches for row in inputs["source"]]
        counts.update(rows)
        epochs.append(len(rows))
    share = sizes ** (1 / temperature) / (sizes ** (1 / temperature)).sum()
    ids = [tokenizer.tokenize([text for text, _ in corpus]).to_list() for corpus in corpora]
    drawn = [[counts[*row, 3] for row in rows] for rows in ids]
    times = np.array([np.mean(corpus) / 10 for corpus in drawn])
    np.testing.assert_allclose(times * sizes / (times * sizes).sum(), share, rtol=0.05)
    np.testing.assert_allclose(found.times, times)
    # All pairs of a corpus alike, the largest once an epoch, and all epochs alike.
    assert all(len(set(corpus)) == 1 for corpus in drawn) and times[0] == 1
    assert max(epochs) - min(epochs) <= len(sizes)
    assert found.counts.pairs == epochs[0]
