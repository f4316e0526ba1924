import keras
import numpy as np
import pytest

from keras_mt.layers import DecoderBlock, EncoderBlock

random = np.random.default_rng(0)


def normal(*shape):
    return random.normal(size=shape).astype("float32")


def norm(x):
    x = np.array(x)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_encoder_block_is_the_papers_formula(pre_norm):
    block, x = EncoderBlock(2, 12, pre_norm=pre_norm), normal(2, 5, 8)
    block(x)

    def attention(x):
        return np.array(block.self_attention(x, x))

    def feed_forward(x):
        inner, outer = block.feed_forward.inner_dense, block.feed_forward.output_dense
        hidden = np.maximum(x @ np.array(inner.kernel) + np.array(inner.bias), 0)
        return hidden @ np.array(outer.kernel) + np.array(outer.bias)

    if pre_norm:
        expected = x + attention(norm(x))
        expected = expected + feed_forward(norm(expected))
    else:
        expected = norm(x + attention(x))
        expected = norm(expected + feed_forward(expected))
    np.testing.assert_allclose(block(x), expected, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoder_block_is_the_papers_formula(pre_norm):
    block = DecoderBlock(2, 12, pre_norm=pre_norm)
    x, memory = normal(2, 5, 8), normal(2, 3, 8)
    block(x, memory)
    expected = x
    for sublayer in (
        block.self_attention,
        lambda x: block.cross_attention(x, memory),
        block.feed_forward,
    ):
        if pre_norm:
            expected = expected + np.array(sublayer(norm(expected)))
        else:
            expected = norm(expected + np.array(sublayer(expected)))
    np.testing.assert_allclose(block(x, memory), expected, atol=1e-5)


def test_decoder_block_without_memory_is_a_language_models_block(tmp_path):
    block, x = DecoderBlock(2, 12), normal(2, 5, 8)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, block(inputs))
    changed = x.copy()
    changed[:, 3:] += 1
    np.testing.assert_allclose(model(x)[:, :3], model(changed)[:, :3], atol=1e-5)
    assert not any("cross_attention" in w.path for w in block.weights)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(x), model(x))
    with pytest.raises(ValueError, match="built without memory"):
        block(x, normal(2, 3, 8))
    with pytest.raises(ValueError, match="built without memory"):
        block(inputs, keras.Input((None, 8)))
    for target in (x, inputs):
        with pytest.raises(ValueError, match="no memory"):
            block(target, return_attention_scores=True)


def test_decoder_block_returns_the_scores_of_its_cross_attention():
    block, x, memory = DecoderBlock(2, 12), normal(2, 5, 8), normal(2, 3, 8)
    outputs, scores = block(x, memory, return_attention_scores=True)
    np.testing.assert_allclose(outputs, block(x, memory), atol=1e-6)
    assert scores.shape == (2, 2, 5, 3)
    np.testing.assert_allclose(np.sum(scores, -1), 1, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("with_memory", [False, True])
def test_one_step_at_a_time_equals_the_whole_sequence(pre_norm, with_memory):
    block, x = DecoderBlock(2, 12, pre_norm=pre_norm), normal(3, 6, 8)
    memory, mask = (normal(3, 4, 8), random.random((3, 4)) < 0.7) if with_memory else (None, None)
    whole = block(x, memory, memory_mask=mask)
    cache = block.self_attention.empty_cache(3)
    memory_cache = block.cross_attention.project(memory) if with_memory else None
    for i in range(6):
        output, cache = block.step(
            x[:, i : i + 1], cache, memory_cache=memory_cache, memory_mask=mask
        )
        np.testing.assert_allclose(output[:, 0], whole[:, i], atol=1e-5)
