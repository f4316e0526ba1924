import keras
import numpy as np
import pytest

from keras_mt.layers import TokenMasking

VOCAB_SIZE, SPECIAL = 50, (0, 1, 2, 3)


@pytest.fixture(scope="module")
def tokens():
    tokens = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2000, 60))
    tokens[:, 40:] = 0
    return tokens


@pytest.mark.parametrize("selection", [0.15, 1.0])
def test_the_shares_are_those_of_bert(tokens, selection):
    masked, labels = map(np.array, TokenMasking(VOCAB_SIZE, selection, seed=1)(tokens))
    real = ~np.isin(tokens, SPECIAL)
    selected = labels != 0
    np.testing.assert_array_equal(labels, np.where(selected, tokens, 0))
    np.testing.assert_array_equal(masked[~selected], tokens[~selected])
    assert not selected[~real].any()
    # A random token is the old one in 1 of 46 draws.
    is_mask, other = (masked == VOCAB_SIZE)[selected], (masked != tokens)[selected]
    ordinary = VOCAB_SIZE - len(SPECIAL)
    for found, share, n in (
        (selected[real].mean(), selection, real.sum()),
        (is_mask.mean(), 0.8, selected.sum()),
        (other.mean(), 0.8 + 0.1 * (1 - 1 / ordinary), selected.sum()),
    ):
        assert abs(found - share) <= 5 * np.sqrt(share * (1 - share) / n) + 1e-12
    drawn = np.bincount(masked[selected & (masked != tokens)], minlength=VOCAB_SIZE)[:VOCAB_SIZE]
    assert not drawn[list(SPECIAL)].any()
    expected = drawn.sum() / ordinary
    assert np.abs(drawn[4:] - expected).max() < 5 * np.sqrt(expected)


def test_another_padding_and_other_special_tokens():
    layer = TokenMasking(10, special_ids=[7], padding_id=9, selection_rate=1)
    _, labels = layer(np.array([[7, 0, 4, 5, 9]]))
    assert np.array(labels).tolist() == [[9, 0, 4, 5, 9]]


def test_in_a_pipeline_each_epoch_is_masked_anew_and_a_seed_repeats(tokens):
    tf = pytest.importorskip("tensorflow")

    def epochs(seed):
        data = tf.data.Dataset.from_tensor_slices(tokens[:90]).batch(40)
        data = data.map(TokenMasking(VOCAB_SIZE, seed=seed))
        return [np.concatenate([x for x, _ in data.as_numpy_iterator()]) for _ in range(2)]

    first, second = epochs(1)
    assert first.shape == (90, 60) and not np.array_equal(first, second)
    np.testing.assert_array_equal([first, second], epochs(1))
    assert not np.array_equal(first, epochs(2)[0])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_shapes_dtypes_and_a_round_trip(tokens, policy, tmp_path):
    layer = TokenMasking(VOCAB_SIZE, special_ids=(0, 5), seed=3, dtype=policy)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(inputs))
    assert [(x.shape, x.dtype) for x in model.outputs] == [((None, None), "int32")] * 2
    assert layer.compute_output_shape((2, 5)) == ((2, 5), (2, 5))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].get_config() == layer.get_config()
    for found, expected in zip(loaded(tokens), model(tokens), strict=True):
        assert keras.backend.standardize_dtype(found.dtype) == "int32"
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"vocab_size": 9, "selection_rate": 1.5}, "selection_rate=1.5"),
    ],
)
def test_what_is_impossible_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenMasking(**arguments)
