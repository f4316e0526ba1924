"""Relative positions as biases of attention, against loops over their definition."""

from fractions import Fraction

import numpy as np
import pytest

from keras_mt.layers import CausalSelfAttention, MultiHeadAttention, RelativePositions


def bucket(distance, number, most, bidirectional):
    """Of a key that is `distance` after the query, in whole numbers alone."""
    offset = 0
    if bidirectional:
        number //= 2
        offset = number * (distance > 0)
    distance = abs(distance) if bidirectional else max(-distance, 0)
    near = number // 2
    if distance < near:
        return offset + distance
    far = number - near
    # The greatest k of which near * (most / near)^(k / far) is at most the distance.
    power = Fraction(distance, near) ** far
    k = max(k for k in range(far + 1) if Fraction(most, near) ** k <= power)
    return offset + min(near + k, number - 1)


@pytest.mark.parametrize(
    ("number", "most", "bidirectional"),
    [(32, 128, True), (32, 128, False), (8, 20, True), (6, 50, False)],
)
def test_each_distance_has_its_bias(number, most, bidirectional):
    layer = RelativePositions(2, bidirectional, num_buckets=number, max_distance=most)
    layer.build()
    layer.biases.assign(np.arange(2 * number).reshape(number, 2))
    queries, keys = np.array([0, 3, 150]), np.arange(150)
    found = np.array(layer.bias(queries, keys))
    assert found.shape == (1, 2, 3, 150)
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            expected = 2 * bucket(int(key - query), number, most, bidirectional)
            assert found[0, :, i, j].tolist() == [expected, expected + 1]


@pytest.mark.parametrize("options", [{}, {"num_key_value_heads": 2}, {"scale_attention": False}])
def test_attention_adds_the_bias_to_its_products(options):
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 5, 8)).astype("float32")
    bias = random.normal(size=(1, 4, 5, 5)).astype("float32")
    attention = MultiHeadAttention(4, **options)
    _, weights = attention(x, x, attention_bias=bias, return_attention_scores=True)
    keys, _ = (np.array(part) for part in attention.project(x))
    queries = np.array(attention.query_dense(x)).reshape(2, 5, 4, 2).transpose(0, 2, 1, 3)
    keys = np.repeat(keys, 4 // keys.shape[1], axis=1)
    products = queries @ keys.swapaxes(2, 3) / (1 if "scale_attention" in options else 2**0.5)
    expected = np.exp(products + bias)
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    without = attention(x, x, return_attention_scores=True)[1]
    assert np.abs(without - weights).max() > 0.01


def test_steps_are_the_whole_with_a_bias():
    layer, positions = CausalSelfAttention(2), RelativePositions(2, bidirectional=False)
    x = np.random.default_rng(0).normal(size=(3, 6, 8)).astype("float32")
    whole = layer(x, attention_bias=positions(x))
    cache = layer.empty_cache(3)
    for i in range(6):
        bias = positions.bias(np.array([i]), np.arange(i + 1))
        step, cache = layer.step(x[:, i], cache, bias=bias)
        np.testing.assert_allclose(step, whole[:, i], atol=1e-5)


@pytest.mark.parametrize(
    "arguments", [{"num_heads": 0}, {"num_buckets": 3}, {"max_distance": 8}, {"max_distance": 0}]
)
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        RelativePositions(**{"num_heads": 2, **arguments})
