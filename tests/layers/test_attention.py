import json
import re

import keras
import numpy as np
import pytest

from keras_mt.layers import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
    rotate_by_position,
    scaled_dot_product_attention,
)

random = np.random.default_rng(0)


def normal(*shape):
    return random.normal(size=shape).astype("float32")


def plain_attention(query, key, value, mask):
    """The paper's formula for one head, one query at a time."""
    outputs = []
    for i, q in enumerate(query):
        weights = np.exp(key @ q / np.sqrt(len(q))) * mask[i]
        outputs.append(weights @ value / weights.sum())
    return np.array(outputs)


def test_scaled_dot_product_attention_is_the_papers_formula():
    query, key, value = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    mask = random.random((2, 1, 5, 7)) < 0.6
    mask[..., 0] = True
    outputs, scores = scaled_dot_product_attention(query, key, value, mask)
    for b in range(2):
        for h in range(3):
            expected = plain_attention(query[b, h], key[b, h], value[b, h], mask[b, 0])
            np.testing.assert_allclose(outputs[b, h], expected, atol=1e-5)
    np.testing.assert_allclose(np.array(scores).sum(-1), 1, atol=1e-6)
    assert np.all(np.where(mask, 0, scores) == 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_query_that_sees_nothing_is_finite(dtype):
    x = keras.ops.cast(normal(1, 1, 3, 4) * 30, dtype)
    outputs, _ = scaled_dot_product_attention(x, x, x, np.zeros((1, 1, 3, 3), bool))
    assert np.isfinite(np.array(keras.ops.cast(outputs, "float32"))).all()


def keras_twin(layer, inputs, key_dim, value_dim=None, use_bias=True):
    """Keras's own attention with the same weights."""
    heads, width = layer.num_heads, inputs[0].shape[-1]
    value_dim = value_dim or key_dim
    twin = keras.layers.MultiHeadAttention(heads, key_dim, value_dim, use_bias=use_bias)
    # With the scores, since Keras on JAX fails without where values are not as wide as keys.
    twin(*inputs, return_attention_scores=True)
    shapes = [("query", (heads, key_dim)), ("key", (heads, key_dim)), ("value", (heads, value_dim))]
    weights = []
    for name, shape in shapes:
        dense = getattr(layer, f"{name}_dense")
        weights.append(np.reshape(dense.kernel, (-1, *shape)))
        if use_bias:
            weights.append(np.reshape(dense.bias, shape))
    out = layer.output_dense
    weights.append(np.reshape(out.kernel, (heads, value_dim, width)))
    if use_bias:
        weights.append(np.array(out.bias))
    twin.set_weights(weights)
    return twin


def randomise_biases(layer):
    layer.set_weights([w if w.ndim > 1 else normal(*w.shape) for w in layer.get_weights()])


OTHER_WIDTHS = {"key_dim": 5, "value_dim": 2, "use_bias": False}


@pytest.mark.parametrize("arguments", [{}, {"key_dim": 6}, {"value_dim": 3}, OTHER_WIDTHS])
def test_multi_head_attention_equals_keras_on_the_same_weights(arguments):
    query, value, key = normal(2, 5, 12), normal(2, 7, 6), normal(2, 7, 10)
    layer = MultiHeadAttention(num_heads=3, **arguments)
    layer(query, value, key)
    randomise_biases(layer)
    twin = keras_twin(layer, (query, value, key), **{"key_dim": 4, **arguments})
    value_mask, attention_mask = np.ones((2, 7), bool), random.random((2, 5, 7)) < 0.7
    value_mask[1, 4:], attention_mask[..., 0] = False, True
    options = {
        "value_mask": value_mask,
        "attention_mask": attention_mask,
        "use_causal_mask": True,
        "return_attention_scores": True,
    }
    for mine, its in zip(
        layer(query, value, key, **options), twin(query, value, key, **options), strict=True
    ):
        np.testing.assert_allclose(mine, its, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (2, 1, 5, 7), (1, 3, 1, 7)])
