"""The devices of a run, and how the processes of a cluster keep step.

What a loss and an optimizer have to know of replicas is in replicas.py, and what a model has to in
`keras_mt.models.fitting`.
"""

import atexit
import contextlib
import functools
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.run_folder import RunFolder


def distribute(devices: int | None = None) -> tf.distribute.Strategy:
    """Chooses the machine's `tf.distribute.Strategy`; call it before anything else of TensorFlow.

    A cluster, if the environment variable `TF_CONFIG` names one; all GPUs, if there are several;
    else the one device. Models that are `keras_mt.models.Seq2Seq`, compiled by
    `compile_for_translation`, then train as on one device: the loss is the mean over the tokens of
    all replicas, what layers add to it is averaged over them, and gradients are clipped by the norm
    of their sum.

    Args:
        devices: Number of devices of this machine; None for all.

    Returns:
        The strategy: make and compile the model in its `scope()`.

    Raises:
        ValueError: If the machine has fewer than `devices`, `devices` is given although `TF_CONFIG`
            names a cluster, all of which is taken, or it names parameter servers.

    Example:

    >>> strategy = distribute()  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = keras_mt.Transformer.from_preset("base", vocab_size=8000)
    """
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    if "ps" in cluster:
        raise InputError("TF_CONFIG has parameter servers (ps); only chief and worker can train.")
    if sum(len(cluster.get(job, ())) for job in ("chief", "worker")) > 1:
        if devices is not None:
            raise InputError(
                f"devices={devices} is for one machine, and the environment variable TF_CONFIG "
                "names more: unset it, or set CUDA_VISIBLE_DEVICES on each worker."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    names = [device.name for device in tf.config.list_logical_devices("GPU")]
    count = max(len(names), 1)
    if devices is not None and not 1 <= devices <= count:
        raise InputError(
            f"devices must be from 1 to {count}, which this machine has. Received: {devices=}"
        )
    if (devices or count) > 1:
        return tf.distribute.MirroredStrategy(names[:devices])
    return tf.distribute.get_strategy()


def device_names(strategy: tf.distribute.Strategy) -> str:
    """The devices of a strategy, such as "the CPU" or "2 GPUs: NVIDIA H200"."""
    replicas, gpus = strategy.num_replicas_in_sync, tf.config.list_physical_devices("GPU")
    if not gpus:
        return "the CPU" if replicas == 1 else f"{replicas} CPUs"
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "unknown")
    return f"{replicas} GPU{'s' * (replicas > 1)}: {name}"


def distributed(
    strategy: tf.distribute.Strategy, make_dataset: Callable
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """The dataset of all replicas, for `fit`, from a function that makes that of a shard.

    Args:
        strategy: What `distribute` returned.
        make_dataset: Function from a `shard`, as `keras_mt.data.Batches.stream` takes it, to a
            `tf.data.Dataset`.

    Example:

    >>> distributed(strategy, lambda shard: batches.stream(shard=shard))  # doctest: +SKIP
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return make_dataset((0, 1))

    def of_worker(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        return make_dataset((range(first, first + local), replicas))

    return strategy.distribute_datasets_from_function(of_worker)


class Worker(NamedTuple):
    """A process that trains: the run folder, the devices, and the function that gets each line."""

    folder: RunFolder
    strategy: tf.distribute.Strategy
    output: Callable[[str], Any] = print

    @property
    def in_cluster(self) -> bool:
        """True if other processes, maybe on other machines, share the folder."""
        return isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)

    @property
    def is_chief(self) -> bool:
        """True in the process that writes and reports: a cluster's chief, or its first worker."""
        return self.strategy.extended.should_checkpoint

    @property
    def temporary(self) -> Path | None:
        """The folder for large temporary files; None for the system's, which no machine shares."""
        return None if self.in_cluster else self.folder.path

    def report(self, message: str) -> None:
        """Gives a line of progress to the user."""
        if self.is_chief:
            self.output(message)

    def mean(self, value: float) -> float:
        """The mean of a number over the workers, which all wait here for each other."""
        if not self.in_cluster:
            return value
        run = functools.partial(self.strategy.run, lambda: tf.constant(value))
        values = tf.function(run, autograph=False)()
        return float(self.strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=None))

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Lets the chief through a `with` block before the others, which stop if it fails."""
        if not self.is_chief and self.mean(0.0):
            raise InputError("The first worker has stopped: see what it printed.")
        failed = 1.0
        try:
            yield
            failed = 0.0
        finally:
            if self.is_chief:
                self.mean(failed)

    def leave(self) -> None:
        """Waits for the other workers; at its exit, the chief's process waits for theirs to end.

        It holds the cluster's coordination service, which the others call every few seconds.
        """
        self.mean(0.0)
        if self.in_cluster and self.is_chief:
            resolver = self.strategy.cluster_resolver
            cluster = resolver.cluster_spec()
            own = cluster.task_address(resolver.task_type, resolver.task_id)
            addresses = [a for job in cluster.jobs for a in cluster.job_tasks(job) if a != own]
            atexit.register(_wait_until_closed, addresses)


def _wait_until_closed(addresses, seconds=30):
    """Waits until nothing listens at the addresses, since those processes have ended."""
    until = time.monotonic() + seconds
    for address in addresses:
        host, port = address.rsplit(":", 1)
        while time.monotonic() < until:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
            except OSError:
                break
            time.sleep(0.1)
