import keras
import numpy as np
import pytest

from keras_mt.layers import CausalSelfAttention, PositionalEmbedding

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs are TensorFlow's"
)


def test_a_step_with_kernels_that_are_more_than_a_variable():
    layer = CausalSelfAttention(num_heads=4)
    layer.build((None, None, 32))
    x = keras.random.normal((2, 32), seed=1)
    expected, _ = layer.step(x, layer.empty_cache(2))
    layer.query_dense.enable_lora(2)  # Which changes nothing, until it is trained.
    layer.key_dense.quantize("int8")
    found, _ = layer.step(x, layer.empty_cache(2))
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_in_an_export_are_the_products_with_the_table(dtype, tied):
    import tensorflow as tf

    from keras_mt.inference.constants import ConstantScope

    layer = PositionalEmbedding(50, 16, dtype=dtype, tie_weights=tied)
    layer(np.ones((1, 2), "int32"))
    states = keras.ops.cast(keras.random.normal((6, 16), seed=1), dtype)

    @tf.function(autograph=False)
    def project(states):
        with ConstantScope([]):
            return layer(states, reverse=True)

    operations = project.get_concrete_function(states).graph.get_operations()
    assert "Transpose" not in [operation.type for operation in operations]
    kernel = layer.embedding.embeddings if tied else layer.embedding.reverse_embeddings
    x, kernel = (
        keras.ops.convert_to_numpy(keras.ops.cast(v, "float32")) for v in (states, kernel.value)
    )
    tolerance = {"float32": 1e-5, "bfloat16": 0.02}[dtype]
    expected = x @ (kernel.T if tied else kernel)
    np.testing.assert_allclose(project(states), expected, atol=tolerance, rtol=tolerance)
