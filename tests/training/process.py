"""Trains in a process of its own.

usage: process.py ARGUMENTS DEVICES KILL_AT

ARGUMENTS are those of `train`, as JSON, and `eager`, to run op by op. Each step is printed. The
process kills itself after step KILL_AT; with a minus sign, while it writes that step's checkpoint;
with 0, never. A worker of a cluster also writes the weights that it ended with, to
OUTPUT.WORKER.npz.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_mt.models import PRESETS
from keras_mt.training import session, train
from keras_mt.training.checkpoints import Checkpoints

PRESETS["micro"] = {
    "model": {
        "num_layers": 1, "d_model": 64, "num_heads": 2, "d_ff": 64, "dropout": 0.1, "norm": "rms",
        "use_bias": False,
    },
    "training": PRESETS["tiny"]["training"],
}  # fmt: skip


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    devices, kill_at = map(int, sys.argv[2:])
    tf.config.run_functions_eagerly(arguments.pop("eager", False))
    if devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * devices
        )
        session.distribute = lambda _: tf.distribute.MirroredStrategy(
            [f"CPU:{i}" for i in range(devices)]
        )

    def after(method, action):
        """A method that is followed by something else."""

        def both(self, *args, **kwargs):
            result = method(self, *args, **kwargs)
            action(self, result)
            return result

        return both

    def after_step(checkpoints, _):
        print("computed", checkpoints.step, flush=True)
        if checkpoints.step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def after_write(_, path):
        if path.endswith(f"step-{-kill_at}"):
            data = Path(f"{path}.data-00000-of-00001")
            os.truncate(data, data.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def after_training(checkpoints, _):
        worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        np.savez(f"{arguments['output']}.{worker}.npz", *checkpoints.model.get_weights())

    Checkpoints.on_train_batch_end = after(Checkpoints.on_train_batch_end, after_step)
    tf.train.Checkpoint._write = after(tf.train.Checkpoint._write, after_write)
    if "TF_CONFIG" in os.environ:
        Checkpoints.on_train_end = after(Checkpoints.on_train_end, after_training)
    train(**arguments)
