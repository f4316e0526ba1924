"""What the recurrence computes, at once and step by step."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_mt.layers import SSRU

WIDTH = 6


def made(length, batch=3, **arguments):
    inputs = np.random.default_rng(length).normal(size=(batch, length, WIDTH)).astype("float32")
    layer = SSRU(**arguments)
    layer.build(inputs.shape)
    for seed, weight in enumerate(layer.weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape))
    return layer, inputs


def by_the_formula(layer, inputs, mask=None):
    kernel, forget_kernel, bias = (
        ops.convert_to_numpy(w).astype("float64")
        for w in (layer.input_dense.kernel, *layer.forget_dense.weights)
    )
    state, outputs = np.zeros((len(inputs), WIDTH)), []
    for t in range(inputs.shape[1]):
        forget = 1 / (1 + np.exp(-(inputs[:, t] @ forget_kernel + bias)))
        after = forget * state + (1 - forget) * (inputs[:, t] @ kernel)
        state = after if mask is None else np.where(mask[:, t, None], after, state)
        outputs.append(np.maximum(state, 0))
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 21])
def test_it_computes_the_formula(length):
    layer, inputs = made(length)
    found = ops.convert_to_numpy(layer(inputs))
    np.testing.assert_allclose(found, by_the_formula(layer, inputs), atol=1e-5)


def test_lengths_that_are_not_known_beforehand():
    layer, inputs = made(13)
    model = keras.Model(symbol := keras.Input((None, WIDTH)), layer(symbol))
    found = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(found, by_the_formula(layer, inputs), atol=1e-5)


def test_masked_positions_leave_the_state_as_it_is():
    layer, inputs = made(7)
    mask = np.random.default_rng(0).random((3, 7)) < 0.6
    found = ops.convert_to_numpy(layer(inputs, mask=mask))
    np.testing.assert_allclose(found, by_the_formula(layer, inputs, mask), atol=1e-5)


def test_steps_give_what_the_whole_sequence_gives():
    layer, inputs = made(9, batch=6)
    state, outputs = layer.initial_state(2, beams=3), []
    for t in range(9):
        output, state = layer.step(inputs[:, t], state)
        outputs.append(ops.convert_to_numpy(output))
    assert tuple(state.shape) == (2, 3, WIDTH)
    whole = ops.convert_to_numpy(layer(inputs))
    np.testing.assert_allclose(np.stack(outputs, axis=1), whole, atol=1e-5)


def test_a_position_sees_none_after_it():
    layer, inputs = made(8)
    changed = inputs.copy()
    changed[:, 5:] += 1
    before, after = layer(inputs)[:, :5], layer(changed)[:, :5]
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (before, after)), atol=1e-6)
