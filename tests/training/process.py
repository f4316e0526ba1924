"""Trains in a process of its own: the arguments of `train` as JSON, then the number of devices.

A worker of a cluster also writes the weights that it ended with, to OUTPUT.WORKER.npz.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf

from keras_mt.models import PRESETS
from keras_mt.training import distribution, train
from keras_mt.training.callbacks import Checkpoints

PRESETS["micro"] = {
    "model": {"num_layers": 1, "d_model": 64, "num_heads": 2, "d_ff": 64, "dropout": 0.1},
    "training": PRESETS["tiny"]["training"],
}

if __name__ == "__main__":
    devices = int(sys.argv[2])
    if devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * devices
        )
        distribution._strategy = lambda: tf.distribute.MirroredStrategy(
            [f"CPU:{i}" for i in range(devices)]
        )
    if "TF_CONFIG" in os.environ:
        worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        save = Checkpoints.on_train_end

        def on_train_end(self, logs=None):
            save(self, logs)
            path = f"{json.loads(sys.argv[1])['output']}.{worker}.npz"
            np.savez(path, *self.model.get_weights())

        Checkpoints.on_train_end = on_train_end
    train(**json.loads(sys.argv[1]))
