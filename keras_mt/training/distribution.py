"""Which devices a run takes, and the bridge that Keras 3 needs to several replicas and workers."""

import json
import os

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.losses import loss as keras_loss
from keras.src.optimizers import base_optimizer

# The versions whose private names the bridge was checked on.
_CHECKED = ("3.15.1",)


def distribute():
    """Chooses the `tf.distribute.Strategy` of the machine, before anything else of TensorFlow runs.

    A cluster, where the environment variable `TF_CONFIG` names one; a TPU, where `TPU_NAME` does;
    all GPUs, where there are several; else the one device. With more than one replica it also makes
    Keras's `fit` fit for it, in this process:

    - A loss that is a mean over weighted samples, such as `CrossEntropy`'s over the real tokens, is
      the mean over the global batch. Keras takes the mean of the replicas' means, in which a
      replica's few tokens would count as much as another's many.
    - Each replica draws its own random numbers, of dropout say. Keras's seeds are alike on all.
    - Gradients are clipped by the norm of their sum over the replicas. Keras clips each one's part.
    - With several workers, `fit` builds the model from a local batch and shows a worker's own logs
      while it trains. Keras fails at both; what it reports of an epoch is of all workers anyway.

    Returns:
        The strategy: make and compile the model in its `scope()`.

    Raises:
        RuntimeError: If there is more than one replica and Keras is of another version than was
            checked.

    Example:

    >>> strategy = distribute()  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = keras_mt.Transformer.from_preset("base", vocab_size=8000)
    """
    strategy = _strategy()
    if strategy.num_replicas_in_sync > 1:
        if keras.__version__ not in _CHECKED:
            raise RuntimeError(
                f"Training on several replicas was checked on Keras {', '.join(_CHECKED)}, and "
                f"this is {keras.__version__}: install keras=={_CHECKED[-1]}."
            )
        keras_loss.reduce_values = _reduce_values
        keras.random.SeedGenerator.next = _next_seed
        base_optimizer.BaseOptimizer._clip_gradients = _clip_gradients
        keras_trainer.TensorFlowTrainer._maybe_symbolic_build = _maybe_symbolic_build
        keras_trainer.reduce_per_replica = _reduce_per_replica
    return strategy


def is_chief(strategy):
    """Whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec().jobs:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_id == 0


def distributed(strategy, make_dataset):
    """The dataset of all replicas, from a function that makes one for a shard as `Batches` does."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return make_dataset((0, 1))

    def of_worker(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        return make_dataset((range(first, first + local), replicas))

    return strategy.distribute_datasets_from_function(of_worker)


def _strategy():
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    if "ps" in cluster:
        raise ValueError("TF_CONFIG names parameter servers; give workers alone.")
    if sum(len(cluster.get(job, ())) for job in ("chief", "worker")) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if os.environ.get("TPU_NAME"):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
        return tf.distribute.TPUStrategy(resolver)
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


_keras_reduce_values = keras_loss.reduce_values


def _reduce_values(values, sample_weight=None, reduction="sum_over_batch_size"):
    context = tf.distribute.get_replica_context()
    if (
        reduction != "mean_with_sample_weight"
        or sample_weight is None
        or context is None
        or context.num_replicas_in_sync == 1
    ):
        return _keras_reduce_values(values, sample_weight, reduction)
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(sample_weight))
    # Keras adds up the replicas' gradients, so each contributes its part of the mean.
    return tf.math.divide_no_nan(tf.reduce_sum(values), tf.cast(total, values.dtype))


_keras_next_seed = keras.random.SeedGenerator.next


def _next_seed(self, ordered=True):
    seed, context = _keras_next_seed(self, ordered), tf.distribute.get_replica_context()
    if context is None:
        return seed
    return seed + tf.stack([tf.cast(context.replica_id_in_sync_group, seed.dtype), 0])


_keras_clip_gradients = base_optimizer.BaseOptimizer._clip_gradients


def _clip_gradients(self, grads):
    context = tf.distribute.get_replica_context()
    clips = self.clipnorm or self.global_clipnorm or self.clipvalue
    if not clips or context is None or context.num_replicas_in_sync == 1:
        return _keras_clip_gradients(self, grads)
    grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
    # Keras adds them up again.
    replicas = context.num_replicas_in_sync
    return [grad / replicas for grad in _keras_clip_gradients(self, grads)]


def _maybe_symbolic_build(self, iterator=None, data_batch=None):
    strategy = self.distribute_strategy
    if iterator is not None:
        for _, _, batches in iterator:
            data_batch = keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            break
    with strategy.scope():
        self._symbolic_build(data_batch=data_batch)


_keras_reduce_per_replica = keras_trainer.reduce_per_replica


def _reduce_per_replica(values, strategy, reduction):
    if not keras_trainer._collective_all_reduce_multi_worker(strategy) or reduction != "auto":
        return _keras_reduce_per_replica(values, strategy, reduction)
    return keras.tree.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], values
    )
