import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from conftest import MICRO, ROOT, bare_ends, op_by_op
from runs import assert_same_weights, log_rows, start

from keras_mt.run_folder import RunFolder
from keras_mt.training import corpora, distribution, train
from keras_mt.training.distribution import Worker

# An epoch and a step. Each test leaves out dropout, whose masks depend on the number of replicas.
ONE = {
    "vocab_size": 500, "warmup_steps": 20, "batch_tokens": 512, "max_length": 64, "steps": 4,
    "clip_norm": 0.1,
}  # fmt: skip
BY_ANOTHER_PYTHON = """
import runpy, sys
_, sys.executable, *sys.argv = sys.argv
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def configurations_of_two():
    """`TF_CONFIG` of two workers of one job, on this machine."""
    addresses = []
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        addresses.append(f"127.0.0.1:{each.getsockname()[1]}")
    for each in sockets:
        each.close()
    return [
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]


@pytest.fixture
def start_two(python_command, corpus):
    """Starts two workers of one job, on this machine."""
    return lambda output, **options: [
        start(python_command, corpus, output, config=each, steps=26, **options)
        for each in configurations_of_two()
    ]


def finish(*processes):
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return outputs


def assert_same_to_rounding(run_dir, other):
    assert_same_weights(run_dir, other, atol=3e-4)  # A rate is 0.004.


@pytest.fixture(scope="module")
def one(brief_corpus, micro, tmp_path_factory):
    """The run of one process."""
    output = tmp_path_factory.mktemp("one") / "run"
    with op_by_op(), bare_ends():
        train(brief_corpus, "pt", "en", output, preset=micro, dropout=0.0, **ONE)
    return output


@pytest.mark.long
@pytest.mark.exhaustive
def test_two_devices_train_as_one(python_command, brief_corpus, one, tmp_path):
    finish(start(python_command, brief_corpus, tmp_path / "run", devices=2, dropout=0.0, **ONE))
    assert_same_to_rounding(tmp_path / "run", one)


TWO_DEVICES = Path(__file__).with_name("two_devices.py")


@pytest.fixture(scope="module")
def two_devices(python):
    """What two_devices.py found."""
    process = python(TWO_DEVICES)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.long
def test_a_translator_is_compiled_for_replicas(two_devices):
    assert two_devices["compiled"] == ["ReplicatedAdam", "CountedCrossEntropy"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["accumulated", "experts", "means"])
def test_two_devices_compute_as_one(two_devices, name):
    """Means over tokens, accumulation and clipping, added losses: Keras's own differ by 0.005."""
    assert two_devices[name] < 1e-5


@pytest.mark.long
def test_two_workers_train_as_one_and_only_the_chief_writes(
    python_command, brief_corpus, one, tmp_path
):
    # The example starts workers by `sys.executable`.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(python_command)} "$@"\n')
    python.chmod(0o755)
    model = {**MICRO, "dropout": 0.0, "alignment_head": [0, 0]}  # No head has to be chosen.
    arguments = [
        python, ROOT / "examples/cluster/local.py", 2, "--data", brief_corpus, "--source", "pt",
        "--target", "en", "--output", tmp_path / "run", "--bleu-freq", 1, "--preset", "tiny",
        *(f"--{name.replace('_', '-')}={value}" for name, value in ONE.items()),
        *(f"--set={name}={json.dumps(value)}" for name, value in model.items()),
    ]  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", BY_ANOTHER_PYTHON, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert_same_to_rounding(tmp_path / "run", one)
    for once in ("3 batches an epoch", "finished at step 4", "3/3 - ", "1/1 - "):
        assert result.stdout.count(once) == 1, result.stdout
    rows = log_rows(tmp_path / "run")
    assert [row["event"] for row in rows].count("started") == 1
    assert any(row["val_bleu"] for row in rows)


@pytest.mark.long
def test_the_other_worker_stops_with_the_first_one(start_two, corpus, tmp_path):
    chief, worker = start_two(tmp_path / "run", vocab_size=50)
    for process, message in (
        (chief, "vocab_size=50 is too small"),
        (worker, "first worker has stopped: see what it printed"),
    ):
        assert message in process.communicate(timeout=900)[0]
        assert process.returncode == 1


@pytest.mark.long
@pytest.mark.exhaustive
def test_a_killed_job_of_two_workers_ends_where_an_unbroken_one_does(start_two, run_dir, tmp_path):
    # The checkpoint of step 10 is in the middle of an accumulation.
    options = {"dropout": 0.1, "checkpoint_steps": 5, "gradient_accumulation_steps": 3}
    options |= {"preset": None, "init": str(run_dir)}
    finish(*start_two(tmp_path / "unbroken", **options))
    chief, worker = start_two(tmp_path / "broken", **options)
    for line in chief.stdout:
        if "checkpoint at step 10" in line:
            break
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    chief.kill()  # It may wait for the other for long.
    chief.communicate()
    assert not (tmp_path / "broken" / "model.keras").exists()
    outputs = finish(*start_two(tmp_path / "broken", **options))
    assert "resumed at step 1" in outputs[0]
    workers = [
        np.load(f"{tmp_path / name}.{i}.npz") for name in ("unbroken", "broken") for i in (0, 1)
    ]
    for name in workers[0].files:
        for other in workers[1:]:
            np.testing.assert_array_equal(workers[0][name], other[name])


