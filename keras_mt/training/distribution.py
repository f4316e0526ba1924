"""Which devices a run takes, and what Keras 3 needs to train on several replicas and workers.

`PATCHES` lists all that is replaced in Keras. With several replicas the replacements differ from
Keras's own functions; elsewhere they call them.
"""

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import pkgutil
import socket
import time
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.run_folder import RunFolder

# What to install where a probe fails.
_KERAS = "3.15.1"


def distribute(devices: int | None = None) -> tf.distribute.Strategy:
    """Chooses the machine's `tf.distribute.Strategy`; call it before anything else of TensorFlow.

    A cluster, if the environment variable `TF_CONFIG` names one; a TPU, if `TPU_NAME` does; all
    GPUs, if there are several; else the one device. With more than one replica it also patches
    Keras's `fit` for it, for the rest of this process:

    - A loss that is a mean over weighted samples, such as `CrossEntropy`'s over the real tokens, is
      the mean over the global batch. Keras takes the mean of the replicas' means, in which a
      replica's few tokens would count as much as another's many.
    - Losses that layers add, for example to balance experts, are averaged over the replicas. Keras
      takes those of one replica only, once the replicas have waited for each other.
    - Each replica draws its own random numbers, for example for dropout. Keras gives all the same
      seeds.
    - Gradients are clipped by the norm of their sum over the replicas. Keras clips each one's part.
    - `fit` builds the model from a local batch, and with several workers shows a worker's own logs
      while it trains. Keras fails at both; what it reports for an epoch is of all workers anyway.

    Args:
        devices: Number of devices of this machine; None for all.

    Returns:
        The strategy: make and compile the model in its `scope()`.

    Raises:
        ValueError: If the machine has fewer than `devices`, `devices` is given although the
            environment names a cluster or a TPU, all of which is taken, or `TF_CONFIG` names
            parameter servers.
        ValueError: If there is more than one replica, and this version of Keras cannot be
            patched.

    Example:

    >>> strategy = distribute()  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = keras_mt.Transformer.from_preset("base", vocab_size=8000)
    """
    strategy = choose_strategy(devices)
    _put_on(strategy)
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
    """What a strategy trains on, such as "the CPU" or "2 GPUs: NVIDIA H200"."""
    replicas, gpus = strategy.num_replicas_in_sync, tf.config.list_physical_devices("GPU")
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return f"{replicas} TPU cores"
    if not gpus:
        return "the CPU" if replicas == 1 else f"{replicas} CPUs"
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "unknown")
    return f"{replicas} GPU{'s' * (replicas > 1)}: {name}"


