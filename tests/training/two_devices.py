"""How two devices train next to one, or how two workers leave, as a line of JSON.

usage: two_devices.py [SECONDS]

With TF_CONFIG it is one of two workers, which leaves the job as `train` does: the first one works
for SECONDS more, and the other's process lasts for twice as long.
"""

import json
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from keras_mt.layers import MixtureOfExperts
from keras_mt.losses import CrossEntropy, SymmetricKLDivergence
from keras_mt.models.fitting import Fitting
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation, distribution
from keras_mt.training.distribution import Worker
from keras_mt.training.replicas import (
    AccumulatedAdam,
    CountedCrossEntropy,
    CountedDivergence,
    ReplicatedAdam,
)

found = {}


class Model(Fitting, keras.Model):
    padding_id, max_length = 0, 8

    def __init__(self, hidden):
        super().__init__()
        self.hidden, self.head = hidden, keras.layers.Dense(12)

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def trained(strategy, accumulate, clip, experts=False):
    """The weights after two updates of batches of unlike length, of which replicas take rows.

    With experts, each row is there for both replicas: what a mixture chooses is then alike on both.
    """
    random, data = np.random.default_rng(0), []
    for rows, tokens in ((4, 3), (6, 8), (4, 3), (6, 5)):
        lengths = tokens - np.arange(rows)[:, None] % 3  # So that replicas' tokens are not as many.
        labels = random.integers(1, 12, (rows, 8)) * (np.arange(8) < lengths)
        inputs = random.normal(size=(rows, 8, 4)).astype("float32")
        batch = inputs, labels.astype("int32")
        data.append(tuple(np.repeat(each, 2, axis=0) for each in batch) if experts else batch)

    def shard(part):
        replicas, count = part
        replicas = [replicas] if count == 1 else list(replicas)

        def rows():
            for inputs, labels in data:
                for i in replicas:
                    yield inputs[i::count], labels[i::count]

        signature = tf.TensorSpec((None, 8, 4)), tf.TensorSpec((None, 8), tf.int32)
        return tf.data.Dataset.from_generator(rows, output_signature=signature)

    keras.utils.set_random_seed(1)
    with strategy.scope():
        hidden = keras.layers.Dense(8, "tanh")
        if experts:
            hidden = MixtureOfExperts(4, 8, capacity_factor=4.0, balance_weight=1.0)
        model = Model(hidden)
        model(np.zeros((1, 8, 4)))
        options = {"epsilon": 0.1, "global_clipnorm": clip}
        optimizer, loss = ReplicatedAdam(1.0, **options), CountedCrossEntropy()
        if accumulate > 1:
            optimizer = AccumulatedAdam(1.0, accumulate, **options)
            loss = CountedCrossEntropy(optimizer)
        alone = strategy.num_replicas_in_sync == 1  # Tracing would take longer.
        model.compile(optimizer, loss, jit_compile=False, run_eagerly=alone)
    model.fit(
        distribution.distributed(strategy, shard), steps_per_epoch=4, shuffle=False, verbose=0
    )
    return model.get_weights()


def difference(one, other):
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def means(strategy):
    """Losses of rows that replicas share, and of all of them on one device."""
    random = np.random.default_rng(1)
    one, other = random.normal(size=(2, 4, 5, 7)).astype("float32")
    labels = (random.integers(1, 7, (4, 5)) * (np.arange(5) < [[1], [5], [2], [4]])).astype("int32")
    real = (labels != 0).astype("float32")

    def parts():
        context = tf.distribute.get_replica_context()
        rows = tf.range(context.replica_id_in_sync_group, 4, 2)
        labels_, one_, other_, real_ = (tf.gather(x, rows) for x in (labels, one, other, real))
        return CountedCrossEntropy()(labels_, one_), CountedDivergence()(one_, other_, real_)

    sums = [strategy.reduce("SUM", x, axis=None) for x in strategy.run(tf.function(parts))]
    alone = CrossEntropy()(labels, one), SymmetricKLDivergence()(one, other, real)
    return [float(abs(a - b)) for a, b in zip(sums, alone, strict=True)]


def on_two_devices():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy, one = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), tf.distribute.get_strategy()
    cases = {
        "accumulated": {"accumulate": 2, "clip": 0.05},
        "experts": {"accumulate": 1, "clip": None, "experts": True},
    }
    for name, options in cases.items():
        found[name] = difference(trained(strategy, **options), trained(one, **options))
    found["means"] = max(means(strategy))
    with strategy.scope():
        model = Model(keras.layers.Dense(8))
        compile_for_translation(model, clip_norm=0.3)
    found["compiled"] = [type(x).__name__ for x in (model.optimizer, model.loss)]


def on_a_worker(seconds):
    worker = Worker(RunFolder("run"), distribution.distribute())
    if worker.is_chief:
        time.sleep(seconds)
    found["worked until"] = time.time()
    worker.leave()
    found["left"] = time.time()
    if not worker.is_chief:
        time.sleep(2 * seconds)


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        on_a_worker(float(sys.argv[1]))
    else:
        on_two_devices()
    print(json.dumps(found), flush=True)
