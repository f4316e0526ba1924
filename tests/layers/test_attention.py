import keras
import numpy as np
import pytest

from keras_mt.layers import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
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
    np.testing.assert_allclose(np.sum(scores, -1), 1, atol=1e-6)
    assert np.all(np.where(mask, 0, scores) == 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_query_that_sees_nothing_is_finite(dtype):
    x = keras.ops.cast(normal(1, 1, 3, 4) * 30, dtype)
    outputs, _ = scaled_dot_product_attention(x, x, x, np.zeros((1, 1, 3, 3), bool))
    assert np.isfinite(np.array(keras.ops.cast(outputs, "float32"))).all()


def keras_twin(layer, heads, width, inputs):
    """Keras's own attention with the same weights."""
    twin = keras.layers.MultiHeadAttention(heads, width // heads, output_shape=width)
    twin(*inputs)
    weights = []
    for name in ("query", "key", "value"):
        dense = getattr(layer, f"{name}_dense")
        weights += [
            np.reshape(dense.kernel, (-1, heads, width // heads)),
            np.reshape(dense.bias, (heads, width // heads)),
        ]
    out = layer.output_dense
    weights += [np.reshape(out.kernel, (heads, width // heads, width)), np.array(out.bias)]
    twin.set_weights(weights)
    return twin


def randomise_biases(layer):
    layer.set_weights([w if w.ndim > 1 else normal(*w.shape) for w in layer.get_weights()])


def test_multi_head_attention_equals_keras_on_the_same_weights():
    query, value, key = normal(2, 5, 12), normal(2, 7, 6), normal(2, 7, 10)
    layer = MultiHeadAttention(num_heads=3)
    layer(query, value, key)
    randomise_biases(layer)
    twin = keras_twin(layer, 3, 12, (query, value, key))
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


def test_causal_and_cross_attention_equal_keras_on_the_same_weights():
    x, memory = normal(2, 5, 12), normal(2, 7, 6)
    causal, cross = CausalSelfAttention(3), CrossAttention(3)
    causal(x), cross(x, memory)
    randomise_biases(causal), randomise_biases(cross)
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], bool)
    memory_mask = np.array([[1] * 7, [1] * 4 + [0] * 3], bool)
    expected = keras_twin(causal, 3, 12, (x, x))(x, x, value_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(causal(x, mask=mask), expected, atol=1e-5)
    expected = keras_twin(cross, 3, 12, (x, memory))(x, memory, value_mask=memory_mask)
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


def test_one_step_at_a_time_equals_the_whole_sequence():
    layer, x = CausalSelfAttention(2), normal(3, 6, 8)
    whole = layer(x)
    randomise_biases(layer)
    whole, cache = layer(x), layer.empty_cache(3)
    for i in range(6):
        output, cache = layer.step(x[:, i : i + 1], cache)
        np.testing.assert_allclose(output[:, 0], whole[:, i], atol=1e-5)


@pytest.mark.parametrize("layer", [MultiHeadAttention(2), CrossAttention(2)])
def test_batches_of_other_sizes_are_refused(layer):
    sizes = r"\(4, 3, 8\) and \(2, 3, 8\)"
    with pytest.raises(ValueError, match=sizes):
        layer(normal(4, 3, 8), normal(2, 3, 8))
    with pytest.raises(ValueError, match=sizes):
        layer(keras.Input(batch_shape=(4, 3, 8)), keras.Input(batch_shape=(2, 3, 8)))
