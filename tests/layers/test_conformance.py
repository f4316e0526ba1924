"""What Keras asks of a layer of its own, and what `quantize` makes of ours."""

import inspect

import keras
import numpy as np
import pytest
from backends import check_quantized
from keras.src import testing  # Private, and touched here alone.
from test_layers import CASES, every_family, functional, make, tokens

from keras_mt.layers import EncoderBlock, FeedForward, PositionalEmbedding


def conforms(layer_class, arguments, inputs):
    checks = {
        "supports_masking": True,
        "expected_output_shape": tuple(layer_class(**arguments)(*inputs).shape),
    }
    if len(inputs) == 1:
        checks["input_data"] = inputs[0]
    else:
        # Its training takes one input: test_layers.py trains the others.
        names = [n for n in inspect.signature(layer_class.call).parameters if n != "self"]
        shapes = {f"{n}_shape": x.shape for n, x in zip(names, inputs, strict=False)}
        checks["input_shape"], checks["run_training_check"] = shapes, False
        checks["input_dtype"] = dict.fromkeys(shapes, "float32")
    testing.TestCase().run_layer_test(layer_class, arguments, **checks)


@every_family
def test_it_conforms_to_keras(name):
    layer, inputs = make(name)
    conforms(type(layer), {**CASES[name][0], "dropout": 0.3}, inputs)


def test_keras_finds_what_does_not_conform():
    @keras.saving.register_keras_serializable()
    class Forgetful(FeedForward):
        def get_config(self):
            return {**super().get_config(), "d_ff": self.d_ff + 1}

    with pytest.raises(AssertionError, match="d_ff"):
        conforms(Forgetful, {"d_ff": 12}, [np.ones((2, 3, 8), "float32")])


@pytest.mark.usefixtures("quantizing")
@every_family
def test_int8_computes_the_same_to_its_rounding(name):
    layer, inputs = make(name)
    check_quantized(functional(layer, inputs), inputs)


@pytest.mark.usefixtures("quantizing")
@pytest.mark.parametrize("tie_weights", [True, False])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_int8_logits_of_the_embeddings_weights(tie_weights, policy):
    embedding = PositionalEmbedding(11, 16, tie_weights=tie_weights, dtype=policy)
    inputs = keras.Input((None,), dtype="int32")
    hidden = EncoderBlock(2, 12, dtype=policy)(embedding(inputs))
    model = keras.Model(inputs, embedding(hidden, reverse=True))
    check_quantized(model, tokens())
    assert keras.backend.standardize_dtype(model(tokens()).dtype) == "float32"
