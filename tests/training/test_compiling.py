import keras
import numpy as np
import pytest

from keras_mt import Transformer
from keras_mt.losses import CrossEntropy
from keras_mt.models import MixtureOfExpertsTransformer
from keras_mt.training import compile_for_translation

SMALL = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16}


def test_rdrop_adds_the_loss_and_the_divergence_of_another_pass(monkeypatch):
    random = np.random.default_rng(1)
    source, labels = random.integers(4, 20, (2, 6)), random.integers(4, 20, (2, 5))
    labels[1, 3:] = 0
    inputs = {"source": source, "target": labels}
    model = Transformer(**SMALL)
    compile_for_translation(model, rdrop_weight=3.0)
    one, other = random.normal(size=(2, 2, 5, 20)).astype("float32")
    asked = []

    def call(self, x, training=None):
        asked.append(training)
        return other

    monkeypatch.setattr(Transformer, "__call__", call)
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (one, other))
    divergence = ((p - q) * np.log(p / q)).sum(-1)[labels != 0].mean() / 2
    losses = [float(CrossEntropy(0.1)(labels, logits)) for logits in (one, other)]
    loss = model.compute_loss(inputs, labels, one, training=True)
    assert float(loss) == pytest.approx((sum(losses) + 3 * divergence) / 2, rel=1e-5)
    assert asked == [True]
    validation = model.compute_loss(inputs, labels, one, training=False)
    assert float(validation) == pytest.approx(losses[0], rel=1e-5)
    compile_for_translation(model)  # Without it, as if it had never been.
    loss = model.compute_loss(inputs, labels, one, training=True)
    assert float(loss) == pytest.approx(losses[0], rel=1e-5) and asked == [True]
    with pytest.raises(ValueError, match="rdrop_weight=-1"):
        compile_for_translation(model, rdrop_weight=-1)


def test_what_layers_add_to_the_loss_is_in_that_of_both_passes():
    random = np.random.default_rng(1)
    source, labels = random.integers(4, 20, (2, 6)), random.integers(4, 20, (2, 5))
    inputs, losses = {"source": source, "target": labels}, []
    model = MixtureOfExpertsTransformer(**SMALL, dropout=0.0, sparse_step=1, balance_weight=1.0)
    for rdrop in (0.0, 2.0):  # Without dropout both passes are one.
        compile_for_translation(model, rdrop_weight=rdrop)
        logits = model(inputs, training=True)
        losses.append(float(model.compute_loss(inputs, labels, logits, training=True)))
    added = sum(float(loss) for loss in model.losses)
    assert added > 3  # From two mixtures, of two experts a token, 2 each if they are balanced.
    assert losses == pytest.approx([float(CrossEntropy(0.1)(labels, logits)) + added] * 2, rel=1e-5)


def test_any_model_from_source_and_target_to_logits_is_compiled():
    source, target = (keras.Input((None,), dtype="int32", name=n) for n in ("source", "target"))
    logits = keras.layers.Dense(9)(keras.layers.Embedding(9, 4)(target))
    logits += 0 * keras.ops.mean(keras.layers.Embedding(9, 1)(source))
    model = keras.Model({"source": source, "target": target}, logits)
    compile_for_translation(model, warmup_steps=100)
    assert float(model.optimizer.learning_rate) == pytest.approx(512**-0.5 * 100**-1.5)
    x = np.ones((2, 3), "int32")
    assert np.isfinite(model.evaluate({"source": x, "target": x}, x, verbose=0)[0])
