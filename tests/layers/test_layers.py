"""What every layer must survive, whatever it computes."""

import functools

import keras
import numpy as np
import pytest
from backends import numpy

from keras_mt import layers

WIDTH, BATCH, LENGTH = 8, 2, 5


def tokens():
    return np.array([[5, 7, 3, 0, 0], [4, 6, 9, 8, 3]])


def states(length=LENGTH):
    return np.random.default_rng(length).normal(size=(BATCH, length, WIDTH)).astype("float32")


# class, or class and variant: (constructor arguments, inputs of the call)
CASES = {
    "PositionalEmbedding": ({"vocab_size": 11, "d_model": WIDTH}, [tokens()]),
    "PositionalEmbedding, learned": (
        {"vocab_size": 11, "d_model": WIDTH, "encoding": "learned", "scale": False},
        [tokens()],
    ),
    "MultiHeadAttention": ({"num_heads": 2}, [states(), states(3)]),
    "CausalSelfAttention": ({"num_heads": 2}, [states()]),
    "CrossAttention": ({"num_heads": 2}, [states(), states(3)]),
    "MultiHeadAttention, other widths": (
        {"num_heads": 3, "key_dim": 5, "value_dim": 2, "use_bias": False},
        [states(), states(3)],
    ),
    "CausalSelfAttention, grouped": (
        {"num_heads": 4, "num_key_value_heads": 2, "rotary_base": 100.0},
        [states()],
    ),
    "FeedForward, gated": (
        {"d_ff": 12, "activation": "silu", "gated": True, "use_bias": False},
        [states()],
    ),
    "FeedForward": ({"d_ff": 12, "activation": "gelu"}, [states()]),
    "MixtureOfExperts": ({"num_experts": 4, "d_ff": 12, "capacity_factor": 2.0}, [states()]),
    "MixtureOfExperts, gated": (
        {"num_experts": 3, "d_ff": 12, "top_k": 1, "gated": True, "use_bias": False},
        [states()],
    ),
    "EncoderBlock": ({"num_heads": 2, "d_ff": 12, "pre_norm": True}, [states()]),
    "EncoderBlock, another order": ({"num_heads": 2, "d_ff": 12, "sublayers": "fs"}, [states()]),
    "DecoderBlock, Llama's": (
        {
            "num_heads": 4,
            "d_ff": 12,
            "activation": "silu",
            "pre_norm": True,
            "norm": "rms",
            "gated": True,
            "use_bias": False,
            "num_key_value_heads": 2,
            "rotary_base": 100.0,
        },
        [states()],
    ),
    "DecoderBlock": ({"num_heads": 2, "d_ff": 12}, [states(), states(3)]),
    "DecoderBlock, recurrent": (
        {"num_heads": 2, "d_ff": 12, "sublayers": "rcf"},
        [states(), states(3)],
    ),
    "SSRU": ({}, [states()]),
}
every_layer = pytest.mark.parametrize("name", CASES)
# For what takes long: one layer of each family; the other classes in the long tests, and variants
# of them in the exhaustive ones.
FAMILIES = {
    "PositionalEmbedding", "MultiHeadAttention", "FeedForward", "MixtureOfExperts", "DecoderBlock",
    "SSRU",
}  # fmt: skip
EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]


def by_family(names):
    def marks(name):
        return [] if name in FAMILIES else EXHAUSTIVE if "," in name else [pytest.mark.long]

    return pytest.mark.parametrize("name", [pytest.param(n, marks=marks(n)) for n in names])


every_family = by_family(CASES)


def make(name, **kwargs):
    arguments, inputs = CASES[name]
    return getattr(layers, name.split(",")[0])(**{**arguments, **kwargs}), inputs


def functional(layer, inputs):
    symbols = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in inputs]
    return keras.Model(symbols, layer(*symbols))


@functools.cache
def built(name):
    """A layer that no test changes, a model of it alone, inputs and what they give."""
    layer, inputs = make(name, dropout=0.5)
    model = functional(layer, inputs)
    return layer, model, inputs, numpy(model(inputs))


