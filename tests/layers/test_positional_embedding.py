import math
import re

import keras
import numpy as np
import pytest

from keras_mt.layers import (
    DecoderBlock,
    PositionalEmbedding,
    sinusoidal_positions,
    target_mask,
)


def test_sinusoids_are_the_papers_formula():
    positions = sinusoidal_positions(50, 6)
    for i in range(50):
        for j in range(3):
            angle = i / 10000 ** (2 * j / 6)
            assert positions[i, 2 * j] == pytest.approx(math.sin(angle), abs=1e-6)
            assert positions[i, 2 * j + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_computed_once():
    assert sinusoidal_positions(50, 6) is sinusoidal_positions(50, 6)


def test_embedding_is_scaled_and_positions_are_added():
    layer, tokens = PositionalEmbedding(10, 6), np.array([[3, 9, 3], [1, 0, 0]])
    output, table = layer(tokens), np.array(layer.embedding.embeddings)
    expected = table[tokens] * math.sqrt(6) + sinusoidal_positions(3, 6)
    np.testing.assert_allclose(output, expected, atol=1e-6)
    np.testing.assert_array_equal(output._keras_mask, tokens != 0)


def test_positions_can_be_given():
    layer, tokens = PositionalEmbedding(10, 6), np.array([[3, 9, 3]])
    whole = layer(tokens)
    for i in range(3):
        np.testing.assert_allclose(layer(tokens, positions=i)[:, i], whole[:, i], atol=1e-6)


def test_reverse_projects_with_the_embeddings_weights():
    layer = PositionalEmbedding(10, 6)
    hidden = layer(np.array([[3, 9, 0]]))
    logits = layer(hidden, reverse=True)
    expected = np.array(hidden) @ np.array(layer.embedding.embeddings).T
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_array_equal(logits._keras_mask, [[True, True, False]])
    assert len(layer.trainable_weights) == 1


def test_reverse_logits_are_float32_in_mixed_precision():
    layer = PositionalEmbedding(10, 6, dtype="mixed_bfloat16")
    logits = layer(layer(np.array([[3]])), reverse=True)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    # Yet the product is one of bfloat16, which costs half: no bit is set that it does not have.
    assert not (np.array(logits).view("uint32") & 0xFFFF).any()


def test_tokens_may_be_whole_numbers_but_not_in_half_precision():
    embedding, tokens = PositionalEmbedding(300, 8, dtype="mixed_bfloat16"), [[259, 3, 0]]
    expected = embedding(np.array(tokens))
    for dtype in ("int64", "uint16", "float32"):
        found = embedding(np.array(tokens, dtype))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found._keras_mask, expected._keras_mask)
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(ValueError, match=f"integer tokens.*{dtype} rounds"):
            embedding(keras.ops.cast(tokens, dtype))


def test_a_given_mask_is_carried_in_the_place_of_the_tokens():
    layer, tokens = PositionalEmbedding(10, 6), np.array([[0, 3, 0], [4, 0, 0]])
    mask = np.array([[True, True, False], [True, False, False]])
    found = layer(tokens, mask=mask)
    np.testing.assert_array_equal(found, layer(tokens))
    np.testing.assert_array_equal(found._keras_mask, mask)
    np.testing.assert_array_equal(layer(found, reverse=True)._keras_mask, mask)


@pytest.mark.parametrize("padding_id", [0, 9])
def test_the_start_may_be_the_padding(padding_id, tmp_path):
    """Position 0 counts in Keras's own loss, eagerly, symbolically and from a file."""
    embedding = PositionalEmbedding(10, 6, padding_id=padding_id, name="embedding")
    target = keras.Input((None,), dtype="int32")
    hidden = embedding(target, mask=target_mask(target, padding_id))
    model = keras.Model(target, embedding(DecoderBlock(2, 8)(hidden), reverse=True))
    p = padding_id
    tokens, labels = np.array([[p, 4, 5, p], [p, 2, p, p]]), np.array([[4, 5, 3, p], [2, 3, p, p]])
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)
    np.testing.assert_array_equal(target_mask(tokens, padding_id), mask)
    np.testing.assert_array_equal(model(tokens)._keras_mask, mask)
    np.testing.assert_array_equal(target_mask(tokens[:, :0], padding_id), mask[:, :0])

    logits = np.array(model(tokens))
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_probs, labels[..., None], -1)[mask].mean()
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
    )
    assert model.evaluate(tokens, labels, verbose=0) == pytest.approx(expected, rel=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(tokens)._keras_mask, mask)
    assert embedding.weights[0].path == "embedding/embedding/embeddings"
    assert len(embedding.weights) == 1


def test_odd_widths_and_long_sequences_are_refused():
    with pytest.raises(ValueError, match="d_model=7"):
        PositionalEmbedding(10, 7)
    with pytest.raises(ValueError, match=r"max_length=4.*5 tokens"):
        PositionalEmbedding(10, 6, max_length=4)(np.ones((1, 5), int))
    with pytest.raises(ValueError, match=r"max_length=4.*5 tokens"):
        PositionalEmbedding(10, 6, max_length=4)(keras.Input((5,), dtype="int32"))


@pytest.mark.parametrize("d_model", [1, 2, 3, 33])
@pytest.mark.parametrize("encoding", ["fairseq", "tensor2tensor"])
def test_widths_that_an_encoding_does_not_have_are_refused(encoding, d_model):
    with pytest.raises(ValueError, match=f"at least 4 for .*{encoding}.*d_model={d_model}"):
        PositionalEmbedding(100, d_model, encoding=encoding)


def test_tokens_of_another_rank_are_refused_unless_their_positions_are_given():
    layer = PositionalEmbedding(10, 6)
    for wrong in (np.ones((2, 1, 3), int), np.ones(3, int)):
        message = re.escape(f"takes tokens [batch, length]. Received: shape {wrong.shape}")
        with pytest.raises(ValueError, match=message):
            layer(wrong)
        with pytest.raises(ValueError, match=message):
            layer(keras.Input(batch_shape=wrong.shape, dtype="int32"))
    tokens = np.array([[[3, 9, 5]]])
    found = layer(tokens, positions=np.arange(3))
    np.testing.assert_array_equal(found[:, 0], layer(tokens[:, 0]))
    table = np.array(layer.embedding.embeddings)
    np.testing.assert_allclose(layer(table[:3], reverse=True), table[:3] @ table.T, atol=1e-6)


def test_states_without_a_length_are_projected_without_a_mask(tmp_path):
    """A classifier over the vocabulary: Keras's own loss takes its logits."""
    embedding, dense = PositionalEmbedding(10, 6), keras.layers.Dense(6)
    inputs = keras.Input((None,), dtype="int32")
    pooled = keras.layers.GlobalAveragePooling1D()(embedding(inputs))
    model = keras.Model(inputs, embedding(dense(pooled), reverse=True))
    tokens, labels = np.array([[3, 9, 0], [4, 0, 0]]), np.array([7, 5])
    states = [np.array(embedding(row[row > 0][None])).mean(1) for row in tokens]
    states = np.array(dense(np.concatenate(states)))
    logits = states @ np.array(embedding.embedding.embeddings).T
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -log_probs[[0, 1], labels].mean()
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
    )
    model.save(tmp_path / "model.keras")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        assert each.evaluate(tokens, labels, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert getattr(embedding(states, reverse=True), "_keras_mask", None) is None
    found = embedding(tokens.astype("float32"))  # Tokens again, after a call in reverse.
    np.testing.assert_array_equal(found._keras_mask, tokens != 0)