def test_attention_masks_of_rank_4_equal_keras_on_the_same_weights(shape):
    query, value = normal(2, 5, 12), normal(2, 7, 6)
    layer = MultiHeadAttention(num_heads=3)
    layer(query, value)
    twin = keras_twin(layer, (query, value), 4)
    mask, value_mask = random.random(shape) < 0.7, np.ones((2, 7), bool)
    value_mask[1, 4:], mask[..., 0] = False, True
    # Keras takes a mask of this rank alone: with others it aligns the wrong axes.
    both = mask & value_mask[:, None, None, :] & np.tri(5, 7, dtype=bool)
    expected = twin(query, value, attention_mask=both)
    found = layer(query, value, value_mask=value_mask, attention_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_mask_for_each_head_hides_keys_from_that_head_alone():
    layer, x = MultiHeadAttention(2), normal(1, 3, 8)
    mask = np.ones((1, 2, 3, 3), bool)
    mask[0, 1, :, 2] = False
    _, scores = layer(x, x, attention_mask=mask, return_attention_scores=True)
    np.testing.assert_array_equal(np.array(scores) > 0, mask)
    symbol = keras.Input((3, 8))
    masked = keras.Input((2, 3, 3), dtype="bool")
    model = keras.Model([symbol, masked], layer(symbol, symbol, attention_mask=masked))
    expected = layer(x, x, attention_mask=mask)
    np.testing.assert_allclose(model([x, mask]), expected, atol=1e-6)


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, CausalSelfAttention, CrossAttention])
def test_new_arguments_survive_the_config(layer_class):
    initializer = keras.initializers.RandomNormal(stddev=3.0, seed=7)
    layer = layer_class(
        3, key_dim=5, value_dim=2, kernel_initializer=initializer, bias_initializer="ones"
    )
    config = json.loads(json.dumps(layer.get_config()))
    copy = layer_class.from_config(config)
    assert copy.get_config() == layer.get_config()
    inputs = [normal(2, 4, 8)] * (1 if layer_class is CausalSelfAttention else 2)
    layer(*inputs), copy(*inputs)
    for one, other in zip(layer.get_weights(), copy.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [w.shape for w in layer.weights] == [
        (8, 15), (15,), (8, 15), (15,), (8, 6), (6,), (6, 8), (8,)
    ]  # fmt: skip
    assert all((w == 1).all() for w in layer.get_weights() if w.ndim == 1)


def test_kernels_of_one_unseeded_initializer_differ():
    layer, x = (
        MultiHeadAttention(2, kernel_initializer=keras.initializers.HeNormal()),
        normal(1, 3, 8),
    )
    layer(x, x)
    assert not np.array_equal(layer.query_dense.kernel, layer.key_dense.kernel)


def test_the_kernels_have_half_of_glorots_variance_but_the_output_all():
    layer, x = MultiHeadAttention(4), normal(1, 2, 256)
    layer(x, x)
    glorot = 2 / (256 + 256)
    variances = [np.var(w) / glorot for w in layer.get_weights() if w.ndim == 2]
    np.testing.assert_allclose(variances, [0.5, 0.5, 0.5, 1], rtol=0.05)


def test_a_config_without_the_newer_arguments_gives_the_layer_that_it_gave():
    old = {"name": "attention", "trainable": True, "dtype": "float32", "num_heads": 2, "dropout": 0}
    layer, x = MultiHeadAttention.from_config(old), normal(1, 3, 8)
    layer(x, x)
    assert [w.path for w in layer.weights] == [
        f"attention/{dense}/{kind}"
        for dense in ("query", "key", "value", "output")
        for kind in ("kernel", "bias")
    ]
    assert all(w.shape in [(8, 8), (8,)] for w in layer.weights)


def test_causal_and_cross_attention_equal_keras_on_the_same_weights():
    x, memory = normal(2, 5, 12), normal(2, 7, 6)
    causal, cross = CausalSelfAttention(3), CrossAttention(3)
    causal(x), cross(x, memory)
    randomise_biases(causal), randomise_biases(cross)
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], bool)
    memory_mask = np.array([[1] * 7, [1] * 4 + [0] * 3], bool)
    expected = keras_twin(causal, (x, x), 4)(x, x, value_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(causal(x, mask=mask), expected, atol=1e-5)
    expected = keras_twin(cross, (x, memory), 4)(x, memory, value_mask=memory_mask)
    np.testing.assert_allclose(cross(x, memory, memory_mask=memory_mask), expected, atol=1e-5)


def test_the_future_does_not_matter():
    layer, x = CausalSelfAttention(2), normal(1, 6, 8)
    changed = x.copy()
    changed[:, 4:] += 1
    np.testing.assert_allclose(layer(x)[:, :4], layer(changed)[:, :4], atol=1e-6)
    assert np.abs(layer(x)[:, 4:] - layer(changed)[:, 4:]).max() > 0.01


def test_padding_does_not_matter():
    layer, x, memory = CrossAttention(2), normal(1, 3, 8), normal(1, 4, 8)
    padded = np.concatenate([memory, 9 * normal(1, 3, 8)], axis=1)
    mask = np.array([[True] * 4 + [False] * 3])
    np.testing.assert_allclose(layer(x, memory), layer(x, padded, memory_mask=mask), atol=1e-6)


def test_masks_of_embeddings_are_found():
    embedding, layer = keras.layers.Embedding(9, 8, mask_zero=True), CrossAttention(2)
    target, memory = embedding(np.array([[1, 2]])), embedding(np.array([[3, 4, 0, 0]]))
    _, scores = layer(target, memory, return_attention_scores=True)
    assert np.all(np.array(scores)[..., 2:] == 0)


def test_scores_have_the_documented_shape_symbolically_and_really():
    x, memory = normal(2, 5, 8), normal(2, 7, 8)
    for layer, inputs, shape in [
        (MultiHeadAttention(2), (x, memory), (2, 2, 5, 7)),
        (CausalSelfAttention(2), (x,), (2, 2, 5, 5)),
        (CrossAttention(2), (x, memory), (2, 2, 5, 7)),
    ]:
        outputs, scores = layer(*inputs, return_attention_scores=True)
        assert tuple(outputs.shape) == x.shape and tuple(scores.shape) == shape
        symbols = [keras.Input(i.shape[1:]) for i in inputs]
        outputs, scores = layer(*symbols, return_attention_scores=True)
        assert outputs.shape == (None, *x.shape[1:]) and scores.shape == (None, *shape[1:])


@pytest.mark.parametrize("arguments", [{}, OTHER_WIDTHS])
def test_one_step_at_a_time_equals_the_whole_sequence(arguments):
    layer, x = CausalSelfAttention(3, **arguments), normal(3, 6, 12)
    layer(x)
    randomise_biases(layer)
    whole, cache = layer(x), layer.empty_cache(3)
    for i in range(6):
        output, cache = layer.step(x[:, i], cache)
        np.testing.assert_allclose(output, whole[:, i], atol=1e-5)


def test_a_step_over_what_was_projected_equals_the_call():
    layer, x, memory = CrossAttention(3, **OTHER_WIDTHS), normal(2, 4, 12), normal(2, 7, 6)
    mask = random.random((2, 7)) < 0.7
    expected = layer(x, memory, memory_mask=mask)
    keys, values = layer.project(memory)
    assert keys.shape == (2, 3, 7, 5) and values.shape == (2, 3, 7, 2)
    found = layer.step(keras.ops.reshape(x, (8, 12)), (keys, values), mask, new=4)
    np.testing.assert_allclose(np.reshape(found, (2, 4, 12)), expected, atol=1e-6)


def test_heads_of_a_width_of_their_own_need_not_divide_the_query():
    x = normal(1, 3, 7)
    assert MultiHeadAttention(2, key_dim=4)(x, x).shape == (1, 3, 7)
    with pytest.raises(ValueError, match=r"divisible.*key_dim.*width=7, num_heads=2"):
        MultiHeadAttention(2, value_dim=4)(x, x)


@pytest.mark.parametrize("layer", [MultiHeadAttention(2), CrossAttention(2)])
def test_batches_of_other_sizes_are_refused(layer):
    sizes = r"\(4, 3, 8\) and \(2, 3, 8\)"
    with pytest.raises(ValueError, match=sizes):
        layer(normal(4, 3, 8), normal(2, 3, 8))
    with pytest.raises(ValueError, match=sizes):
        layer(keras.Input(batch_shape=(4, 3, 8)), keras.Input(batch_shape=(2, 3, 8)))


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, CausalSelfAttention, CrossAttention])
@pytest.mark.parametrize("built", [False, True])
def test_sequences_without_a_batch_are_refused(layer_class, built):
    layer, count = layer_class(2), 1 if layer_class is CausalSelfAttention else 2
    if built:
        layer(*[normal(1, 5, 8)] * count)
    message = re.escape(f"{layer.name} takes [batch, length, width]. Received: shape (5, 8)")
    for place in range(count):
        inputs = [normal(5, 5, 8)] * count
        inputs[place] = normal(5, 8)
        with pytest.raises(ValueError, match=message):
            layer(*inputs)
        with pytest.raises(ValueError, match=message):
            layer(*(keras.Input(batch_shape=x.shape) for x in inputs))


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, CausalSelfAttention, CrossAttention])
def test_integers_and_axes_too_many_are_refused_by_the_layers_name(layer_class):
    layer, count = layer_class(2, name="mine"), 1 if layer_class is CausalSelfAttention else 2
    with pytest.raises(ValueError, match=r"mine takes floats.*int32 of shape \(2, 5, 8\)"):
        layer(*[np.ones((2, 5, 8), "int32")] * count)
    with pytest.raises(ValueError, match=r"mine takes \[batch, length, width\].*\(2, 3, 4, 8\)"):
        layer(*[normal(2, 3, 4, 8)] * count)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("masked", ["no", "each query", "each head"])
