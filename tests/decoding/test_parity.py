"""Beam search on a trained Marian model's weights gives what transformers' gives.

golden/make_marian.py makes the file; the suite needs neither torch nor transformers.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Transformer
from keras_mt.decoding import beam_search

D_MODEL = 64
# Marian's positions are all sines and then all cosines; ours take turns.
ORDER = np.arange(D_MODEL).reshape(2, -1).T.ravel()


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(Path(__file__).parent / "golden" / "marian.npz"))


@pytest.fixture(scope="module")
def model(golden):
    def weight(name):
        return golden[f"weight/model.{name}"]

    def set_dense(dense, name, order_in=slice(None), order_out=slice(None)):
        dense.kernel.assign(weight(f"{name}.weight").T[order_in][:, order_out])
        dense.bias.assign(weight(f"{name}.bias")[order_out])

    def set_norm(norm, name):
        norm.gamma.assign(weight(f"{name}.weight")[ORDER])
        norm.beta.assign(weight(f"{name}.bias")[ORDER])

    def set_attention(attention, norm, name):
        for part, dense in (
            ("q", attention.query_dense),
            ("k", attention.key_dense),
            ("v", attention.value_dense),
        ):
            set_dense(dense, f"{name}.{part}_proj", order_in=ORDER)
        set_dense(attention.output_dense, f"{name}.out_proj", order_out=ORDER)
        set_norm(norm, f"{name}_layer_norm")

    table = weight("shared.weight")[:, ORDER]
    model = Transformer(len(table), 2, D_MODEL, num_heads=4, d_ff=128, dropout=0.0, max_length=64)
    model.target_embedding.embedding.embeddings.assign(table)
    for side, blocks in (("encoder", model.encoder_blocks), ("decoder", model.decoder_blocks)):
        for i, block in enumerate(blocks):
            layer = f"{side}.layers.{i}"
            set_attention(block.self_attention, block.self_attention_norm, f"{layer}.self_attn")
            if side == "decoder":
                set_attention(
                    block.cross_attention, block.cross_attention_norm, f"{layer}.encoder_attn"
                )
            set_dense(block.feed_forward.inner_dense, f"{layer}.fc1", order_in=ORDER)
            set_dense(block.feed_forward.output_dense, f"{layer}.fc2", order_out=ORDER)
            set_norm(block.feed_forward_norm, f"{layer}.final_layer_norm")
    return model


def test_the_golden_outputs_are_of_many_lengths_and_tokens(golden):
    tokens = golden["tokens/1"]
    assert len(tokens) == 300
    assert len(set(np.count_nonzero(tokens, axis=1))) >= 10
    assert len(set(tokens.ravel())) >= 100
    assert np.mean(np.any(tokens == 3, axis=1)) > 0.99


@pytest.mark.parametrize("penalty", [0, 1])
def test_the_same_sequences_and_scores_as_transformers(golden, model, penalty):
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def search(source):
        return beam_search(
            model.decode_step,
            model.start_decoding(source),
            tf.fill([tf.shape(source)[0]], 40),
            beam_size=4,
            length_penalty=float(penalty),
        )

    expected = golden[f"tokens/{penalty}"]
    for i in range(0, len(expected), 50):
        source = golden["sources"][i : i + 50]
        found = search(source[:, : np.count_nonzero(source, axis=1).max()])
        tokens = found.tokens.numpy()[:, 0]
        tokens = np.pad(tokens, ((0, 0), (0, 40 - tokens.shape[1])))
        np.testing.assert_array_equal(tokens, expected[i : i + 50])
        np.testing.assert_allclose(
            found.scores[:, 0], golden[f"scores/{penalty}"][i : i + 50], atol=1e-4
        )
