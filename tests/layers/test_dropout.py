"""Dropout by bytes, held to what dropout is."""

import keras
import numpy as np
import pytest
from backends import gradients

from keras_mt.layers.dropout import Dropout


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3, 0.5, 0.999])
def test_drops_its_share_and_keeps_the_mean(rate):
    outputs = np.array(Dropout(rate)(np.ones((1000, 1000)), training=True))
    share = rate
    if keras.backend.backend() == "tensorflow":
        share = min(max(round(256 * rate), 1), 255) / 256
        assert abs(share - rate) < 1 / 256
    deviation = np.sqrt(share * (1 - share) / outputs.size)
    assert abs((outputs == 0).mean() - share) < 5 * deviation
    assert abs(outputs.mean() - 1) < 5 * deviation / (1 - share)
    np.testing.assert_allclose(np.unique(outputs), [0, 1 / (1 - share)], rtol=1e-6)


def test_elements_that_share_a_draw_are_independent():
    kept = np.array(Dropout(0.5)(np.ones((4, 250_000)), training=True)).reshape(-1) > 0
    for distance in (1, 2, 3, 4, 250_000):
        alike = (kept[distance:] == kept[:-distance]).mean()
        assert abs(alike - 0.5) < 5 * 0.5 / np.sqrt(kept.size - distance)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 2), (0, 4)])
def test_any_shape(shape):
    outputs = np.array(Dropout(0.5)(np.ones(shape), training=True))
    assert outputs.shape == shape
    assert set(np.unique(outputs)) <= {0.0, 2.0}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_gradient_passes_where_the_value_does(dtype):
    inputs = np.random.default_rng(0).normal(size=(40, 30)).astype("float32")

    def drop(inputs):  # The same each time, by the seed.
        inputs = keras.ops.cast(inputs, dtype)
        return keras.ops.cast(Dropout(0.25, seed=3, dtype=dtype)(inputs, training=True), "float32")

    (gradient,) = gradients(lambda inputs: keras.ops.sum(drop(inputs)), inputs)
    expected = np.where(np.array(drop(inputs)) != 0, 256 / 192, 0.0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-2)


def test_each_call_draws_anew_and_a_seed_repeats():
    ones = np.ones((20, 20))
    first, again = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    draws = [np.array(first(ones, training=True)) for _ in range(3)]
    assert not np.array_equal(draws[0], draws[1])
    for draw in draws:
        np.testing.assert_array_equal(draw, again(ones, training=True))
    assert not np.array_equal(draws[0], Dropout(0.5, seed=4)(ones, training=True))


def test_nothing_outside_training_or_at_rate_0():
    ones = np.ones((20, 20))
    np.testing.assert_array_equal(Dropout(0.5)(ones), ones)
    np.testing.assert_array_equal(Dropout(0.5)(ones, training=False), ones)
    np.testing.assert_array_equal(Dropout(0.0)(ones, training=True), ones)


def test_all_is_dropped_at_rate_1():
    np.testing.assert_array_equal(Dropout(1.0)(np.ones((9, 9)), training=True), np.zeros((9, 9)))


def test_a_noise_shape_is_left_to_keras():
    outputs = np.array(Dropout(0.5, noise_shape=(8, 1))(np.ones((8, 50)), training=True))
    assert (outputs == outputs[:, :1]).all()


def test_the_layer_round_trips():
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(Dropout(0.2, seed=1))
    )
    assert (type(copy), copy.rate, copy.seed) == (Dropout, 0.2, 1)
