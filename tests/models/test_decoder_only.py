from pathlib import Path

import keras
import numpy as np
import pytest

from keras_mt.models import DecoderOnly

SMALL = {"num_layers": 2, "d_model": 16, "num_heads": 4, "d_ff": 24, "max_length": 32}
LLAMA = {
    "activation": "silu",
    "norm": "rms",
    "positions": "rotary",
    "gated": True,
    "use_bias": False,
    "num_key_value_heads": 2,
    "tie_output": False,
}
VARIANTS = {
    "gpt2": {},
    "llama": LLAMA,
    "sinusoidal": {"positions": "sinusoidal", "padding_id": 19},
    "no positions": {"positions": None, "num_key_value_heads": 1},
}
variants = pytest.mark.parametrize(
    "name",
    ["gpt2", "llama", "sinusoidal", pytest.param("no positions", marks=pytest.mark.long)],
)


def small(name, **options):
    return DecoderOnly(20, **{**SMALL, "dropout": 0.0, **VARIANTS[name], **options})


def batch(model, rows=3):
    random = np.random.default_rng(0)
    source = random.integers(4, 19, (rows, 6))
    target = random.integers(4, 19, (rows, 5))
    target[:, 0] = 2
    source[1, 4:] = target[1, 3:] = model.padding_id
    return {"source": source, "target": target}


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(Path(__file__).parent / "golden" / "decoder_only.npz"))


def assign(layer, *arrays):
    layer.set_weights(arrays)


def test_it_is_transformers_llama_on_its_weights(golden):
    def weight(path, layer=None):
        path = path if layer is None else f"model.layers.{layer}.{path}"
        return golden[f"llama/weight/{path}.weight"]

    model = DecoderOnly(23, **SMALL, **LLAMA, rotary_base=500.0)
    model({"target": golden["tokens"]})
    model.embedding.embedding.embeddings.assign(weight("model.embed_tokens"))
    model.embedding.embedding.reverse_embeddings.assign(weight("lm_head").T)
    assign(model.final_norm, weight("model.norm"))
    for i, block in enumerate(model.blocks):
        for part, dense in (
            ("q", block.self_attention.query_dense),
            ("k", block.self_attention.key_dense),
            ("v", block.self_attention.value_dense),
            ("o", block.self_attention.output_dense),
        ):
            assign(dense, weight(f"self_attn.{part}_proj", i).T)
        for part, dense in (
            ("gate", block.feed_forward.gate_dense),
            ("up", block.feed_forward.inner_dense),
            ("down", block.feed_forward.output_dense),
        ):
            assign(dense, weight(f"mlp.{part}_proj", i).T)
        assign(block.self_attention_norm, weight("input_layernorm", i))
        assign(block.feed_forward_norm, weight("post_attention_layernorm", i))
    logits = array(model({"target": golden["tokens"]}))
    np.testing.assert_allclose(logits, golden["llama/logits"], atol=2e-4)


def test_it_is_transformers_gpt2_on_its_weights(golden):
    def both(path, i):
        path = f"gpt2/weight/transformer.h.{i}.{path}"
        return golden[f"{path}.weight"], golden[f"{path}.bias"]

    model = DecoderOnly(23, **SMALL)
    model({"target": golden["tokens"]})
    model.embedding.embedding.embeddings.assign(golden["gpt2/weight/transformer.wte.weight"])
    model.embedding.position_embeddings.assign(golden["gpt2/weight/transformer.wpe.weight"])
    assign(
        model.final_norm, *(golden[f"gpt2/weight/transformer.ln_f.{x}"] for x in ("weight", "bias"))
    )
    for i, block in enumerate(model.blocks):
        attention = block.self_attention
        kernels, biases = (np.split(x, 3, axis=-1) for x in both("attn.c_attn", i))
        for dense, kernel, bias in zip(
            (attention.query_dense, attention.key_dense, attention.value_dense),
            kernels,
            biases,
            strict=True,
        ):
            assign(dense, kernel, bias)
        assign(attention.output_dense, *both("attn.c_proj", i))
        assign(block.feed_forward.inner_dense, *both("mlp.c_fc", i))
        assign(block.feed_forward.output_dense, *both("mlp.c_proj", i))
        assign(block.self_attention_norm, *both("ln_1", i))
        assign(block.feed_forward_norm, *both("ln_2", i))
    logits = array(model({"target": golden["tokens"]}))
    np.testing.assert_allclose(logits, golden["gpt2/logits"], atol=2e-4)


@variants
def test_source_and_target_are_one_sequence(name):
    """With no padding in between, the logits are those of a language model on all of it."""
    model = small(name)
    inputs = batch(model)
    tokens = np.concatenate([inputs["source"], inputs["target"]], axis=1)
    logits = array(model(inputs))
    whole = array(model({"target": tokens}))[:, 6:]
    np.testing.assert_allclose(logits[[0, 2]], whole[[0, 2]], atol=1e-5)
    alone = model({"target": np.concatenate([tokens[1:2, :4], tokens[1:2, 6:]], axis=1)})
    np.testing.assert_allclose(logits[1], array(alone)[0, 4:], atol=1e-5)


@variants
def test_padding_of_the_source_may_stand_anywhere(name):
    model = small(name)
    p = model.padding_id
    source = np.array([[p, p, 5, 6], [5, p, 6, p], [5, 6, p, p], [p, 5, p, 6]])
    target = np.array([[2, 7, 9]] * 4)
    expected = array(model({"source": np.array([[5, 6]]), "target": target[:1]}))
    logits = array(model({"source": source, "target": target}))
    np.testing.assert_allclose(logits, np.repeat(expected, 4, axis=0), atol=1e-5)
    step, _ = model.decode_step(target[:, :1], 0, model.start_decoding(source))
    np.testing.assert_allclose(array(step)[:, 0], logits[:, 0], atol=1e-5)


@pytest.mark.parametrize(("positions", "scale"), [("learned", 1), ("sinusoidal", 4)])
def test_embeddings_are_as_large_as_their_sinusoids(positions, scale):
    embedding = small("gpt2", positions=positions).embedding
    found = array(embedding(np.array([[7], [9]])))[:, 0]
    rows = array(embedding.embedding.embeddings)
    np.testing.assert_allclose(found[0] - found[1], scale * (rows[7] - rows[9]), atol=1e-5)


def test_presets_have_the_sizes_of_the_papers():
    # GPT-2 small: 124 million parameters with 1,024 positions; the table goes on to the target.
    width, layers = (DecoderOnly.presets["gpt2"]["model"][n] for n in ("d_model", "num_layers"))
    one, two = (
        DecoderOnly.from_preset("gpt2", vocab_size=257, max_length=512, num_layers=n)
        for n in (1, 2)
    )
    for model in (one, two):
        model.build()
    one, two = one.count_params(), two.count_params()
    assert one + (layers - 1) * (two - one) + 50_000 * width == 124_439_808
    config = DecoderOnly.presets["llama3"]["model"]
    width, d_ff, heads = config["d_model"], config["d_ff"], config["num_heads"]
    block = 2 * width * width * (1 + config["num_key_value_heads"] / heads) + 3 * width * d_ff
    block += 2 * width
    # Llama 3 8B, with its vocabulary of 128,256.
    assert config["num_layers"] * block + width + 2 * 128_256 * width == 8_030_261_248


@pytest.mark.parametrize(
    ("argument", "value"), [("positions", "relative"), ("norm", "batch"), ("num_layers", 0)]
)
def test_impossible_arguments_are_refused_by_name(argument, value):
    with pytest.raises(ValueError, match=argument):
        small("gpt2", **{argument: value})
