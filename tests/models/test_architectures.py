"""What every translation model does, whatever its architecture and its options."""

import importlib
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from backends import check_quantized, numpy
from conftest import ROOT
from elsewhere import INPUTS, SOURCE, TARGET, decoded

from keras_mt.losses import CrossEntropy
from keras_mt.models import ARCHITECTURES, Seq2Seq, ensure_built

SIZES = {
    "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 32, "max_length": 32, "dropout": 0.1,
}  # fmt: skip
GPT2 = {
    "activation": "gelu", "norm": "layer", "positions": "learned", "gated": False,
    "use_bias": True, "num_key_value_heads": None, "tie_output": True,
}  # fmt: skip
# Architectures, and what their options are besides those of the smallest preset. Some have layers
# that may be taken for each other.
EXAMPLES = {
    "transformer": ("transformer", {"positions": "tensor2tensor", "tie_output": False}),
    "sublayers": ("transformer", {
        "encoder_sublayers": "ssfsff", "decoder_sublayers": "scscff", "pre_norm": True,
        "alignment_head": (1, 1),
    }),
    "rotary": ("transformer", {
        "positions": "rotary", "norm": "rms", "gated": True, "num_key_value_heads": 1,
        "padding_id": 19,
    }),
    "marian": ("transformer", {
        "decoder_sublayers": "rcf" * 2, "positions": "marian", "normalize_embeddings": True,
        "final_norm": True, "logits_bias": True, "zero_id": 2, "alignment_head": (0, 1),
    }),
    "relative": ("transformer", {
        "positions": "relative", "use_bias": False, "key_dim": 3, "scale_attention": False,
    }),
    "unequal sides": ("transformer", {
        "num_encoder_layers": 1, "num_decoder_layers": 2, "num_encoder_heads": 2,
        "num_decoder_heads": 4, "encoder_d_ff": 24, "decoder_d_ff": 40, "positions": "fairseq",
        "pre_norm": True, "scale_embeddings": False, "share_embeddings": False,
        "target_vocab_size": 33, "tie_output": False,
    }),
    "gru": ("recurrent", {"num_layers": 2}),
    "lstm": ("recurrent", {
        "cell": "lstm", "attention": "none", "share_embeddings": False, "tie_output": False,
        "padding_id": 19,
    }),
    "llama": ("decoder_only", {"num_layers": 2}),
    "gpt2": ("decoder_only", GPT2),
    "sinusoidal": ("decoder_only", {"positions": "sinusoidal", "padding_id": 19}),
    "no positions": ("decoder_only", {"positions": None, "num_key_value_heads": 1}),
    "experts": ("mixture_of_experts", {"sparse_step": 1, "capacity_factor": 0.1}),
}  # fmt: skip


def small(name, **options):
    """A small model, with the arguments of its preset where neither sizes nor options say others.

    Its routers, experts and biases of the logits are not near to doing nothing.
    """
    if name == "mixture_of_experts":
        options = {"sparse_step": 1, **options}
    keras.utils.set_random_seed(1)
    architecture = ARCHITECTURES[name]
    preset = {**architecture.presets["tiny"]["model"], "max_length": None}
    sizes = {argument: size for argument, size in SIZES.items() if argument in preset}
    model = ensure_built(architecture.from_preset("tiny", vocab_size=20, **{**sizes, **options}))
    for layer in getattr(model, "mixtures", []):
        layer.set_weights([2 * w for w in layer.get_weights()])
    for weight in model.weights:
        if "logits_bias" in weight.path:
            weight.assign(np.linspace(-1, 1, 20))
    return model


# Variants of others, left to the long tests or to the exhaustive ones.
LONG, EXHAUSTIVE = [pytest.mark.long], [pytest.mark.long, pytest.mark.exhaustive]
MARKS = {
    "unequal sides": LONG, "lstm": LONG, "rotary": EXHAUSTIVE, "gpt2": EXHAUSTIVE,
    "sinusoidal": EXHAUSTIVE, "no positions": EXHAUSTIVE,
}  # fmt: skip


long_but_for_the_transformer = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=LONG if n != "transformer" else []) for n in ARCHITECTURES]
)


@pytest.fixture(scope="module", params=[pytest.param(n, marks=MARKS.get(n, [])) for n in EXAMPLES])
def model(request):
    """One that no test changes."""
    name, options = EXAMPLES[request.param]
    return small(name, **options)


@pytest.fixture(scope="module")
def copy(model):
    return model.for_inference()


@pytest.fixture(scope="module")
def logits(model):
    """Those of `batch`."""
    return numpy(model(batch(model)))


REAL = np.arange(5) < [[5], [3], [5]]


def batch(model):
    """Three pairs, of which the second is shorter. Where it is not 0, the padding is the start."""
    random, p = np.random.default_rng(0), model.padding_id
    source, target = random.integers(4, 19, (3, 6)), random.integers(4, 19, (3, 5))
    target[:, 0] = p or 2
    source[1, 4:] = target[1, 3:] = p
    return {"source": source, "target": target}


def test_step_by_step_equals_the_whole_sequence(model, logits):
    assert logits.shape == (3, 5, model.target_vocab_size)
    np.testing.assert_allclose(decoded(model, **batch(model))[REAL], logits[REAL], atol=1e-5)


def test_attention_is_a_distribution_over_the_real_source(model, copy):
    inputs = batch(model)
    attention = model.attention(**inputs)
    if attention is not None:
        np.testing.assert_allclose(numpy(attention).sum(-1), 1, atol=1e-5)
        assert numpy(attention)[1, :, 4:].max() == 0
        copied = copy.attention(**inputs)
        np.testing.assert_allclose(numpy(copied)[REAL], numpy(attention)[REAL], atol=1e-5)


