import csv
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_mt import Translator
from keras_mt.training import distribution, train

PROCESS = Path(__file__).with_name("process.py")


def start(corpus, output, devices=1, config=None, **options):
    arguments = {
        "data": str(corpus), "source": "pt", "target": "en", "output": str(output),
        "preset": "micro", "vocab_size": 500, "warmup_steps": 20, "batch_tokens": 512,
        "max_length": 64, "steps": 26, **options,
    }  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(PROCESS.parents[2])}
    if config is not None:
        environment["TF_CONFIG"] = json.dumps(config)
    return subprocess.Popen(
        [sys.executable, PROCESS, json.dumps(arguments), str(devices)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def start_two(corpus, output, **options):
    """Two workers of one job, on this machine."""
    addresses = []
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        addresses.append(f"127.0.0.1:{each.getsockname()[1]}")
    for each in sockets:
        each.close()
    return [
        start(
            corpus, output, config={
                "cluster": {"worker": addresses}, "task": {"type": "worker", "index": index},
            }, **options,
        )
        for index in range(2)
    ]  # fmt: skip


def finish(*processes):
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return outputs


def weights_that_matter(run_dir):
    """All but the biases of keys, which attention cancels: Adam makes steps of their rounding."""
    model = Translator.load(run_dir).models[0]
    return {w.path: w.numpy() for w in model.weights if not w.path.endswith("key/bias")}


def assert_same_to_rounding(run_dir, other):
    weights, others = weights_that_matter(run_dir), weights_that_matter(other)
    assert len(weights) > 20
    for name, other_name in zip(weights, others, strict=True):
        np.testing.assert_allclose(
            weights[name], others[other_name], atol=3e-4, err_msg=name
        )  # A rate is 0.02.


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory):
    """The run of one process without dropout, which draws other numbers on each replica."""
    output = tmp_path_factory.mktemp("one") / "run"
    finish(start(corpus, output, dropout=0.0))
    return output


def test_two_devices_train_as_one(corpus, one, tmp_path):
    finish(start(corpus, tmp_path / "run", devices=2, dropout=0.0))
    assert_same_to_rounding(tmp_path / "run", one)


def test_replicas_draw_their_own():
    script = """
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_mt.layers.dropout import Dropout
from keras_mt.training import distribution

ones = tf.ones((8, 32))
alone = Dropout(0.5, seed=1)(ones, training=True)
distribution._strategy = lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
strategy = distribution.distribute()
with strategy.scope():
    layer = Dropout(0.5, seed=1)
found = strategy.run(tf.function(lambda: layer(ones, training=True)))
first, second = (x.numpy() for x in strategy.experimental_local_results(found))
print((first == second).mean(), (first == alone.numpy()).mean())
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    alike, as_alone = map(float, process.stdout.split()[-2:])
    assert 0.3 < alike < 0.7 and as_alone == 1


def test_two_devices_clip_the_gradients_of_both(corpus, tmp_path):
    options = {"dropout": 0.0, "steps": 10, "clip_norm": 0.3}
    finish(start(corpus, tmp_path / "one", **options))
    finish(start(corpus, tmp_path / "two", devices=2, **options))
    assert_same_to_rounding(tmp_path / "two", tmp_path / "one")


def test_two_workers_train_as_one_and_only_the_chief_writes(corpus, one, tmp_path):
    chief, worker = start_two(corpus, tmp_path / "run", vocab_size=50)
    for process in (chief, worker):  # Only the chief finds it, and neither waits for the other.
        assert "vocab_size=50 is too small" in process.communicate(timeout=120)[0]
        assert process.returncode == 1
    # Mended, the same folder will do.
    outputs = finish(*start_two(corpus, tmp_path / "run", dropout=0.0, bleu_epochs=1))
    assert_same_to_rounding(tmp_path / "run", one)
    assert "finished at step 26" in outputs[0] and "step" not in outputs[1].lower()
    rows = list(csv.DictReader((tmp_path / "run" / "log.csv").read_text().splitlines()))
    assert [row["event"] for row in rows].count("started") == 1
    assert any(row["val_bleu"] for row in rows)
    assert not (tmp_path / "run" / ".failure").exists()


@pytest.mark.long
def test_a_killed_job_of_two_workers_ends_where_an_unbroken_one_does(corpus, tmp_path):
    options = {"dropout": 0.1, "checkpoint_steps": 5}
    finish(*start_two(corpus, tmp_path / "unbroken", **options))
    chief, worker = start_two(corpus, tmp_path / "broken", **options)
    for line in chief.stdout:
        if "checkpoint at step 10" in line:
            break
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    chief.kill()  # It may wait for the other for long.
    chief.communicate()
    assert not (tmp_path / "broken" / "model.keras").exists()
    outputs = finish(*start_two(corpus, tmp_path / "broken", **options))
    assert "resumed at step 1" in outputs[0]
    workers = [
        np.load(f"{tmp_path / name}.{i}.npz") for name in ("unbroken", "broken") for i in (0, 1)
    ]
    for name in workers[0].files:
        for other in workers[1:]:
            np.testing.assert_array_equal(workers[0][name], other[name])


def test_another_version_of_keras_is_refused(monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr(keras, "__version__", "3.99.0")
    assert distribution.distribute() is tf.distribute.get_strategy()  # One device needs no bridge.

    class Two:
        num_replicas_in_sync = 2

    monkeypatch.setattr(distribution, "_strategy", Two)
    with pytest.raises(RuntimeError, match=r"checked on Keras 3\.15\.1.*this is 3\.99\.0"):
        distribution.distribute()


def test_accumulation_on_several_devices_is_refused(corpus, tmp_path, monkeypatch):
    class Two:
        num_replicas_in_sync = 2

    monkeypatch.setattr("keras_mt.training.run.distribute", Two)
    with pytest.raises(ValueError, match="accumulate=2 is for one device alone, and there are 2"):
        train(corpus, "pt", "en", tmp_path / "run", accumulate=2)


def test_parameter_servers_are_refused(monkeypatch):
    cluster = {"ps": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    with pytest.raises(ValueError, match="parameter servers"):
        distribution.distribute()