@keras.saving.register_keras_serializable()
class Composed(keras.Model):
    """A user's own model around a layer."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer

    def call(self, inputs):
        return self.layer(*inputs)

    def get_config(self):
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(cls, config):
        layer = keras.saving.deserialize_keras_object(config.pop("layer"))
        return cls(layer, **config)


def test_every_public_layer_is_a_case():
    public = {n for n in layers.__all__ if isinstance(getattr(layers, n), type)}
    # Not from sequences to sequences: they have files of their own.
    assert public - {"RelativePositions", "TokenMasking"} == {name.split(",")[0] for name in CASES}


@every_layer
def test_config_and_weights_round_trip_through_a_file(name, tmp_path):
    layer, model, inputs, expected = built(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_array_equal(loaded(inputs), expected)
    copy = loaded.layers[-1]
    assert type(copy) is type(layer)
    assert copy.get_config() == layer.get_config()
    for argument, value in {**CASES[name][0], "dropout": 0.5}.items():
        if argument != "activation":
            assert getattr(copy, argument) == value
    assert [w.shape for w in copy.weights] == [w.shape for w in layer.weights]


@every_family
def test_weights_survive_a_file_of_a_model_that_is_built_by_its_call(name, tmp_path):
    layer, inputs = make(name)
    models = [(Composed(layer), inputs)]
    if len(inputs) == 1:
        models.append((keras.Sequential([layer, keras.layers.Dense(3)]), inputs[0]))
    for model, given in models:
        expected = model(given)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(given), expected)


@every_layer
@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)]
)
def test_half_precision_is_near_single_and_symbolically_so(name, policy, tolerance):
    exact, _, inputs, expected = built(name)
    layer, _ = make(name, dtype=policy)
    model = functional(layer, inputs)
    layer.set_weights(exact.get_weights())
    assert all(w.dtype == "float32" for w in layer.weights)
    output = layer(*inputs)
    np.testing.assert_allclose(numpy(output), expected, atol=tolerance)
    assert model.output_shape[1:] == tuple(output.shape[1:])
    assert layer.compute_output_shape(*(x.shape for x in inputs)) == tuple(output.shape)
    assert keras.backend.standardize_dtype(output.dtype) == model.output.dtype
    assert model.output.dtype == policy.removeprefix("mixed_")


@every_layer
def test_dropout_only_in_training(name):
    layer, _, inputs, still = built(name)
    np.testing.assert_array_equal(still, layer(*inputs, training=False))
    assert np.abs(still - layer(*inputs, training=True)).max() > 1e-3


@every_layer
def test_the_mask_passes_through(name):
    layer, _, inputs, _ = built(name)
    mask = tokens() != 0
    if name.startswith("PositionalEmbedding"):
        output = layer(*inputs)
    else:
        first = keras.layers.Masking()(inputs[0] * mask[..., None])
        output = layer(first, *inputs[1:])
    np.testing.assert_array_equal(output._keras_mask, mask)


@pytest.mark.parametrize("name", ["CausalSelfAttention", "EncoderBlock", "MixtureOfExperts"])
def test_an_explicit_mask_of_a_layer_of_one_input_is_carried_on(name):
    layer, inputs = make(name)
    mask = tokens() != 0
    np.testing.assert_array_equal(layer(*inputs, mask=mask)._keras_mask, mask)
    symbols = keras.Input((None, WIDTH)), keras.Input((None,), dtype="bool")
    model = keras.Model(symbols, layer(symbols[0], mask=symbols[1]))
    np.testing.assert_array_equal(model([*inputs, mask])._keras_mask, mask)


@pytest.mark.parametrize(
    ("name", "argument", "used"),
    [
        ("MultiHeadAttention", "query_mask", False),
        ("CrossAttention", "target_mask", False),
        ("DecoderBlock", "target_mask", True),
    ],
)
def test_an_explicit_mask_of_the_first_of_two_inputs_is_not_carried_on(name, argument, used):
    layer, (target, memory) = make(name)
    carried = np.array([[True] * LENGTH, [True] * 3 + [False] * 2])
    explicit = {argument: np.array([[False] + [True] * 4] * BATCH)}
    output = layer(target, memory, **explicit)
    assert getattr(output, "_keras_mask", None) is None
    assert np.allclose(output, layer(target, memory), atol=1e-6) != used
    masked = keras.layers.Masking()(target * carried[..., None])
    for arguments in ({}, explicit):
        found = layer(masked, memory, **arguments)._keras_mask
        np.testing.assert_array_equal(found, carried)


@every_family
def test_gradients_reach_every_weight_under_fit(name):
    layer, inputs = make(name, dropout=0.1, dtype="mixed_float16")
    model = functional(layer, inputs)
    model.compile("sgd", "mse", run_eagerly=True)  # Op by op, to save compiling.
    before = [np.array(w) for w in layer.trainable_weights]
    labels = np.random.default_rng(0).normal(size=layer(*inputs).shape)
    model.fit(inputs, labels, verbose=0)
    for weight, old in zip(layer.trainable_weights, before, strict=True):
        # A bias of the keys shifts all scores of a query alike: softmax does not see it.
        if not weight.path.endswith("key/bias"):
            assert 0 < np.abs(weight - old).max() < np.inf, weight.path


@every_layer
def test_impossible_dropout_is_refused_by_name(name):
    for dropout in (-0.1, 1.0, 7):
        with pytest.raises(ValueError, match=r"dropout.*dropout="):
            make(name, dropout=dropout)


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][0].get("num_heads") == 2])
def test_heads_that_do_not_divide_the_width_are_refused_by_name(name):
    layer, inputs = make(name, num_heads=3)
    with pytest.raises(ValueError, match=r"width=8, num_heads=3"):
        layer(*inputs)


SIZES = {
    "num_heads", "d_ff", "vocab_size", "d_model", "key_dim", "value_dim", "num_experts", "top_k",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CASES if SIZES & CASES[n][0].keys()])
def test_sizes_must_be_positive_integers(name):
    for argument in sorted(SIZES & CASES[name][0].keys()):
        for value in (0, -2, 1.5):
            with pytest.raises(ValueError, match=argument):
                make(name, **{argument: value})
