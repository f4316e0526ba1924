"""What was saved as a `PretrainedTransformer` loads, with a warning only for who asks by name."""

import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
from backends import numpy
from elsewhere import INPUTS, decoded

import keras_mt
from keras_mt.models import ARCHITECTURES, Transformer, architecture_name, find_architecture

GOLDEN = Path(__file__).parent / "golden"


def test_a_file_of_the_former_class_gives_the_same_logits(tmp_path):
    expected = np.load(GOLDEN / "pretrained.npy")  # By the release before.
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        model = keras.models.load_model(GOLDEN / "pretrained.keras")
    np.testing.assert_allclose(numpy(model(INPUTS)), expected, atol=1e-5)
    np.testing.assert_allclose(decoded(model), expected, atol=1e-5)
    np.testing.assert_allclose(numpy(model.for_inference()(INPUTS)), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(again(INPUTS)), numpy(model(INPUTS)))


def test_the_former_name_is_a_transformer_with_marians_options():
    assert "pretrained" not in ARCHITECTURES
    with pytest.warns(DeprecationWarning, match='Transformer\\(positions="marian"'):
        former = ARCHITECTURES["pretrained"]
    with pytest.warns(DeprecationWarning):
        assert find_architecture("pretrained") is keras_mt.models.PretrainedTransformer is former
    assert architecture_name(former) == "pretrained"
    sizes = {"num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 8}
    model = former(20, **sizes)
    same = Transformer(20, **sizes, positions="marian", logits_bias=True)
    assert {**model.get_config(), "name": same.name} == same.get_config()
    with pytest.raises(KeyError):
        ARCHITECTURES["other"]
