import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Transformer
from keras_mt.layers.dropout import Dropout
from keras_mt.losses import CrossEntropy
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation
from keras_mt.training.checkpoints import Checkpoints
from keras_mt.training.distribution import Worker
from keras_mt.training.replicas import AccumulatedAdam, CountedCrossEntropy

VOCABULARY = 12


def batches(tokens=(2, 14, 5, 1, 9, 3)):
    """Batches of so many real tokens: inputs and labels, of one shape."""
    random, found = np.random.default_rng(0), []
    for count in tokens:
        labels = np.zeros(16, "int32")
        labels[:count] = random.integers(1, VOCABULARY, count)
        found.append((random.normal(size=(2, 8, 4)).astype("float32"), labels.reshape(2, 8)))
    return found


def joined(parts):
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def model(optimizer, loss):
    keras.utils.set_random_seed(1)
    hidden = keras.layers.Dense(8, "tanh")
    model = keras.Sequential([keras.layers.Masking(), hidden, keras.layers.Dense(VOCABULARY)])
    model.build((None, 8, 4))
    model.compile(optimizer, loss, run_eagerly=True)
    return model


def adam(**options):
    """With an epsilon that keeps it from making whole steps of a gradient's rounding."""
    return keras.optimizers.Adam(1.0, epsilon=0.1, **options)


def accumulated(accumulate, **options):
    optimizer = AccumulatedAdam(1.0, accumulate, epsilon=0.1, **options)
    compiled = model(optimizer, CountedCrossEntropy(optimizer, label_smoothing=0.1))
    optimizer.build(compiled.trainable_variables)
    return compiled


def difference(one, other):
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return max(np.abs(a - b).max() for a, b in pairs)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_accumulated_batches_train_as_one_of_all(clip):
    loss = CrossEntropy(label_smoothing=0.1)
    whole = model(adam(global_clipnorm=clip), loss)
    parts = accumulated(3, global_clipnorm=clip)
    means = model(adam(global_clipnorm=clip, gradient_accumulation_steps=3), loss)
    for first in (0, 3):
        whole.train_on_batch(*joined(batches()[first : first + 3]))
        for batch in batches()[first : first + 3]:
            parts.train_on_batch(*batch)
            means.train_on_batch(*batch)
    assert difference(parts, whole) < 1e-5
    assert difference(means, whole) > 1e-3  # As Keras has it.
    assert int(parts.optimizer.iterations) == 2  # What the schedule is given.


def test_an_update_is_made_of_as_many_batches_and_not_of_validation():
    parts = accumulated(2)
    before = parts.get_weights()
    parts.train_on_batch(*batches()[0])
    assert all(np.array_equal(*each) for each in zip(parts.get_weights(), before, strict=True))
    parts.evaluate(*batches()[3], verbose=0)
    parts.train_on_batch(*batches()[1])
    other = accumulated(2)
    for batch in batches()[:2]:
        other.train_on_batch(*batch)
    assert difference(parts, other) == 0
    assert not all(np.array_equal(*each) for each in zip(other.get_weights(), before, strict=True))


def test_masks_and_weights_count_as_in_the_loss():
    parts = batches((12, 14))
    parts[0][0][:, 2:] = 0  # Masked, though not padding.
    weights = [np.array(each, "float32") for each in ((0.5, 2), (1, 3))]
    whole = model(adam(), CrossEntropy())
    whole.train_on_batch(*joined(parts), sample_weight=np.concatenate(weights))
    optimizer = AccumulatedAdam(1.0, 2, epsilon=0.1)
    halves = model(optimizer, CountedCrossEntropy(optimizer))
    for batch, weight in zip(parts, weights, strict=True):
        halves.train_on_batch(*batch, sample_weight=weight)
    assert difference(halves, whole) < 1e-5


def test_a_run_goes_on_in_the_middle_of_an_accumulation(tmp_path):
    unbroken = accumulated(4)
    for batch in batches():
        unbroken.train_on_batch(*batch)
    first = accumulated(4)
    worker = Worker(RunFolder(tmp_path), tf.distribute.get_strategy())
    checkpoints = Checkpoints(worker, first, every=1)
    for batch in batches()[:3]:
        first.train_on_batch(*batch)
    checkpoints.save()
    second = accumulated(4)
    Checkpoints(worker, second, every=1).restore()
    for batch in batches()[3:]:
        second.train_on_batch(*batch)
    assert int(second.optimizer.iterations) == 1
    assert difference(second, unbroken) == 0
    for one, other in zip(
        second.optimizer.variables, unbroken.optimizer.variables, strict=True
    ):  # Two batches more are in them.
        np.testing.assert_array_equal(one, other)


