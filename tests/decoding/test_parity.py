"""Beam search on a Marian model's weights gives what transformers' and CTranslate2's give.

golden/make_marian.py and make_stopping.py make the files; the suite needs none of the peers.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Transformer
from keras_mt.decoding import beam_search

ROWS = 100  # Of the golden file's 300.
EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]


def load(name):
    return dict(np.load(Path(__file__).parent / "golden" / name))


def transformer(golden):
    """A Transformer with the weights of a Marian model of 4 heads."""
    d_model = golden["weight/model.shared.weight"].shape[1]
    # Marian's positions are all sines and then all cosines; ours take turns.
    order = np.arange(d_model).reshape(2, -1).T.ravel()

    def weight(name):
        return golden[f"weight/model.{name}"]

    def set_dense(dense, name, order_in=slice(None), order_out=slice(None)):
        dense.kernel.assign(weight(f"{name}.weight").T[order_in][:, order_out])
        dense.bias.assign(weight(f"{name}.bias")[order_out])

    def set_norm(norm, name):
        norm.gamma.assign(weight(f"{name}.weight")[order])
        norm.beta.assign(weight(f"{name}.bias")[order])

    def set_attention(attention, norm, name):
        for part, dense in (
            ("q", attention.query_dense),
            ("k", attention.key_dense),
            ("v", attention.value_dense),
        ):
            set_dense(dense, f"{name}.{part}_proj", order_in=order)
        set_dense(attention.output_dense, f"{name}.out_proj", order_out=order)
        set_norm(norm, f"{name}_layer_norm")

    table = weight("shared.weight")[:, order]
    d_ff = len(weight("encoder.layers.0.fc1.bias"))
    layers = sum(name.endswith("fc1.bias") for name in golden) // 2
    model = Transformer(len(table), layers, d_model, 4, d_ff, dropout=0.0, max_length=64)
    model.target_embedding.embedding.embeddings.assign(table)
    for side, blocks in (
        ("encoder", model.encoder_stack.blocks),
        ("decoder", model.decoder_stack.blocks),
    ):
        for i, block in enumerate(blocks):
            layer = f"{side}.layers.{i}"
            set_attention(block.self_attention, block.self_attention_norm, f"{layer}.self_attn")
            if side == "decoder":
                set_attention(
                    block.cross_attention, block.cross_attention_norm, f"{layer}.encoder_attn"
                )
            set_dense(block.feed_forward.inner_dense, f"{layer}.fc1", order_in=order)
            set_dense(block.feed_forward.output_dense, f"{layer}.fc2", order_out=order)
            set_norm(block.feed_forward_norm, f"{layer}.final_layer_norm")
    return model


@pytest.fixture(scope="module")
def golden():
    return load("marian.npz")


@pytest.fixture(scope="module")
def model(golden):
    return transformer(golden)


def test_the_golden_outputs_are_of_many_lengths_and_tokens(golden):
    tokens = golden["tokens/1"][:ROWS]
    assert len(set(np.count_nonzero(tokens, axis=1))) >= 10
    assert len(set(tokens.ravel())) >= 100
    assert np.mean(np.any(tokens == 3, axis=1)) > 0.99


@pytest.mark.parametrize("penalty", [1, pytest.param(0, marks=EXHAUSTIVE)])
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
    for i in range(0, ROWS, 50):
        source = golden["sources"][i : i + 50]
        found = search(source[:, : np.count_nonzero(source, axis=1).max()])
        tokens = found.tokens.numpy()[:, 0]
        tokens = np.pad(tokens, ((0, 0), (0, 40 - tokens.shape[1])))
        np.testing.assert_array_equal(tokens, expected[i : i + 50])
        np.testing.assert_allclose(
            found.scores[:, 0], golden[f"scores/{penalty}"][i : i + 50], atol=1e-4
        )


STOPPING = load("stopping.npz")
CASES = json.loads(str(STOPPING["cases"]))
# Each rule, the forced tokens and the patience once; the others are left to the exhaustive ones.
QUICK = {0, 4, 5, 13, 17}


@pytest.fixture(scope="module")
def random_model():
    return transformer(STOPPING)


@pytest.mark.parametrize(
    "case",
    [pytest.param(i, marks=[] if i in QUICK else EXHAUSTIVE) for i in range(len(CASES))],
)
def test_a_search_stops_where_its_peer_does(random_model, case):
    options, sources = dict(CASES[case]), STOPPING["sources"].astype("int32")
    forced, count = options.pop("forced", None), len(sources)

    def step(*arguments):
        logits, cache = random_model.decode_step(*arguments)
        return logits + STOPPING["weight/final_logits_bias"].astype("float32"), cache

    found = beam_search(
        step,
        random_model.start_decoding(sources, options["beam_size"]),
        tf.fill([count], 12),
        prefix=None if forced is None else [[forced]] * count,
        forced_length=int(forced is not None),
        **options,
    )
    tokens = found.tokens.numpy()
    tokens = np.pad(tokens, ((0, 0), (0, 0), (0, 12 - tokens.shape[2])))
    np.testing.assert_array_equal(tokens, STOPPING[f"tokens/{case}"])
    if options["beam_size"] > 1:
        np.testing.assert_allclose(found.scores, STOPPING[f"scores/{case}"], rtol=1e-4, atol=1e-4)


def test_the_rules_find_other_hypotheses():
    """Else the tests above would tell no rule from another."""

    def tokens(**options):
        case = next(i for i, case in enumerate(CASES) if options.items() <= case.items())
        return STOPPING[f"tokens/{case}"]

    like = {"length_penalty": 1.0, "beam_size": 4}
    full, heuristic, never = (tokens(**like, early_stopping=r) for r in (True, False, "never"))
    patient = tokens(**like, patience=3.0)
    for one, other in ((full, heuristic), (heuristic, never), (full, never), (full, patient)):
        assert np.mean(np.any(one != other, axis=(1, 2))) > 0.1
    forced = tokens(force_end=True, early_stopping=True)
    assert np.all(np.any(forced == 3, axis=-1)) and np.any(forced[..., -1] == 3)
