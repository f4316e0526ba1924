import itertools
import math
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_mt.layers import FeedForward, MixtureOfExperts

WIDTH, D_FF = 6, 10
GOLDEN = Path(__file__).parent / "golden" / "mixture_of_experts.npz"


def states(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(*shape, WIDTH)).astype("float32")


def masked(*shape, seed=1):
    return np.random.default_rng(seed).random(shape) < 0.7


def made(seed=2, width=WIDTH, **arguments):
    """A layer with weights, biases among them, that are not near 0."""
    arguments = {"num_experts": 4, "d_ff": D_FF, "activation": "silu", **arguments}
    layer = MixtureOfExperts(**arguments)
    layer.build((None, width))
    generator = np.random.default_rng(seed)
    layer.set_weights([generator.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def array(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def loss(layer):
    return sum(float(array(each)) for each in layer.losses)


def loop(layer, x, mask=None, training=False):
    """Token by token: the output, the load-balancing loss, and the number of choices dropped."""
    weights = {w.name: array(w) for w in layer.weights}
    experts, width = layer.num_experts, x.shape[-1]

    def silu(x):
        return x / (1 + np.exp(-x))

    def through(expert, token):
        def affine(x, name):
            bias = weights[f"{name}_bias"][expert, 0] if layer.use_bias else 0
            return x @ weights[f"{name}_kernel"][expert] + bias

        hidden = affine(token, "inner")
        hidden = silu(affine(token, "gate")) * hidden if layer.gated else silu(hidden)
        return affine(hidden, "output")

    tokens = x.reshape(-1, width)
    real = [i for i in range(len(tokens)) if mask is None or mask.reshape(-1)[i]]
    probabilities = np.exp(tokens @ weights["router_kernel"])
    probabilities /= probabilities.sum(-1, keepdims=True)
    best = np.argsort(-probabilities, axis=-1)[:, : layer.top_k]
    capacity = math.ceil(layer.capacity_factor * layer.top_k * len(real) / experts)
    outputs, taken, dropped = np.zeros_like(tokens), [0] * experts, 0
    for nth, i in itertools.product(range(layer.top_k), real):
        expert = best[i, nth]
        if training and taken[expert] == capacity:
            dropped += 1
            continue
        taken[expert] += 1
        among = probabilities[i, best[i]].sum() if layer.top_k > 1 or experts == 1 else 1
        outputs[i] += probabilities[i, expert] / among * through(expert, tokens[i])
    shares = [np.mean([e in best[i] for i in real]) for e in range(experts)]
    balance = experts * np.dot(shares, probabilities[real].mean(0)) if experts > 1 else 0
    balance *= layer.balance_weight if training else 0
    return outputs.reshape(x.shape), balance, dropped


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {"capacity_factor": 0.5},
        {"capacity_factor": 0.75, "gated": True, "use_bias": False},
        {"capacity_factor": 8.0},
        {"top_k": 1, "capacity_factor": 1.25, "balance_weight": 0.5},
        {"num_experts": 5, "top_k": 5, "capacity_factor": 0.75},
        {"num_experts": 1, "top_k": 1, "capacity_factor": 0.5},
    ],
)
def test_it_is_a_loop_over_tokens_and_experts(arguments, with_mask, training):
    layer, x = made(**arguments), states(3, 7)
    mask = masked(3, 7) if with_mask else None
    found = layer(x, mask=mask, training=training)
    expected, balance, dropped = loop(layer, x, mask, training)
    np.testing.assert_allclose(array(found), expected, atol=1e-4)
    assert loss(layer) == pytest.approx(balance, rel=1e-4)
    assert dropped or not training or layer.capacity_factor > 1
    if mask is not None:
        carried = keras.layers.Masking()(x * mask[..., None])
        again = array(layer(carried, training=training))
        np.testing.assert_allclose(again, loop(layer, x, mask, training)[0], atol=1e-4)


def test_it_takes_tokens_of_any_rank_and_none():
    layer, x = made(), states(2, 3, 4)
    expected = loop(layer, x)[0]
    np.testing.assert_allclose(array(layer(x)), expected, atol=1e-4)
    np.testing.assert_allclose(array(layer(x[0, 0])), expected[0, 0], atol=1e-4)
    for training in (False, True):
        assert np.shape(layer(x[:0], training=training)) == (0, 3, 4, WIDTH)
        nothing = array(layer(x, mask=np.zeros((2, 3, 4), bool), training=training))
        np.testing.assert_array_equal(nothing, np.zeros_like(x))
        assert loss(layer) == 0


@pytest.mark.parametrize("gated", [False, True])
def test_one_expert_is_the_dense_layer(gated):
    layer = made(num_experts=1, top_k=1, capacity_factor=1.0, gated=gated)
    dense, x = FeedForward(D_FF, "silu", gated=gated), states(3, 7)
    dense(x)
    by_name = {w.name: np.squeeze(array(w)) for w in layer.weights}
    dense.set_weights([by_name["_".join(w.path.split("/")[-2:])] for w in dense.weights])
    for training in (False, True):
        np.testing.assert_allclose(array(layer(x, training=training)), array(dense(x)), atol=1e-4)
        assert not layer.losses


def test_it_is_mixtrals_block():
    golden = np.load(GOLDEN)
    layer = MixtureOfExperts(
        4, golden["inner_kernel"].shape[-1], capacity_factor=4.0, activation="silu", gated=True,
        use_bias=False, balance_weight=1.0,
    )  # fmt: skip
    layer.build(golden["inputs"].shape)
    layer.set_weights([golden[w.name] for w in layer.weights])
    for training in (False, True):
        found = array(layer(golden["inputs"], training=training))
        np.testing.assert_allclose(found, golden["outputs"], atol=1e-5)
    assert loss(layer) == pytest.approx(float(golden["loss"]), rel=1e-5)
    layer(golden["inputs"], mask=golden["mask"], training=True)
    assert loss(layer) == pytest.approx(float(golden["masked_loss"]), rel=1e-5)


def test_the_load_is_the_share_of_tokens_that_each_expert_gets():
    layer, x, mask = made(), states(3, 7), masked(3, 7)
    logits = x[mask] @ array(layer.router_kernel)
    counts = np.bincount(np.argsort(-logits, axis=-1)[:, :2].ravel(), minlength=4)
    np.testing.assert_allclose(array(layer.expert_load(x, mask)), counts / mask.sum(), atol=1e-6)
    assert array(layer.expert_load(x)).sum() == pytest.approx(2, abs=1e-5)


def test_balanced_experts_have_the_least_loss():
    layer = made(balance_weight=1.0, width=4)
    layer.router_kernel.assign(5 * np.eye(4))
    even = np.eye(4, dtype="float32") + 0.5 * np.roll(np.eye(4, dtype="float32"), 1, axis=1)
    layer(even, training=True)
    assert loss(layer) == pytest.approx(2)  # top_k
    layer(np.tile(even[:1], (4, 1)), training=True)
    assert loss(layer) > 3


def test_each_expert_begins_as_a_dense_layer_does():
    layer = MixtureOfExperts(8, 300, gated=True)
    layer.build((None, 100))
    for name in ("gate", "inner", "output"):
        kernel = array(getattr(layer, f"{name}_kernel"))
        limit = math.sqrt(6 / 400)  # Glorot's.
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert not np.allclose(kernel[0], kernel[1])


@pytest.mark.parametrize("top_k", [1, 2])
def test_gradients_are_finite_differences(top_k):
    layer, x, mask = made(top_k=top_k, capacity_factor=0.75), states(3, 7), masked(3, 7)
    layer.set_weights([w / 2 for w in layer.get_weights()])
    labels = states(3, 7, seed=5)

    def value():
        return float(
            np.mean((array(layer(x, mask=mask, training=True)) - labels) ** 2) + loss(layer)
        )

    inputs = keras.Input((7, WIDTH)), keras.Input((7,), dtype="bool")
    model = keras.Model(inputs, layer(inputs[0], mask=inputs[1]))
    model.compile(keras.optimizers.SGD(1.0), mean_squared, run_eagerly=True)
    before = [np.array(w) for w in layer.get_weights()]
    # A step of SGD is the gradient, on every backend.
    model.fit([x, mask], labels, batch_size=3, shuffle=False, verbose=0)
    gradients = [old - new for old, new in zip(before, layer.get_weights(), strict=True)]
    layer.set_weights(before)
    used = array(layer.expert_load(x, mask)) > 0
    for i, (weight, gradient) in enumerate(zip(layer.weights, gradients, strict=True)):
        assert gradient.any()
        if weight is not layer.router_kernel:
            np.testing.assert_array_equal(np.abs(gradient).sum(axis=(1, 2)) > 0, used)
        direction, ends = gradient / np.linalg.norm(gradient), []
        for step in (0.003, -0.003):
            weight.assign(before[i] + step * direction)
            ends.append(value())
        weight.assign(before[i])
        slope = (ends[0] - ends[1]) / 0.006
        assert slope == pytest.approx(np.linalg.norm(gradient), rel=0.01), weight.name


def mean_squared(y_true, y_pred):
    # Keras's would leave out what is masked.
    return keras.ops.mean((y_true - y_pred) ** 2)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs")
@pytest.mark.parametrize(
    "jit", [False, pytest.param(True, marks=[pytest.mark.long, pytest.mark.exhaustive])]
)
def test_graphs_of_unknown_shapes_compute_the_same(jit):
    import tensorflow as tf

    layer = made(capacity_factor=0.75)

    @tf.function(
        jit_compile=jit,
        input_signature=[
            tf.TensorSpec((None, None, WIDTH)), tf.TensorSpec((None, None), tf.bool)
        ],
    )  # fmt: skip
    def graph(x, mask):
        return layer(x, mask=mask), layer(x, mask=mask, training=True), layer.losses

    for shape in ((3, 7), (2, 1), (1, 30)):
        x, mask = states(*shape), masked(*shape)
        found = graph(x, mask)
        np.testing.assert_allclose(found[0], layer(x, mask=mask), atol=1e-5)
        np.testing.assert_allclose(found[1], layer(x, mask=mask, training=True), atol=1e-5)
        assert float(found[2][0]) == pytest.approx(loss(layer), rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_k": 5}, "top_k=5, num_experts=4"),
        ({"capacity_factor": 0}, "capacity_factor=0"),
    ],
)
def test_impossible_arguments_are_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        MixtureOfExperts(**{"num_experts": 4, "d_ff": 8, **wrong})