def test_a_translator_is_compiled_with_it():
    def compiled(accumulate):
        keras.utils.set_random_seed(1)
        model = Transformer(VOCABULARY, 1, 8, 2, 8, dropout=0.1, norm="rms", use_bias=False)
        for layer in model._flatten_layers():
            if isinstance(layer, Dropout):
                layer.rate = 0  # R-Drop wants some, and nothing could be compared.
        compile_for_translation(
            model,
            warmup_steps=2,
            clip_norm=0.1,
            gradient_accumulation_steps=accumulate,
            rdrop_weight=5,
        )
        model.run_eagerly = True
        return model

    def translation(batch):
        tokens = (np.abs(batch[0][..., 0]) * 5).astype("int32") % (VOCABULARY - 1) + 1
        return {"source": tokens, "target": tokens}, batch[1]

    parts, whole = compiled(2), compiled(1)
    whole.train_on_batch(*translation(joined(batches()[:2])))
    for batch in batches()[:2]:
        parts.train_on_batch(*translation(batch))
    found, expected = (
        {v.path.partition("/")[2]: v.numpy() for v in each.optimizer.variables}
        for each in (parts, whole)
    )
    moments = [name for name in expected if name.endswith("momentum")]
    assert len(moments) == len(whole.trainable_variables)
    for name in moments:  # Of the gradients: Adam's steps are whole even for rounding.
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-6, err_msg=name)
    assert int(parts.optimizer.iterations) == 1


def test_an_optimizer_that_is_not_told_of_the_tokens_says_so(tmp_path):
    alone = model(AccumulatedAdam(0.1, 2), CrossEntropy())
    with pytest.raises(ValueError, match="loss=CountedCrossEntropy"):
        alone.train_on_batch(*batches()[0])
    accumulated(2).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.accumulate == 2 and isinstance(loaded.loss, CountedCrossEntropy)
    with pytest.raises(ValueError, match="loss=CountedCrossEntropy"):
        loaded.train_on_batch(*batches()[0])


def test_batches_without_a_real_token_change_nothing():
    parts = accumulated(2)
    before = parts.get_weights()
    for batch in batches((0, 0)):
        parts.train_on_batch(*batch)
    assert int(parts.optimizer.iterations) == 1
    assert all(np.array_equal(*each) for each in zip(parts.get_weights(), before, strict=True))


@pytest.mark.long
def test_scaled_losses_accumulate_too():
    """As Keras scales them for `mixed_float16`."""
    whole, parts = accumulated(1), accumulated(3)
    for each in (whole, parts):
        scaled = keras.optimizers.LossScaleOptimizer(each.optimizer)
        each.compile(scaled, each.loss, jit_compile=False)
    whole.train_on_batch(*joined(batches()[:3]))
    for batch in batches()[:3]:
        parts.train_on_batch(*batch)
    assert difference(parts, whole) < 1e-5 < difference(parts, accumulated(1))


def test_gradients_of_lookups_are_added_up():
    optimizer = AccumulatedAdam(0.1, 2)
    optimizer.counted = True
    variable = keras.Variable(np.ones((3, 2), "float32"))
    for rows, tokens in (([0, 0], 1.0), ([2, 1], 3.0)):
        optimizer.batch_tokens.assign(tokens)
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.gather(variable.value, rows))
        (grad,) = tape.gradient(value, [variable.value])
        assert isinstance(grad, tf.IndexedSlices)
        optimizer.apply([grad], [variable])
    assert (variable.numpy() < 1).all()


def test_a_strategy_of_one_replica_trains_as_none_does():
    strategy, weights = tf.distribute.OneDeviceStrategy("CPU:0"), []
    inputs = {"source": np.array([[4, 5]]), "target": np.array([[2, 4]])}
    for scope in (contextlib.nullcontext, strategy.scope):
        keras.utils.set_random_seed(1)
        with scope():
            model = Transformer(8, 1, 8, 1, 8, dropout=0.0)
            model.compile(adam(), CrossEntropy(), run_eagerly=scope is contextlib.nullcontext)
        model.fit(inputs, np.array([[4, 5]]), verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