@contextlib.contextmanager
def bridged(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Patches Keras for several replicas as `distribute` does, but only within a `with` block.

    Raises:
        ValueError: If this version of Keras cannot be patched.
    """
    take_off = _put_on(strategy)
    try:
        yield
    finally:
        take_off()


@contextlib.contextmanager
def leaving_together(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """At the end of a `with` block every worker waits until all have reached it.

    The first worker's process holds the cluster's coordination service, which the others call
    every few seconds: it also waits at its exit, half a minute at most, until theirs have ended.
    An exception within the block is raised at once.
    """
    yield
    if not _several_workers(strategy):
        return
    _sum(strategy, lambda: tf.constant(1.0))
    if is_chief(strategy):
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec()
        own = cluster.task_address(resolver.task_type, resolver.task_id)
        addresses = [a for job in cluster.jobs for a in cluster.job_tasks(job) if a != own]
        atexit.register(_wait_until_closed, addresses)


@contextlib.contextmanager
def failure_marked(folder: RunFolder, others_wait: bool) -> Iterator[None]:
    """Writes down an exception within the block for `wait_for_chief`, if other workers wait."""
    try:
        yield
    except BaseException as error:
        if others_wait:
            with contextlib.suppress(OSError):
                folder.path.mkdir(parents=True, exist_ok=True)
                with atomic_write(folder.failure_file) as temporary:
                    temporary.write_text(str(error) or type(error).__name__, encoding="utf-8")
        raise


def wait_for_chief(folder: RunFolder) -> None:
    """Waits until the first worker has written the tokenizer, in a folder that all share."""
    for _ in range(2 * 3600):
        if folder.tokenizer_path.exists():
            return
        if folder.failure_file.exists():
            why = folder.failure_file.read_text(encoding="utf-8")
            raise InputError(f"The first worker has stopped: {why}")
        time.sleep(0.5)
    raise TimeoutError(
        f"The first worker has not written {folder.tokenizer_path} within an hour: see what it "
        "printed, and whether all workers share that folder."
    )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files: the chief, or the first worker.

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


def _several_workers(strategy):
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    cluster = strategy.cluster_resolver.cluster_spec()
    return sum(cluster.num_tasks(job) for job in cluster.jobs) > 1


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


def _several_replicas():
    """The replica context, if there are several replicas; else None."""
    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def _mend_loss(keras_reduce_values):
    def reduce_values(values, sample_weight=None, reduction="sum_over_batch_size"):
        context = _several_replicas()
        if context is None or sample_weight is None or reduction != "mean_with_sample_weight":
            return keras_reduce_values(values, sample_weight, reduction)
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(sample_weight))
        # Keras adds up the replicas' gradients, so each contributes its part of the mean.
        return tf.math.divide_no_nan(tf.reduce_sum(values), tf.cast(total, values.dtype))

    return reduce_values


def _mend_added_losses(keras_compute_loss):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if _several_replicas() is None or self._compile_loss is None:
            return keras_compute_loss(self, x, y, y_pred, sample_weight, training)
        # Taken before the replicas wait for each other in the loss: they share the layers, and the
        # next replica's call replaces these losses by its own.
        losses = [self._aggregate_additional_loss(loss) for loss in self.losses]
        return sum(losses, self._compile_loss(y, y_pred, sample_weight))

    return compute_loss


def _mend_seed(keras_next):
    def next(self, ordered=True):
        seed, context = keras_next(self, ordered), _several_replicas()
        if context is None:
            return seed
        return seed + tf.stack([tf.cast(context.replica_id_in_sync_group, seed.dtype), 0])

    return next


def _mend_clipping(keras_clip_gradients):
    def clip_gradients(self, grads):
        context = _several_replicas()
        if context is None or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return keras_clip_gradients(self, grads)
        grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
        # Keras adds them up again.
        replicas = context.num_replicas_in_sync
        return [grad / replicas for grad in keras_clip_gradients(self, grads)]

    return clip_gradients


def _mend_building(keras_maybe_symbolic_build):
    def maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync == 1:
            return keras_maybe_symbolic_build(self, iterator, data_batch)
        for _, _, batches in iterator or ():
            data_batch = _local(strategy, next(batches))
            break
        # Keras's own takes a batch as it is.
        return keras_maybe_symbolic_build(self, data_batch=data_batch)

    return maybe_symbolic_build


def _mend_logs(keras_reduce_per_replica):
    def reduce_per_replica(values, strategy, reduction):
        if reduction != "auto" or not _several_workers(strategy):
            return keras_reduce_per_replica(values, strategy, reduction)
        return _local(strategy, values)

    return reduce_per_replica


def _local(strategy, values):
    """The values of the first replica of this process."""
    return keras.tree.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], values
    )


def _run(strategy, function):
    """What a function returns in the replicas, as a graph."""
    return tf.function(lambda: strategy.run(function), autograph=False)()


def _sum(strategy, function):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, _run(strategy, function), axis=None)


def _replica():
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def _loss_is_of_all(strategy):
    """Replica i has the loss i + 1 twice, the first replica only once."""
    loss = keras.losses.MeanAbsoluteError(reduction="mean_with_sample_weight", name="probe")

    def part():
        weight = tf.stack([1.0, tf.minimum(_replica(), 1.0)])
        return loss(tf.zeros((2, 1)), tf.fill((2, 1), _replica() + 1), sample_weight=weight)

    found = _sum(strategy, part)
    replicas = strategy.num_replicas_in_sync
    values = [1, *(value for replica in range(2, replicas + 1) for value in (replica, replica))]
    np.testing.assert_allclose(found, np.mean(values), rtol=1e-5)


def _added_losses_are_of_all(strategy):
    """Replica i has the loss (i + 1) w twice: the model's, and one that a layer adds."""
    with strategy.scope():
        added = keras.regularizers.L1(1.0)
        layer = keras.layers.Dense(1, use_bias=False, activity_regularizer=added, name="probe")
        model = keras.Sequential([layer], name="probe")
        model.build((None, 1))
        layer.kernel.assign([[1.0]])
        loss = keras.losses.MeanAbsoluteError(reduction="mean_with_sample_weight", name="probe")
        model.compile(keras.optimizers.SGD(0.1, name="probe"), loss, jit_compile=False)

    def update():
        model.train_step((tf.fill((1, 1), _replica() + 1), tf.zeros((1, 1)), tf.ones((1,))))

    _run(strategy, update)
    mean = np.mean(range(1, strategy.num_replicas_in_sync + 1))
    np.testing.assert_allclose(layer.kernel, [[1 - 0.1 * 2 * mean]], rtol=1e-5)


def _seeds_differ(strategy):
    with strategy.scope():
        generator = keras.random.SeedGenerator(1, name="probe")

    def seeds():
        seed = tf.cast(generator.next(), tf.float32)[None]
        return tf.distribute.get_replica_context().all_gather(seed, axis=0)

    found = _local(strategy, _run(strategy, seeds))
    assert len(np.unique(found, axis=0)) == strategy.num_replicas_in_sync, "the seeds are alike"


def _sum_is_clipped(strategy):
    """The first replica has the gradient (3, 0), the others have (0, 3)."""
    with strategy.scope():
        variable = keras.Variable(np.zeros(2, "float32"), name="probe")
        optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1.0, name="probe")
        optimizer.build([variable])

    def update():
        first = tf.cast(_replica() == 0, tf.float32)
        optimizer.apply([3 * tf.stack([first, 1 - first])], [variable])

    _run(strategy, update)
    total = np.array([1.0, strategy.num_replicas_in_sync - 1])
    np.testing.assert_allclose(variable, -total / np.linalg.norm(total), rtol=1e-5)


