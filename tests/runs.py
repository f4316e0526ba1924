"""What tests of runs share: weights, logs, processes that train, and runs that are broken off."""

import csv
import json
import os
import subprocess

import keras
import numpy as np
from conftest import ROOT

from keras_mt.run_folder import RunFolder
from keras_mt.training import train

PROCESS = ROOT / "tests" / "training" / "process.py"


def weights(of):
    """The weights of a model or of the one in a run folder, as arrays."""
    return (of if isinstance(of, keras.Layer) else RunFolder(of).load_model()).get_weights()


def assert_same_weights(one, other, atol=0):
    """Of two models, run folders, or lists of arrays."""
    pair = (each if isinstance(each, list) else weights(each) for each in (one, other))
    for mine, its in zip(*pair, strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=atol)


def disturb(model, seed=1):
    """Gives a model biases and norms that nothing can fold away."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" not in weight.path:
            weight.assign(weight + 0.1 * random.normal(size=weight.shape))
    return model


def log_rows(run_dir):
    with open(run_dir / "log.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def ends(output, *steps, **options):
    """The weights where a run ends that is begun, and gone on with, to each number of steps."""
    return [weights(train(output=output, steps=each, **options)) for each in steps]


def start(python, corpus, output, devices=1, kill_at=0, config=None, **options):
    """Starts process.py, which trains, in a process of its own; gives that."""
    arguments = {
        "data": str(corpus), "source": "pt", "target": "en", "output": str(output),
        "preset": "micro", "vocab_size": 500, "warmup_steps": 20, "batch_tokens": 2048,
        "max_length": 64, **options,
    }  # fmt: skip
    environment = {**os.environ, **({"TF_CONFIG": json.dumps(config)} if config else {})}
    return subprocess.Popen(
        [*python, PROCESS, json.dumps(arguments), str(devices), str(kill_at)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