def test_grouped_queries_are_attention_with_repeated_keys(heads, masked):
    generator = np.random.default_rng(heads)
    query = generator.normal(size=(2, 4, 5, 6)).astype("float32")
    key, value = (generator.normal(size=(2, heads, 3, 6)).astype("float32") for _ in range(2))
    mask = {
        "no": None,
        "each query": generator.random((2, 1, 5, 3)) < 0.7,
        "each head": generator.random((2, 4, 5, 3)) < 0.7,
    }[masked]
    found = scaled_dot_product_attention(query, key, value, mask)
    repeated = (np.repeat(x, 4 // heads, axis=1) for x in (key, value))
    expected = scaled_dot_product_attention(query, *repeated, mask)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone():
    """Each pair of numbers is a complex number, which a position turns."""
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(1, 2, 4, 8)).astype("float32") for _ in range(2))

    def rotated(x, *arguments):
        return np.array(rotate_by_position(keras.ops.convert_to_tensor(x), *arguments))

    turned = rotated(x, None, 100.0)
    pairs = x[..., :4] + 1j * x[..., 4:]
    angles = np.arange(4)[:, None] / 100.0 ** (np.arange(4) / 4)
    expected = pairs * np.exp(1j * angles)
    np.testing.assert_allclose(turned[..., :4] + 1j * turned[..., 4:], expected, atol=1e-5)
    products = [(rotated(x, 3 + shift) * rotated(y, 7 + shift)).sum(-1) for shift in (0, 50)]
    np.testing.assert_allclose(*products, atol=1e-4)
    by_row = rotated(np.repeat(x, 2, axis=0), np.array([[0, 1, 2, 3]] * 2), 100.0)
    np.testing.assert_allclose(by_row, np.repeat(turned, 2, axis=0), atol=1e-6)


def test_positions_rotate_pairs_of_one_sequence():
    with pytest.raises(ValueError, match=r"even size.*\(1, 1, 2, 3\)"):
        rotate_by_position(normal(1, 1, 2, 3))
    with pytest.raises(ValueError, match="rotary_base must be None in cross-attention"):
        CrossAttention(2, rotary_base=10000.0)(normal(1, 3, 8), normal(1, 4, 8))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads=3"),
        ({"rotary_base": 0.5}, "rotary_base=0.5"),
        ({"rotary_base": 100.0, "key_dim": 3}, "even.*key_dim=3"),
    ],
)
def test_impossible_grouping_and_rotation_are_refused_by_name(options, match):
    with pytest.raises(ValueError, match=match):
        MultiHeadAttention(4, **options)(np.zeros((1, 2, 8)), np.zeros((1, 2, 8)))
