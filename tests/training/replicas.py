"""What the bridge does on two devices, or on one worker of two, as a line of JSON.

usage: replicas.py [SECONDS]

With TF_CONFIG the worker also leaves the job as `train` does: the first one works for SECONDS more,
and the other's process lasts for twice as long.
"""

import contextlib
import dataclasses
import json
import os
import pkgutil
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from keras_mt.layers import MixtureOfExperts
from keras_mt.layers.dropout import Dropout
from keras_mt.losses import CrossEntropy
from keras_mt.training import distribution
from keras_mt.training.accumulation import AccumulatedAdam, CountedCrossEntropy

PATCHES = distribution.PATCHES
found = {}


def owner_and_name(patch):
    module, _, path = patch.target.partition(":")
    owner, _, name = path.rpartition(".")
    return pkgutil.resolve_name(f"{module}:{owner}"), name


def own():
    """What Keras has at the places that are replaced."""
    return [pkgutil.resolve_name(patch.target) for patch in PATCHES]


def refusals(strategy):
    """How the bridge is refused, for each of its parts, if it changes nothing or has no place."""
    result = {}
    for i, patch in enumerate(PATCHES):
        if patch.several_workers and not distribution._several_workers(strategy):
            continue
        undone = dataclasses.replace(patch, mend=unchanged)
        distribution.PATCHES = (*PATCHES[:i], undone, *PATCHES[i + 1 :])
        result[patch.target] = [refusal(strategy)]
        distribution.PATCHES = PATCHES
        owner, name = owner_and_name(patch)
        kept = getattr(owner, name)
        delattr(owner, name)
        result[patch.target].append(refusal(strategy))
        setattr(owner, name, kept)
    return result


def unchanged(own):
    def replacement(*args, **kwargs):
        return own(*args, **kwargs)

    return replacement


def refusal(strategy):
    before = [getattr(*owner_and_name(patch), None) for patch in PATCHES]
    try:
        with distribution.bridged(strategy):
            return None
    except ValueError as error:
        after = [getattr(*owner_and_name(patch), None) for patch in PATCHES]
        return str(error) if after == before else "Keras was left changed"


def trained(strategy, accumulate=2, experts=False):
    """The weights after two updates of batches of unlike length, of which replicas take rows.

    With experts, each row is there for both replicas: what a mixture chooses is then alike on both.
    The share that it dropped comes last.
    """
    random, data = np.random.default_rng(0), []
    for rows, tokens in ((4, 3), (6, 8), (4, 1), (6, 5)):
        labels = random.integers(1, 12, (rows, 8)) * (np.arange(8) < tokens)
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
            hidden = MixtureOfExperts(4, 8, capacity_factor=4.0, balance_weight=1.0, name="hidden")
        model = keras.Sequential([hidden, keras.layers.Dense(12)])
        model.build((None, 8, 4))
        if accumulate == 1:
            optimizer, loss = keras.optimizers.Adam(1.0, epsilon=0.1), CrossEntropy()
        else:
            optimizer = AccumulatedAdam(1.0, accumulate, epsilon=0.1, global_clipnorm=0.05)
            loss = CountedCrossEntropy(optimizer)
        model.compile(optimizer, loss, jit_compile=False)
    history = model.fit(
        distribution.distributed(strategy, shard), steps_per_epoch=4, shuffle=False, verbose=0
    ).history
    return [*model.get_weights(), *map(np.array, history.get("hidden_dropped", []))]


def difference(one, other):
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def share_alike(strategy):
    """The share of elements that two replicas, or a replica and the one device, drop alike."""
    ones = tf.ones((8, 32))
    with strategy.scope():
        layer = Dropout(0.5, seed=1)
    values = strategy.run(tf.function(lambda: layer(ones, training=True)))
    first, second = (value.numpy() for value in strategy.experimental_local_results(values))
    alone = Dropout(0.5, seed=1)(ones, training=True).numpy()
    return float((first == second).mean()), float((first == alone).mean())


def on_two_devices():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy, one = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), tf.distribute.get_strategy()
    keras_own = own()
    alone = trained(one, accumulate=1)
    accumulated = trained(one)
    experts = trained(one, experts=True)
    found["refusals"] = refusals(strategy)
    keras.__version__ = "3.15.2"
    with distribution.bridged(strategy):
        found["replaced"] = sum(a is not b for a, b in zip(own(), keras_own, strict=True))
        with distribution.bridged(strategy), contextlib.suppress(KeyError):
            raise KeyError
        found["replaced after another"] = sum(
            a is not b for a, b in zip(own(), keras_own, strict=True)
        )
        found["alone"] = difference(trained(one, accumulate=1), alone)
        found["accumulated"] = difference(trained(strategy), accumulated)
        found["experts"] = difference(trained(strategy, experts=True), experts)
        found["alike"] = share_alike(strategy)
    found["restored"] = own() == keras_own
    distribution.choose_strategy = lambda devices: strategy
    distribution.distribute()
    found["replaced for good"] = sum(a is not b for a, b in zip(own(), keras_own, strict=True))


def on_a_worker(seconds):
    strategy = distribution.choose_strategy()
    keras_own = own()
    found["refusals"] = refusals(strategy)
    with distribution.bridged(strategy), distribution.leaving_together(strategy):
        found["replaced"] = sum(a is not b for a, b in zip(own(), keras_own, strict=True))
        if distribution.is_chief(strategy):
            time.sleep(seconds)
        found["worked until"] = time.time()
    found["left"] = time.time()
    if not distribution.is_chief(strategy):
        time.sleep(2 * seconds)


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        on_a_worker(float(sys.argv[1]))
    else:
        on_two_devices()
    print(json.dumps(found), flush=True)
