import os

import tensorflow as tf
from command import keras_mt

from keras_mt.cli.devices import unusable_gpu
from keras_mt.training.distribution import device_names


def test_a_gpu_that_tensorflow_cannot_use_is_not_passed_over(tmp_path, monkeypatch):
    """With a stand-in for NVIDIA's program on a machine without its drivers."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    warning = unusable_gpu()
    assert warning.startswith("There is an NVIDIA GPU that TensorFlow cannot use. It says:\n")
    assert "cuda" in warning.lower() and "factory" not in warning
    monkeypatch.setattr("keras_mt.cli.train.unusable_gpu", lambda: warning)
    data = ["--data", "/nowhere", "--source", "en", "--target", "de", "--output", tmp_path / "run"]
    result = keras_mt("train", *data, check=False)
    assert warning in result.stderr and "training on the CPU" in result.stdout
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # Somebody wants the CPU.
    assert unusable_gpu() is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert unusable_gpu() is None


def test_devices_are_named(monkeypatch):
    strategy = tf.distribute.get_strategy()
    assert device_names(strategy) == "the CPU"
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    details = tf.config.experimental
    monkeypatch.setattr(details, "get_device_details", lambda gpu: {"device_name": "NVIDIA H200"})
    assert device_names(strategy) == "1 GPU: NVIDIA H200"