@pytest.mark.long
@pytest.mark.exhaustive
def test_workers_leave_together_in_silence():
    """Each is in turn the one that is late: the first one's work, and the other's exit."""
    processes = [
        subprocess.Popen(
            [sys.executable, TWO_DEVICES, "7"],  # They call each other every five seconds.
            env={
                **os.environ,
                "PYTHONPATH": str(TWO_DEVICES.parents[2]),
                "TF_CPP_MIN_LOG_LEVEL": "0",
                "TF_CONFIG": json.dumps(config),
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for config in configurations_of_two()
    ]  # fmt: skip
    outputs = finish(*processes)
    for output in outputs:
        assert "failed to connect to all addresses" not in output, output
        assert "coordination service. Either the leader" not in output, output
    found = [
        json.loads(next(line for line in output.splitlines() if line.startswith("{")))
        for output in outputs
    ]
    assert min(each["left"] for each in found) > found[0]["worked until"]


@pytest.fixture
def met(monkeypatch):
    """This process is the first worker of a cluster, which has met the others with these values."""
    values = []
    monkeypatch.setattr(Worker, "in_cluster", True)
    monkeypatch.setattr(Worker, "is_chief", True)
    monkeypatch.setattr(Worker, "mean", lambda self, value: values.append(value))
    return values


@pytest.mark.usefixtures("micro", "untrained")
def test_other_workers_begin_before_the_first_one_has_encoded_all(
    met, corpus, tmp_path, monkeypatch
):
    folder = RunFolder(tmp_path / "run")

    def encode(*arguments, directory=None, **options):
        assert directory is None  # The run folder is on other machines too.
        assert met == [0.0]
        assert folder.tokenizer_path.exists() and folder.config.fingerprints is None
        raise InterruptedError("while it encodes")

    monkeypatch.setattr(corpora, "Batches", encode)
    with pytest.raises(InterruptedError):
        train(corpus, "pt", "en", folder.path, preset="micro", vocab_size=400)


def test_other_workers_are_told_that_the_folder_is_taken(met, corpus, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    with folder.locked(), pytest.raises(ValueError, match="is being trained into by process"):
        train(corpus, "pt", "en", folder.path)
    assert met == [1.0]
    monkeypatch.setattr(Worker, "is_chief", False)
    monkeypatch.setattr(Worker, "mean", lambda self, value: 0.5)
    with pytest.raises(ValueError, match="first worker has stopped"):
        train(corpus, "pt", "en", folder.path)


def test_waits_at_the_exit_end():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        distribution._wait_until_closed([address], seconds=0.5)
        assert time.monotonic() - began >= 0.5
    distribution._wait_until_closed([address], seconds=60)  # Nobody listens.


def test_one_device_where_there_are_several(monkeypatch):
    gpus = [tf.config.LogicalDevice(f"/device:GPU:{i}", "GPU") for i in range(3)]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", list)
    assert distribution.distribute(devices=1) is tf.distribute.get_strategy()
    names = [gpu.name for gpu in gpus]
    assert distribution.distribute() == distribution.distribute(3) == names
    assert distribution.distribute(2) == names[:2]
    for devices in (0, 4):
        with pytest.raises(ValueError, match=rf"from 1 to 3.*devices={devices}"):
            distribution.distribute(devices)


def test_a_run_refuses_devices_that_are_not_there(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"devices must be from 1 to 1.*devices=2"):
        train(corpus, "pt", "en", tmp_path / "run", devices=2)
    assert not any((tmp_path / "run").glob("*"))


def test_a_cluster_is_taken_whole(monkeypatch):
    cluster = {"worker": ["a:1", "b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    with pytest.raises(ValueError, match=r"devices=1 is for one machine.*TF_CONFIG.*unset it"):
        distribution.distribute(devices=1)


def test_parameter_servers_are_refused(monkeypatch):
    cluster = {"ps": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    with pytest.raises(ValueError, match="parameter servers"):
        distribution.distribute()


def test_devices_are_named(monkeypatch):
    strategy = tf.distribute.get_strategy()
    assert distribution.device_names(strategy) == "the CPU"
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    details = tf.config.experimental
    monkeypatch.setattr(details, "get_device_details", lambda gpu: {"device_name": "NVIDIA H200"})
    assert distribution.device_names(strategy) == "1 GPU: NVIDIA H200"