def _fit_ends(strategy):
    """The replicas' batches are of two rows and of three."""
    with strategy.scope():
        layer = keras.layers.Dense(1, kernel_initializer="zeros", name="probe")
        model = keras.Sequential([layer], name="probe")
        model.compile(keras.optimizers.SGD(name="probe"), "mse", jit_compile=False)

    def batches(shard):
        (first, *_), _ = shard
        rows = tf.data.Dataset.range(first, first + len(shard[0])).repeat()
        return rows.map(lambda i: (tf.ones((2 + i % 2, 1)), tf.ones((2 + i % 2, 1))))

    history = model.fit(distributed(strategy, batches), steps_per_epoch=1, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all(), "the loss is not finite"


@dataclasses.dataclass(frozen=True)
class Patch:
    """A function of Keras that is replaced on several replicas.

    Attributes:
        target: What is replaced, as `module:name`.
        fault: What Keras's own does wrong.
        mend: Function from Keras's own to its replacement.
        probe: Function of the strategy that raises unless the replacement works.
        several_workers: Whether only several workers need it.
    """

    target: str
    fault: str
    mend: Callable
    probe: Callable
    several_workers: bool = False


PATCHES = (
    Patch(
        "keras.src.losses.loss:reduce_values",
        "takes the mean of the replicas' weighted means",
        _mend_loss,
        _loss_is_of_all,
    ),
    Patch(
        "keras.src.trainers.trainer:Trainer.compute_loss",
        "takes one replica's added losses only, once the replicas have waited for each other",
        _mend_added_losses,
        _added_losses_are_of_all,
    ),
    Patch(
        "keras:random.SeedGenerator.next",
        "gives all replicas the same seeds",
        _mend_seed,
        _seeds_differ,
    ),
    Patch(
        "keras.src.optimizers.base_optimizer:BaseOptimizer._clip_gradients",
        "clips each replica's part of the gradients",
        _mend_clipping,
        _sum_is_clipped,
    ),
    Patch(
        "keras.src.backend.tensorflow.trainer:TensorFlowTrainer._maybe_symbolic_build",
        "adds up the replicas' batches, which fails",
        _mend_building,
        _fit_ends,
    ),
    Patch(
        "keras.src.backend.tensorflow.trainer:reduce_per_replica",
        "takes the mean of the workers' logs over an axis that they lack, which fails",
        _mend_logs,
        _fit_ends,
        several_workers=True,
    ),
)


def _put_on(strategy):
    """Replaces what the strategy needs and is not replaced yet; returns a function that undoes it.

    Raises:
        ValueError: If something is not there, or a probe fails. Keras is then as before.
    """
    with contextlib.ExitStack() as undo:
        patches = []
        if strategy.num_replicas_in_sync > 1:
            several = _several_workers(strategy)
            patches = [patch for patch in PATCHES if several or not patch.several_workers]
        for patch in patches:
            with _failure_named(patch):
                _replace(patch, undo)
        for probe in dict.fromkeys(patch.probe for patch in patches):
            with _failure_named(*(patch for patch in patches if patch.probe is probe)):
                probe(strategy)
        return undo.pop_all().close


def _replace(patch, undo):
    module, _, path = patch.target.partition(":")
    path, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(f"{module}:{path}")
    own = getattr(owner, name)
    if not hasattr(own, "mended"):
        mended = functools.wraps(own)(patch.mend(own))
        mended.mended = True
        setattr(owner, name, mended)
        undo.callback(setattr, owner, name, own)


@contextlib.contextmanager
def _failure_named(*patches):
    try:
        yield
    except Exception as error:
        faults = ", and ".join(f"{patch.target} of Keras {patch.fault}" for patch in patches)
        raise InputError(
            f"On several replicas {faults}. keras_mt replaces it, which does not work with Keras "
            f"{keras.__version__}: install keras=={_KERAS}, or train on one device. "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error
