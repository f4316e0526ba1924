"""The devices of a run, and how their processes wait for each other.

What a loss and an optimizer have to know of replicas is in replicas.py, and what a model has to in
`keras_mt.models.fitting`.
"""

import atexit
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.run_folder import RunFolder

_of_this_process = contextlib.ExitStack()


def distribute(devices: int | None = None) -> tf.distribute.Strategy:
    """Chooses the machine's `tf.distribute.Strategy`; call it before anything else of TensorFlow.

    A cluster, if the environment variable `TF_CONFIG` names one; a TPU, if `TPU_NAME` does; all
    GPUs, if there are several; else the one device. With more than one replica, each draws its own
    random numbers for the rest of this process: Keras gives all the same seeds.

    Models that are `keras_mt.models.Seq2Seq`, compiled by `compile_for_translation`, then train as
    on one device: the loss is the mean over the tokens of all replicas, what layers add to it is
    averaged over them, and gradients are clipped by the norm of their sum.

    Args:
        devices: Number of devices of this machine; None for all.

    Returns:
        The strategy: make and compile the model in its `scope()`.

    Raises:
        ValueError: If the machine has fewer than `devices`, `devices` is given although the
            environment names a cluster or a TPU, all of which is taken, or `TF_CONFIG` names
            parameter servers.

    Example:

    >>> strategy = distribute()  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = keras_mt.Transformer.from_preset("base", vocab_size=8000)
    """
    strategy = choose_strategy(devices)
    _of_this_process.enter_context(per_replica_seeds(strategy))
    return strategy


def choose_strategy(devices: int | None = None) -> tf.distribute.Strategy:
    """The strategy that `distribute` returns, with Keras left as it is."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    if "ps" in cluster:
        raise InputError(
            "TF_CONFIG names parameter servers (ps); only chief and worker are supported."
        )
    workers = sum(len(cluster.get(job, ())) for job in ("chief", "worker"))
    if devices is not None and (workers > 1 or os.environ.get("TPU_NAME")):
        raise InputError(
            f"devices={devices} is for one machine, and the environment variable "
            f"{'TF_CONFIG' if workers > 1 else 'TPU_NAME'} names more: unset it, or set "
            "CUDA_VISIBLE_DEVICES on each worker."
        )
    if workers > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if os.environ.get("TPU_NAME"):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
        return tf.distribute.TPUStrategy(resolver)
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
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return f"{replicas} TPU cores"
    if not gpus:
        return "the CPU" if replicas == 1 else f"{replicas} CPUs"
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "unknown")
    return f"{replicas} GPU{'s' * (replicas > 1)}: {name}"


@dataclasses.dataclass(frozen=True)
class Worker:
    """A process that trains: the run folder, the devices, and the function that gets each line."""

    folder: RunFolder
    strategy: tf.distribute.Strategy = dataclasses.field(default_factory=tf.distribute.get_strategy)
    output: Callable[[str], Any] = print

    @classmethod
    def start(
        cls, folder: RunFolder, devices: int | None, output: Callable[[str], Any]
    ) -> "Worker":
        """This process, with the devices that it takes."""
        # Before the workers meet, so that what one of them finds later is of this start.
        chief_file(folder).unlink(missing_ok=True)
        return cls(folder, choose_strategy(devices), output)

    @property
    def is_chief(self) -> bool:
        """True if this process is the one that writes and reports."""
        return is_chief(self.strategy)

    @property
    def in_cluster(self) -> bool:
        """True if other processes, maybe on other machines, share the folder."""
        return self.strategy.cluster_resolver is not None

    @property
    def temporary(self) -> Path | None:
        """The folder for large temporary files; None for the system's, which no machine shares."""
        return None if self.in_cluster else self.folder.path

    def report(self, message: str) -> None:
        """Gives a line of progress to the user."""
        if self.is_chief:
            self.output(message)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Holds the folder within a `with` block, in step with the other workers of a cluster."""
        with (
            failure_told(self.folder, self.is_chief and self.in_cluster),
            self.folder.locked() if self.is_chief else contextlib.nullcontext(),
            per_replica_seeds(self.strategy),
            exit_barrier(self.strategy),
        ):
            yield


@contextlib.contextmanager
def exit_barrier(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Makes every worker wait at the end of a `with` block until all have reached it.

    The first worker's process holds the cluster's coordination service, which the others call
    every few seconds: it also waits at its exit, half a minute at most, until theirs have ended.
    """
    yield
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return
    values = tf.function(lambda: strategy.run(lambda: tf.constant(1.0)), autograph=False)()
    strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)
    if is_chief(strategy):
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec()
        own = cluster.task_address(resolver.task_type, resolver.task_id)
        addresses = [a for job in cluster.jobs for a in cluster.job_tasks(job) if a != own]
        atexit.register(_wait_until_closed, addresses)


def chief_file(folder: RunFolder) -> Path:
    """The file in which the first worker of this cluster, and of no other, tells of itself."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    text = json.dumps(cluster, sort_keys=True)
    return folder.chief_file(hashlib.sha256(text.encode()).hexdigest()[:16])


@contextlib.contextmanager
def failure_told(folder: RunFolder, others_wait: bool) -> Iterator[None]:
    """Writes down an exception within the block for `wait_for_chief`, if other workers wait."""
    try:
        yield
    except BaseException as error:
        if others_wait:
            with contextlib.suppress(OSError):
                tell_others(folder, str(error) or type(error).__name__)
        raise
    if others_wait:
        chief_file(folder).unlink(missing_ok=True)


def tell_others(folder: RunFolder, failure: str = "") -> None:
    """Ends `wait_for_chief` of the other workers, which begin, or end with this failure."""
    with atomic_write(chief_file(folder)) as temporary:
        temporary.write_text(failure, encoding="utf-8")


def wait_for_chief(folder: RunFolder) -> None:
    """Waits until the first worker has made the tokenizer, in a folder that all share."""
    for _ in range(2 * 3600):
        if chief_file(folder).exists():
            if why := chief_file(folder).read_text(encoding="utf-8"):
                raise InputError(f"The first worker has stopped: {why}")
            return
        time.sleep(0.5)
    raise TimeoutError(
        f"The first worker has not written {folder.tokenizer_path} within an hour: see what it "
        "printed, and whether all workers share that folder."
    )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """True in the process that writes files: the chief, or the first worker.

    Args:
        strategy: What `distribute` returned.

    Example:

    >>> is_chief(tf.distribute.get_strategy())
    True
    """
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec().jobs:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_id == 0


def distributed(
    strategy: tf.distribute.Strategy, make_dataset: Callable
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """The dataset of all replicas, from a function that makes that of a shard.

    Args:
        strategy: What `distribute` returned.
        make_dataset: Function from a `shard`, as `keras_mt.data.Batches.stream` takes it, to a
            `tf.data.Dataset`.

    Returns:
        A dataset for `fit`.

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


@contextlib.contextmanager
def per_replica_seeds(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Makes each replica draw its own random numbers; Keras gives all replicas the same seeds."""
    seeds = keras.random.SeedGenerator
    draw = seeds.next

    @functools.wraps(draw)
    def next(self, ordered=True):
        seed, context = draw(self, ordered), tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return seed
        return seed + tf.stack([tf.cast(context.replica_id_in_sync_group, seed.dtype), 0])

    if strategy.num_replicas_in_sync == 1 or hasattr(draw, "__wrapped__"):
        yield
        return
    seeds.next = next
    try:
        yield
    finally:
        seeds.next = draw
