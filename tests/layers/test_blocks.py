import re
from pathlib import Path

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
        _, scores = block(target, return_attention_scores=True)
        assert list(scores) == ["self_attention"]


def test_blocks_return_the_scores_of_their_attention():
    x, memory = normal(2, 5, 8), normal(2, 3, 8)
    own, cross = {"self_attention": (2, 5, 5)}, {"cross_attention": (2, 5, 3)}
    for block, inputs, shapes in (
        (EncoderBlock(2, 12), [x], own),
        (DecoderBlock(2, 12), [x, memory], own | cross),
        (DecoderBlock(2, 12, sublayers="rcf"), [x, memory], cross),
    ):
        outputs, scores = block(*inputs, return_attention_scores=True)
        np.testing.assert_allclose(outputs, block(*inputs), atol=1e-6)
        assert {name: tuple(x.shape[1:]) for name, x in scores.items()} == shapes
        for each in scores.values():
            np.testing.assert_allclose(np.array(each).sum(-1), 1, atol=1e-5)
        symbols = [keras.Input(x.shape[1:]) for x in inputs]
        outputs, scores = block(*symbols, return_attention_scores=True)
        assert outputs.shape == (None, 5, 8)
        assert {name: x.shape[1:] for name, x in scores.items()} == shapes


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("with_memory", [False, True])
def test_one_step_at_a_time_equals_the_whole_sequence(pre_norm, with_memory):
    block, x = DecoderBlock(2, 12, pre_norm=pre_norm), normal(3, 6, 8)
    memory, mask = (normal(3, 4, 8), random.random((3, 4)) < 0.7) if with_memory else (None, None)
    whole, x = block(x, memory, memory_mask=mask), keras.ops.convert_to_tensor(x)
    cache = block.initial_cache(3, memory)
    for i in range(6):
        output, cache = block.step(x[:, i : i + 1], cache, memory_mask=mask)
        np.testing.assert_allclose(output[:, 0], whole[:, i], atol=1e-5)


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("post relu", {"pre_norm": False, "activation": "relu"}),
        ("pre gelu", {"pre_norm": True, "activation": "gelu"}),
    ],
)
def test_blocks_are_torchs_on_its_weights(case, options):
    golden = dict(np.load(Path(__file__).parent / "golden" / "blocks.npz"))
    source, target, mask = golden["source"], golden["target"], golden["mask"]
    encoder, decoder = EncoderBlock(2, 12, **options), DecoderBlock(2, 12, **options)
    encoder(source)
    decoder(target, source)

    def assign(block, side, attentions, norms):
        def weights(path):
            return [golden[f"{case}/{side}/{path}{end}"] for end in ("weight", "bias")]

        for name, path in attentions.items():
            attention = getattr(block, name)
            kernel, bias = (
                np.split(golden[f"{case}/{side}/{path}.in_proj_{x}"], 3) for x in ("weight", "bias")
            )
            dense = attention.query_dense, attention.key_dense, attention.value_dense
            for each, w, b in zip(dense, kernel, bias, strict=True):
                each.set_weights([w.T, b])
            w, b = weights(f"{path}.out_proj.")
            attention.output_dense.set_weights([w.T, b])
        for dense, path in (
            (block.feed_forward.inner_dense, "linear1."),
            (block.feed_forward.output_dense, "linear2."),
        ):
            w, b = weights(path)
            dense.set_weights([w.T, b])
        for i, name in enumerate(norms, start=1):
            getattr(block, f"{name}_norm").set_weights(weights(f"norm{i}."))

    assign(encoder, "encoder", {"self_attention": "self_attn"}, ["self_attention", "feed_forward"])
    assign(
        decoder,
        "decoder",
        {"self_attention": "self_attn", "cross_attention": "multihead_attn"},
        ["self_attention", "cross_attention", "feed_forward"],
    )
    memory = keras.ops.convert_to_numpy(encoder(source, mask=mask))
    np.testing.assert_allclose(memory[mask], golden[f"{case}/memory"][mask], atol=1e-5)
    output = decoder(target, golden[f"{case}/memory"], memory_mask=mask)
    output = keras.ops.convert_to_numpy(output)
    np.testing.assert_allclose(output, golden[f"{case}/output"], atol=1e-5)


def test_sublayers_stand_in_their_order():
    """Blocks of some sublayers each, one after another, are the whole block with their weights."""
    x, memory = normal(2, 5, 8), normal(2, 3, 8)
    whole = DecoderBlock(2, 12, sublayers="cfs")
    expected = whole(x, memory)
    hidden = x
    for letter in "cfs":
        part = DecoderBlock(2, 12, sublayers=letter)
        part(hidden, memory)
        name = {"c": "cross_attention", "f": "feed_forward", "s": "self_attention"}[letter]
        for own in (name, f"{name}_norm"):
            getattr(part, own).set_weights(getattr(whole, own).get_weights())
        hidden = part(hidden, memory)
    np.testing.assert_allclose(hidden, expected, atol=1e-5)
    for wrong in ("", "ss", "sx"):
        with pytest.raises(ValueError, match=r"sublayers.*Received"):
            DecoderBlock(2, 12, sublayers=wrong)
    with pytest.raises(ValueError, match="'sf'"):
        EncoderBlock(2, 12, sublayers="sc")