def test_neither_padding_nor_the_future_matters(model, logits):
    inputs = batch(model)
    padded = {
        side: np.pad(x, ((0, 0), (0, 3)), constant_values=model.padding_id)
        for side, x in inputs.items()
    }
    np.testing.assert_allclose(numpy(model(padded))[:, :5][REAL], logits[REAL], atol=1e-5)
    alone = model({"source": inputs["source"][1:2, :4], "target": inputs["target"][1:2, :3]})
    np.testing.assert_allclose(numpy(alone), logits[1:2, :3], atol=1e-4)
    changed = {side: x.copy() for side, x in inputs.items()}
    changed["target"][:, 3:] = 7
    np.testing.assert_allclose(numpy(model(changed))[:, :3], logits[:, :3], atol=1e-4)
    changed["source"][:, 0] = changed["source"][:, 0] % 15 + 4
    assert np.abs(numpy(model(changed)) - logits)[:, 0].max(axis=-1).min() > 1e-4


def test_dropout_is_on_in_training_alone(model, logits):
    inputs = batch(model)
    np.testing.assert_array_equal(numpy(model(inputs)), logits)
    assert np.abs(numpy(model(inputs, training=True)) - logits).max() > 0.1


def check_shortlisted(model):
    """Its logits are those that are chosen from all."""
    tokens, first, cache = np.array([7, 0, 3, 19]), TARGET[:, :1], model.start_decoding(SOURCE)
    logits, _ = model.decode_step(first, 0, cache)
    chosen, after = model.decode_step_for(tokens)(first, 0, cache)
    np.testing.assert_allclose(numpy(chosen), numpy(logits)[..., tokens], atol=1e-5)
    model.decode_step(TARGET[:, 1:2], 1, after)  # The cache is like that of `decode_step`.


def test_a_shortlist_gives_the_logits_of_its_tokens(model, copy):
    check_shortlisted(model)
    check_shortlisted(copy)  # With a kernel of its own.


def test_it_survives_a_file_and_is_copied_for_inference(model, copy, logits, tmp_path):
    inputs = batch(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert type(loaded) is type(model) and isinstance(loaded, Seq2Seq)
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(numpy(loaded(inputs)), logits)
    np.testing.assert_allclose(numpy(copy(inputs))[REAL], logits[REAL], atol=1e-4)
    half = model.for_inference("bfloat16")
    routers = {"float32"} if "Experts" in type(model).__name__ else set()
    assert {w.dtype for w in half.weights} == {"bfloat16"} | routers
    np.testing.assert_allclose(numpy(half(inputs))[REAL], logits[REAL], atol=0.3)


@pytest.mark.parametrize(
    "policy",
    [
        "mixed_bfloat16",
        pytest.param("mixed_float16", marks=EXHAUSTIVE),
    ],
)
@long_but_for_the_transformer
def test_a_step_of_training_in_a_mixed_policy(name, policy):
    model = small(name, dtype=policy)
    config, inputs = model.get_config(), batch(model)
    assert keras.dtype_policies.get(config["dtype"]).name == policy
    exact = ensure_built(type(model).from_config({**config, "dtype": "float32"}))
    assert model.compute_dtype == policy.removeprefix("mixed_")
    assert {w.dtype for w in model.trainable_weights} == {"float32"}
    logits = model(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    model.set_weights(exact.get_weights())
    logits = numpy(model(inputs))
    np.testing.assert_allclose(logits[REAL], numpy(exact(inputs))[REAL], rtol=0.05, atol=0.1)
    loss, before = CrossEntropy(padding_id=model.padding_id), model.get_weights()
    model.compile("adam", loss, run_eagerly=True)
    model.fit(inputs, inputs["target"], verbose=0)
    assert loss(inputs["target"], model(inputs)) < loss(inputs["target"], logits)
    for old, new, weight in zip(before, model.get_weights(), model.weights, strict=True):
        assert np.isfinite(new).all(), weight.path
        if weight.trainable and not weight.path.endswith("key/bias"):  # Which attention cancels.
            assert (old != new).any(), weight.path


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_preset_that_there_is_not_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"huge.*tiny, "):
        ARCHITECTURES[name].from_preset("huge", vocab_size=50)


@pytest.mark.usefixtures("quantizing")
@long_but_for_the_transformer
def test_int8_computes_the_same_to_its_rounding(name):
    model = small(name)
    check_quantized(model, INPUTS)
    logits = numpy(model(INPUTS))
    assert np.abs(decoded(model) - logits).max() < 0.1 * logits.std()
    check_shortlisted(model)
    with pytest.raises(ValueError, match="quantized"):
        model.for_inference("bfloat16")


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="between TensorFlow and others")
@pytest.mark.parametrize("backend", ["jax", "numpy", "torch"])
def test_it_trains_without_tensorflow_and_then_decodes_on_it(backend, tmp_path):
    importlib.import_module(backend)
    for name in ARCHITECTURES:
        model = small(name)
        model.save(tmp_path / f"{name}.keras")
        np.save(tmp_path / f"{name}.npy", numpy(model(INPUTS)))
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    subprocess.run(
        [sys.executable, ROOT / "tests" / "models" / "elsewhere.py", tmp_path, *ARCHITECTURES],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": path,
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # Compiling is most of the time.
        },
        check=True,
    )
    for name in ARCHITECTURES:
        model = keras.models.load_model(tmp_path / f"{name}.trained.keras")
        expected = np.load(tmp_path / f"{name}.trained.npy")
        np.testing.assert_allclose(decoded(model), expected, atol=1e-4, err_msg=name)
