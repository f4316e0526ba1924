"""What holds of every layer, whatever its weights and what it is given."""

import functools

import keras
import numpy as np
import pytest
from backends import gradients, numpy
from conftest import BACKEND
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_layers import BATCH, CASES, LENGTH, by_family, every_family, make

# Layers whose positions see those after them, and layers to which the order of positions matters.
LOOK_AHEAD = {"EncoderBlock"}
IN_ORDER = {"PositionalEmbedding", "CausalSelfAttention", "DecoderBlock", "SSRU"}


def rows(condition):
    return by_family(filter(condition, CASES))


def looks_ahead(name):
    return name.split(",")[0] in LOOK_AHEAD


def in_order(name):
    return name.split(",")[0] in IN_ORDER or CASES[name][0].get("rotary_base") is not None


@functools.cache
def built(name, dtype):
    """A layer, which each example gives weights of its own, and what it is called with."""
    layer, inputs = make(name, dtype=dtype)
    layer(*inputs)
    return layer, inputs


class Example:
    """A layer with random weights, biases and all, and inputs with random masks."""

    def __init__(self, name, seed=0, dtype="float32"):
        self.random = np.random.default_rng(seed)
        self.layer, inputs = built(name, dtype)
        self.layer.set_weights([self.normal(w.shape) / 2 for w in self.layer.get_weights()])
        scale = self.random.choice([0.1, 1, 10])
        self.inputs = [x if is_tokens(x) else scale * self.normal(x.shape) for x in inputs]
        self.masks = [self.random.random(x.shape[:2]) < 0.7 for x in inputs]
        for mask in self.masks:
            mask[:, 0] = True  # What may see nothing sees anything, the future too.

    def normal(self, shape):
        return self.random.normal(size=shape)

    def changed(self, i, where):
        """The inputs, of which one is another where it is said."""
        x = self.inputs[i]
        other = self.random.integers(1, 11, x.shape) if is_tokens(x) else x + self.normal(x.shape)
        inputs = list(self.inputs)
        inputs[i] = np.where(where if is_tokens(x) else where[..., None], other, x)
        return inputs

    def __call__(self, inputs=None, masks=None):
        inputs, masks = (inputs or self.inputs), (masks or self.masks)
        for masked, mask in zip(MASKED, masks, strict=False):
            masked.mask = mask
        return self.layer(*(masked(x) for masked, x in zip(MASKED, inputs, strict=False)))


def is_tokens(x):
    return np.issubdtype(x.dtype, np.integer)


class Masked(keras.layers.Layer):
    """Gives its input a mask."""

    def __init__(self):
        super().__init__(autocast=False)
        self.supports_masking = True

    def call(self, inputs):
        return inputs

    def compute_mask(self, inputs, previous=None):
        return keras.ops.convert_to_tensor(self.mask)


MASKED = Masked(), Masked()  # For the inputs of a layer.


def near(found, expected):
    found, expected = map(numpy, (found, expected))
    return np.allclose(found, expected, rtol=1e-4, atol=1e-4)


def whatever(test):
    """Of any seed, from which weights, inputs and masks are drawn."""
    phases = (Phase.reuse, Phase.generate)  # A smaller seed is no simpler.
    seeded = given(seed=st.integers(0, 2**32 - 1))(test)
    return settings(phases=phases, max_examples=settings.default.max_examples // 2)(seeded)


@rows(lambda name: not looks_ahead(name))
@whatever
def test_the_future_does_not_matter(name, seed):
    example = Example(name, seed)
    now = example.random.integers(1, LENGTH)
    changed = example.changed(0, np.arange(LENGTH)[None] >= now)
    assert near(example(changed)[:, :now], example()[:, :now])


@pytest.mark.parametrize("name", [*filter(looks_ahead, CASES)])
def test_the_future_matters(name):
    example, everything = Example(name), [np.ones((BATCH, LENGTH), bool)]
    changed = example.changed(0, np.arange(LENGTH)[None] >= 3)
    assert not near(example(changed, everything)[:, :3], example(masks=everything)[:, :3])


@every_family
@whatever
def test_what_is_masked_does_not_matter(name, seed):
    example = Example(name, seed)
    seen = example.masks[0]
    expected = numpy(example())[seen]
    for i, mask in enumerate(example.masks):
        found = example(example.changed(i, ~mask))
        assert near(numpy(found)[seen], expected)


def reordered(example, i):
    """The inputs and masks, of which one pair stands in another order, and that order."""
    inputs, masks = list(example.inputs), list(example.masks)
    order = example.random.permutation(inputs[i].shape[1])
    inputs[i], masks[i] = inputs[i][:, order], masks[i][:, order]
    return inputs, masks, order


@rows(lambda name: not in_order(name))
@whatever
def test_without_positions_the_output_stands_in_the_order_of_the_input(name, seed):
    example = Example(name, seed)
    inputs, masks, order = reordered(example, 0)
    expected = numpy(example())[:, order]
    assert near(example(inputs, masks), expected)


@pytest.mark.parametrize("name", [*filter(in_order, CASES)])
def test_with_positions_it_does_not(name):
    example = Example(name)
    example.masks = [np.ones_like(mask) for mask in example.masks]
    inputs = [example.inputs[0][:, ::-1], *example.inputs[1:]]
    expected = numpy(example())[:, ::-1]
    assert not near(example(inputs), expected)


@rows(lambda name: len(CASES[name][1]) > 1)
@whatever
def test_the_order_of_the_memory_does_not_matter(name, seed):
    example = Example(name, seed)
    assert near(example(*reordered(example, 1)[:2]), example())


@pytest.mark.skipif(BACKEND != "tensorflow", reason="elsewhere Keras multiplies in float32")
@every_family
@whatever
def test_gradients_are_the_finite_differences(name, seed):
    example = Example(name, seed, dtype="float64")
    variables = example.layer.trainable_variables
    if any(variable.dtype == "float32" for variable in variables):
        pytest.skip("it computes in float32 in part, whatever its dtype")
    places = [i for i, x in enumerate(example.inputs) if not is_tokens(x)]
    point = [example.inputs[i] for i in places] + [v.numpy() for v in variables]
    weight = keras.ops.convert_to_tensor(example.normal(example().shape))

    def value(*point):
        inputs = list(example.inputs)
        for i, x in zip(places, point, strict=False):
            inputs[i] = x
        weights = zip(variables, point[len(places) :], strict=True)
        with keras.StatelessScope(list(weights)):
            return keras.ops.sum(example(inputs) * weight)

    direction = [example.normal(x.shape) for x in point]
    slope = sum((g * d).sum() for g, d in zip(gradients(value, *point), direction, strict=True))
    step = 1e-8  # A corner of ReLU is seldom nearer than that.
    ends = [
        float(value(*map(keras.ops.convert_to_tensor, moved)))
        for moved in (
            [x + sign * step * d for x, d in zip(point, direction, strict=True)] for sign in (1, -1)
        )
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-4)