def test_another_feed_forward_takes_the_place_and_survives_a_file(tmp_path):
    own = keras.layers.Dense(8, activation="tanh")
    block, x = EncoderBlock(2, 12, pre_norm=True, feed_forward=own), normal(2, 5, 8)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, block(inputs))
    hidden = x + np.array(block.self_attention(norm(x), norm(x)))
    expected = hidden + np.tanh(norm(hidden) @ np.array(own.kernel) + np.array(own.bias))
    np.testing.assert_allclose(model(x), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(x), model(x))


@pytest.mark.parametrize("rotary_base", [None, 100.0])
def test_a_beginning_and_steps_equal_the_whole_sequence(rotary_base):
    options = {"norm": "rms", "gated": True, "use_bias": False, "num_key_value_heads": 1}
    block, x = (
        DecoderBlock(2, 12, pre_norm=True, rotary_base=rotary_base, **options),
        normal(2, 6, 8),
    )
    whole, x = block(x), keras.ops.convert_to_tensor(x)
    empty, places = block.initial_cache(2), np.arange(3)
    outputs, begun = block.step(x[:, :3], empty, mask=np.tri(3, dtype=bool), positions=places)
    np.testing.assert_allclose(outputs, whole[:, :3], atol=1e-5)
    for before in (begun, {**empty, "prefix": begun["self_attention"]}):
        cache = before
        for i in range(3, 6):
            output, cache = block.step(x[:, i : i + 1], cache, positions=i)
            np.testing.assert_allclose(output[:, 0], whole[:, i], atol=1e-5)
    if rotary_base:
        with pytest.raises(ValueError, match="positions"):
            block.step(x[:, :1], empty)


def test_sequences_without_a_batch_are_refused():
    message = re.escape("takes [batch, length, width]. Received: shape (5, 8)")
    x, unbatched = normal(1, 5, 8), normal(5, 8)
    for block, batched, inputs in [
        (EncoderBlock(2, 12), [x], [unbatched]),
        (DecoderBlock(2, 12), [x], [unbatched]),
        (DecoderBlock(2, 12, sublayers="cf"), [x, x], [x, unbatched]),
    ]:
        for _ in range(2):  # Before it is built, and after.
            with pytest.raises(ValueError, match=message):
                block(*inputs)
            block(*batched)
    with pytest.raises(ValueError, match=message):
        EncoderBlock(2, 12)(keras.Input(batch_shape=(5, 8)))


BLOCKS = {
    "encoder": (EncoderBlock, {}, 1),
    "feed-forward alone": (EncoderBlock, {"sublayers": "f"}, 1),
    "decoder": (DecoderBlock, {}, 2),
    "language model": (DecoderBlock, {}, 1),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_other_ranks_and_integers_are_refused_by_the_layers_name(name):
    block_class, options, count = BLOCKS[name]
    block = block_class(2, 12, **options, name="my_block")
    for wrong, message in (
        (normal(2, 3, 4, 8), r"my_block takes \[batch, length, width\].*\(2, 3, 4, 8\)"),
        (np.ones((2, 5, 8), "int32"), r"my_block takes floats.* int32 of shape \(2, 5, 8\)"),
    ):
        for place in range(count):
            inputs = [normal(2, 5, 8)] * count
            inputs[place] = wrong
            with pytest.raises(ValueError, match=message):
                block(*inputs)
            with pytest.raises(ValueError, match=message):
                block(*(keras.Input(batch_shape=x.shape, dtype=x.dtype) for x in inputs))


@pytest.mark.parametrize(("order", "pre_norm"), [("sf", False), ("fs", True)])
def test_scores_are_of_the_mask_that_the_inputs_carry(order, pre_norm):
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    x = normal(2, 5, 8)
    carries = keras.layers.Masking()(x * mask[..., None])
    plain = keras.ops.convert_to_tensor(x * mask[..., None])
    encoder = EncoderBlock(2, 12, pre_norm=pre_norm, sublayers=order)
    language = DecoderBlock(2, 12, pre_norm=pre_norm, sublayers=order)
    decoder = DecoderBlock(2, 12, pre_norm=pre_norm, sublayers=f"c{order}")
    for block, inputs in (
        (encoder, [(carries, plain)]),
        (language, [(carries, plain)]),
        (decoder, [(carries, plain)] * 2),
    ):
        carrying, others = zip(*inputs, strict=True)
        called = block(*carrying)
        outputs, scores = block(*carrying, return_attention_scores=True)
        np.testing.assert_allclose(outputs, called, atol=1e-6)
        assert len(scores) == len(block.sublayers) - 1
        for sublayer, weights in scores.items():
            assert np.all(np.array(weights)[1, ..., 3:] == 0), sublayer
        name = "mask" if block is encoder else "target_mask"
        masks = {name: mask} | ({"memory_mask": mask} if block is decoder else {})
        np.testing.assert_allclose(outputs, block(*others, **masks), atol=1e-6)
        # A mask that is given holds in place of the carried one.
        given = {name: np.ones_like(mask) for name in masks}
        np.testing.assert_allclose(block(*carrying, **given), block(*others), atol=1e-6)
