"""Trains models on the backend of this process, where there is no TensorFlow.

`python elsewhere.py FOLDER NAME ...`: of each name the folder holds `NAME.keras`, and its logits as
`NAME.npy`. The trained model and its logits are written to `NAME.trained.keras` and
`NAME.trained.npy`.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.modules["tensorflow"] = None  # Importing it raises ImportError.

import keras
import numpy as np
from backends import numpy

import keras_mt

SOURCE, TARGET = np.array([[5, 3, 7], [3, 4, 0]]), np.array([[2, 5, 3], [2, 3, 6]])
INPUTS = {"source": SOURCE, "target": TARGET}


def decoded(model, source=SOURCE, target=TARGET):
    """The logits of the target, token by token."""
    cache, steps = model.start_decoding(source), []
    for i in range(target.shape[1]):
        logits, cache = model.decode_step(target[:, i : i + 1], i, cache)
        steps.append(numpy(logits))
    return np.concatenate(steps, axis=1)


def logits(model):
    """Those of the target at once, by a compiled function: JAX is slow op by op."""
    return model.predict(INPUTS, verbose=0)


def train(model):
    rate = keras_mt.WarmupInverseSquareRoot(16, warmup_steps=10, peak=0.01)
    model.compile(
        keras.optimizers.Adam(rate),
        keras_mt.losses.CrossEntropy(0.1),
        metrics=[keras_mt.metrics.TokenAccuracy(), keras_mt.metrics.Perplexity()],
    )
    history = model.fit(INPUTS, TARGET, epochs=30, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    assert history["perplexity"][-1] < history["perplexity"][0]


def main(folder, *names):
    for name in names:
        model = keras.models.load_model(Path(folder, f"{name}.keras"))
        expected = np.load(Path(folder, f"{name}.npy"))
        np.testing.assert_allclose(logits(model), expected, atol=1e-5, err_msg=name)
        if keras.backend.backend() == "numpy":  # It has no gradients, and nothing to compile.
            np.testing.assert_allclose(decoded(model), expected, atol=1e-5, err_msg=name)
        else:
            train(model)
        model.save(Path(folder, f"{name}.trained.keras"))
        np.save(Path(folder, f"{name}.trained.npy"), logits(model))
    assert not [name for name in sys.modules if name.startswith("tensorflow.")]
    assert "Translator" not in keras_mt.__all__


if __name__ == "__main__":
    main(*sys.argv[1:])
