"""What every architecture does that has a name on the command line."""

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

from keras_mt.models import ARCHITECTURES, ensure_built

SIZES = {"num_layers": 2, "d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.1}
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def small(name):
    """A small model with the arguments of its preset, where they are not sizes."""
    keras.utils.set_random_seed(1)
    architecture = ARCHITECTURES[name]
    preset = architecture.presets["tiny"]["model"]
    sizes = {argument: size for argument, size in SIZES.items() if argument in preset}
    return ensure_built(architecture.from_preset("tiny", vocab_size=20, **sizes))


@every_architecture
def test_step_by_step_equals_the_whole_sequence(name):
    model = small(name)
    np.testing.assert_allclose(decoded(model), numpy(model(INPUTS)), atol=1e-5)


def check_shortlisted(model):
    """Its logits are those that are chosen from all."""
    tokens, first, cache = np.array([7, 0, 3, 19]), TARGET[:, :1], model.start_decoding(SOURCE)
    logits, _ = model.decode_step(first, 0, cache)
    chosen, after = model.decode_step_for(tokens)(first, 0, cache)
    np.testing.assert_allclose(numpy(chosen), numpy(logits)[..., tokens], atol=1e-5)
    model.decode_step(TARGET[:, 1:2], 1, after)  # The cache is like that of `decode_step`.


@every_architecture
def test_a_shortlist_gives_the_logits_of_its_tokens(name):
    model = small(name)
    for weight in model.weights:
        if "logits_bias" in weight.path:
            weight.assign(np.linspace(-1, 1, 20))
    check_shortlisted(model)
    check_shortlisted(model.for_inference())  # With a kernel of its own.


@pytest.mark.usefixtures("quantizing")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "transformer" else pytest.mark.long)
        for name in ARCHITECTURES
    ],
)
def test_int8_computes_the_same_to_its_rounding(name, tmp_path):
    model = small(name)
    loaded = check_quantized(model, INPUTS, tmp_path / "model.keras")
    logits = numpy(model(INPUTS))
    for each in (model, loaded):
        assert np.abs(decoded(each) - logits).max() < 0.1 * logits.std()
        check_shortlisted(each)
        with pytest.raises(ValueError, match="quantized"):
            each.for_inference("bfloat16")


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
