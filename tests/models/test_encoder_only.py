import inspect
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_mt.layers import TokenMasking
from keras_mt.losses import CrossEntropy
from keras_mt.metrics import TokenAccuracy
from keras_mt.models import EncoderOnly

GOLDEN = Path(__file__).parent / "golden" / "encoder_only.npz"
SMALL = {"vocab_size": 21, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 32}
VARIANTS = [
    {},
    {"padding_id": 20, "activation": "silu"},
]
variants = pytest.mark.parametrize("variant", VARIANTS)
random = np.random.default_rng(0)


def batch(padding_id=0):
    tokens = random.integers(1, 20, (3, 6))
    tokens[1, 4:] = padding_id
    return tokens


def test_it_computes_what_bert_does():
    golden = np.load(GOLDEN)
    weights = {n.partition("/")[2]: golden[n] for n in golden.files if n.startswith("weight/")}
    model = EncoderOnly(23, 2, 16, 4, 24, max_length=12)

    def layer(name):
        """Of a dense layer or a normalization, in Keras's layout."""
        weight = weights.pop(f"{name}.weight")
        return [weight.T, weights.pop(f"{name}.bias")]

    position, token, segment = (
        weights.pop(f"bert.embeddings.{name}_embeddings.weight")
        for name in ("position", "word", "token_type")
    )
    bias = weights.pop("cls.predictions.bias")
    arrays = [position + segment[0], token]  # The first of a pair of sentences.
    arrays += layer("bert.embeddings.LayerNorm")
    for i in range(2):
        names = ("intermediate.dense", "output.dense", "output.LayerNorm", "attention.self.query")
        names += ("attention.self.key", "attention.self.value", "attention.output.dense")
        for name in (*names, "attention.output.LayerNorm"):
            arrays += layer(f"bert.encoder.layer.{i}.{name}")
    arrays += layer("cls.predictions.transform.dense") + layer(
        "cls.predictions.transform.LayerNorm"
    )
    assert not weights
    model.set_weights(arrays)
    tokens = golden["tokens"]
    real = tokens != 0
    for found, expected in (
        (model(tokens), golden["logits"] - bias),
        (model.encoder(tokens), golden["hidden"]),
    ):
        np.testing.assert_allclose(np.array(found)[real], expected[real], atol=2e-5)


def test_presets_have_the_sizes_of_berts():
    # Projections with biases and norms; embeddings, positions and head.
    d, d_ff = 128, 512
    block = 4 * (d * d + d) + 2 * d * d_ff + d_ff + d + 4 * d
    expected = 100 * d + 512 * d + 2 * d + 4 * block + d * d + 3 * d
    assert EncoderOnly.from_preset("tiny", vocab_size=100).count_params() == expected
    # Devlin et al. 2019, section 3, and the defaults.
    sizes = {"num_layers": 12, "d_model": 768, "num_heads": 12, "d_ff": 3072, "dropout": 0.1}
    assert EncoderOnly.presets["base"]["model"] == sizes
    defaults = inspect.signature(EncoderOnly).parameters
    assert {name: defaults[name].default for name in sizes} == sizes


def test_what_is_impossible_is_refused_by_name():
    with pytest.raises(ValueError, match=r"huge.*tiny, base"):
        EncoderOnly.from_preset("huge", vocab_size=50)
    with pytest.raises(ValueError, match=r"width=16, num_heads=3"):
        EncoderOnly(**{**SMALL, "num_heads": 3})


@variants
def test_it_survives_a_file_and_so_does_its_encoder(variant, tmp_path):
    model = EncoderOnly(**SMALL, **variant)
    tokens = batch(model.padding_id)
    assert model(tokens).shape == (3, 6, 21) and model.output_shape == (None, None, 21)
    model.get_layer("encoder_0").trainable = False
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert type(loaded) is EncoderOnly and loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded(tokens), model(tokens))
    model.encoder.save(tmp_path / "encoder.keras")
    encoder = keras.models.load_model(tmp_path / "encoder.keras", safe_mode=True)
    np.testing.assert_array_equal(encoder(tokens), model.encoder(tokens))
    np.testing.assert_array_equal(encoder(tokens)._keras_mask, tokens != model.padding_id)


@variants
def test_padding_does_not_matter_and_what_follows_does(variant):
    model = EncoderOnly(**SMALL, **variant)
    tokens = batch(model.padding_id)
    logits = np.array(model(tokens))
    padded = np.pad(tokens, ((0, 0), (0, 3)), constant_values=model.padding_id)
    np.testing.assert_allclose(np.array(model(padded))[:, :6], logits, atol=1e-5)
    np.testing.assert_allclose(np.array(model(tokens[1:2, :4])), logits[1:2, :4], atol=1e-5)
    changed = tokens.copy()
    changed[0, 5] = changed[0, 5] % 19 + 1
    assert np.abs(np.array(model(changed)) - logits)[0, 0].max() > 1e-3


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_and_near_in_half_precision(policy):
    exact, tokens = EncoderOnly(**SMALL), batch()
    model = EncoderOnly.from_config(EncoderOnly(**SMALL, dtype=policy).get_config())
    assert model.compute_dtype == model.encoder.output.dtype == policy.removeprefix("mixed_")
    model.set_weights(exact.get_weights())
    logits = model(tokens)
    assert keras.backend.standardize_dtype(logits.dtype) == model.output.dtype == "float32"
    np.testing.assert_allclose(logits, exact(tokens), atol=0.1)


def test_a_classifier_on_the_encoder_trains_its_weights():
    model, tokens = EncoderOnly(**SMALL), batch()
    assert {id(w) for w in model.encoder.weights} < {id(w) for w in model.weights}
    pooled = keras.layers.GlobalAveragePooling1D()(model.encoder.output)
    classifier = keras.Model(model.encoder.input, keras.layers.Dense(2)(pooled))
    np.testing.assert_allclose(  # The mask came along.
        classifier(tokens)[1], classifier(tokens[1:2, :4])[0], atol=1e-5
    )
    before = np.array(model(tokens))
    classifier.compile("sgd", "mse", run_eagerly=True)
    classifier.fit(tokens, np.ones((3, 2)), verbose=0)
    assert np.abs(np.array(model(tokens)) - before).max() > 1e-3


def test_it_learns_to_fill_in_what_is_masked():
    keras.utils.set_random_seed(1)
    first = random.integers(4, 9, (64, 1))
    tokens = np.concatenate([np.full((64, 1), 2), *[first] * 4], axis=1)
    masked, labels = TokenMasking(9, selection_rate=0.3, seed=1)(tokens)
    model = EncoderOnly(10, 1, 32, 2, 64, dropout=0.0, max_length=8)
    model.compile(
        keras.optimizers.Adam(0.02), CrossEntropy(), metrics=[TokenAccuracy()], run_eagerly=True
    )
    history = model.fit(masked, labels, batch_size=64, epochs=12, verbose=0).history
    assert history["token_accuracy"][-1] > 0.9
