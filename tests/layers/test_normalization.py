import keras
import numpy as np
import pytest

from keras_mt.layers.normalization import LayerNormalization

tf = pytest.importorskip("tensorflow") if keras.backend.backend() == "tensorflow" else None
pytestmark = pytest.mark.skipif(tf is None, reason="graphs are TensorFlow's")


def run_in_a_session(outputs, feeds, optimized=True):
    """Values of a session that optimizes the graph, as a server's does, and the operations run."""
    v1 = tf.compat.v1
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimized
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    metadata = v1.RunMetadata()
    with v1.Session(config=config) as session:
        values = session.run(outputs, feeds, options=options, run_metadata=metadata)
    return values, [n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats]


def constant(layer, x, optimized=True):
    """What the layer gives with constant weights, and the operations run."""
    from keras_mt.inference.constants import ConstantScope

    shape = (None,) * (x.ndim - 1) + x.shape[-1:]
    scope = ConstantScope(layer.variables)
    with tf.Graph().as_default(), scope:
        inputs = tf.compat.v1.placeholder(layer.compute_dtype, shape)
        outputs = 2 * tf.cast(layer(inputs), tf.float32)
        values, operations = run_in_a_session(outputs, {inputs: x}, optimized)
    return values / 2, operations


def formula(x, layer):
    x = x.astype("float64")
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    gamma, beta = (keras.ops.convert_to_numpy(w).astype("float64") for w in layer.weights)
    return (x - mean) / np.sqrt(variance + layer.epsilon) * gamma + beta


@pytest.mark.parametrize("shape", [(6, 32), (2, 3, 32)])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-3, 0.1])
def test_constant_weights_leave_the_epsilon_as_it_is(shape, epsilon):
    layer = LayerNormalization(epsilon=epsilon)
    layer.build(shape)
    draw = np.random.default_rng(0)
    layer.set_weights([draw.normal(size=32), draw.normal(size=32)])
    # Of all sizes, from one that epsilon drowns to one that it is nothing to.
    x = (draw.normal(size=shape) + 1) * np.logspace(-4, 2, shape[-2])[:, None]
    x = x.astype("float32")
    found, _ = constant(layer, x)
    np.testing.assert_allclose(found, formula(x, layer), atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(found, layer(x), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("optimized", [True, False])  # False: as without oneDNN.
def test_half_precision_is_rounded_as_its_result(optimized):
    layer = LayerNormalization(epsilon=1e-5, dtype="bfloat16")
    layer.build((None, 512))
    draw = np.random.default_rng(0)
    layer.set_weights([1 + 0.1 * draw.normal(size=512), draw.normal(size=512)])
    bfloat16 = tf.bfloat16.as_numpy_dtype
    x = (draw.normal(size=(64, 512)) + 1).astype(bfloat16)
    found, _ = constant(layer, x, optimized)
    exact = formula(x, layer)
    rounded = exact.astype(bfloat16).astype("float64")
    size = np.sqrt(np.mean((rounded - exact) ** 2))
    assert np.sqrt(np.mean((found - exact) ** 2)) < 1.1 * size


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensorflow_runs_it_as_one_operation(dtype):
    layer = LayerNormalization(epsilon=1e-5, dtype=dtype)
    layer.build((None, 32))
    x = np.ones((4, 32), dtype)
    with tf.Graph().as_default():
        probe = tf.compat.v1.placeholder("float32", (None, 32))
        product = tf.nn.bias_add(tf.matmul(probe, tf.eye(32)), tf.ones(32))
        _, operations = run_in_a_session(product, {probe: x})
    if not any("_Mkl" in label for label in operations):
        pytest.skip("this TensorFlow has no oneDNN, of which the operation is")
    assert sum("_MklLayerNorm" in label for label in constant(layer, x)[1]) == 1
