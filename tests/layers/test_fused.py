import keras
import numpy as np
import pytest

from keras_mt.layers import CausalSelfAttention, PositionalEmbedding

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)


def in_a_frozen_graph(variables, function, *inputs):
    """What a function gives where the variables are constants, and the operations of its graph."""
    import tensorflow as tf

    from keras_mt.inference.constants import ConstantScope

    scope = ConstantScope(variables, "freeze", "do not")

    @tf.function(autograph=False)
    def frozen(*inputs):
        with scope:
            return function(*inputs)

    operations = frozen.get_concrete_function(*inputs).graph.get_operations()
    return tf.nest.map_structure(lambda x: x.numpy(), frozen(*inputs)), operations


@pytest.mark.parametrize(
    "options, products",
    [
        ({}, 2),
        ({"use_bias": False}, 2),
        ({"num_key_value_heads": 2, "rotary_base": 10000.0}, 2),
        ({"value_dim": 4}, 4),
    ],
)
def test_a_step_with_constant_weights_is_the_step(options, products):
    layer = CausalSelfAttention(num_heads=4, bias_initializer="normal", **options)
    layer.build((None, None, 32))
    x = keras.random.normal((6, 32), seed=1)  # Two rows of three beams.

    def steps(x):
        outputs, cache = layer.step(x, layer.empty_cache(2), positions=0)
        return layer.step(outputs + x, cache, positions=1)

    found, operations = in_a_frozen_graph(layer.variables, steps, x)
    for a, b in zip(keras.tree.flatten(found), keras.tree.flatten(steps(x)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    # Queries, keys and values by one product, and that of the outputs; two steps of each.
    assert sum(operation.type == "MatMul" for operation in operations) == 2 * products


def test_a_step_with_kernels_that_are_more_than_a_variable():
    layer = CausalSelfAttention(num_heads=4)
    layer.build((None, None, 32))
    x = keras.random.normal((2, 32), seed=1)
    expected, _ = layer.step(x, layer.empty_cache(2))
    layer.query_dense.enable_lora(2)  # Which changes nothing, until it is trained.
    layer.key_dense.quantize("int8")
    found, _ = layer.step(x, layer.empty_cache(2))
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_logits_of_a_constant_kernel_are_the_logits():
    layer = PositionalEmbedding(50, 16, tie_weights=False)
    layer(np.ones((1, 2), "int32"))
    states = keras.random.normal((6, 16), seed=1)
    found, operations = in_a_frozen_graph(layer.variables, lambda x: layer(x, reverse=True), states)
    kernel = keras.ops.convert_to_numpy(layer.embedding.reverse_embeddings)
    np.testing.assert_allclose(found, keras.ops.convert_to_numpy(states) @ kernel, atol=1e-5)
    assert "BiasAdd" in [operation.type for operation in operations]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_of_a_shared_table_are_the_products_with_its_rows(dtype, constant):
    layer = PositionalEmbedding(50, 16, dtype=dtype)
    layer(np.ones((1, 2), "int32"))
    states = keras.ops.cast(keras.random.normal((6, 16), seed=1), dtype)
    variables = layer.variables if constant else []
    found, _ = in_a_frozen_graph(variables, lambda x: layer(x, reverse=True), states)
    table, x = (
        keras.ops.convert_to_numpy(keras.ops.cast(v, "float32"))
        for v in (layer.embedding.embeddings.value, states)
    )
    tolerance = {"float32": 1e-5, "bfloat16": 0.02}[dtype]
    np.testing.assert_allclose(found, x @ table.T, atol=tolerance, rtol=tolerance)
