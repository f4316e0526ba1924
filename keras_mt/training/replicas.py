"""Adam and losses in which each real token counts alike, over replicas and accumulated batches."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_mt.errors import InputError
from keras_mt.layers.types import Tensor
from keras_mt.losses import CrossEntropy, SymmetricKLDivergence


@keras.saving.register_keras_serializable(package="keras_mt")
class ReplicatedAdam(keras.optimizers.Adam):
    """Adam that clips the gradients' sum over the replicas; Keras clips each replica's part."""

    def apply(
        self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        context = _one_of_several()
        if context is not None and self.global_clipnorm:
            grads, trainable_variables = self._summed(grads, trainable_variables)
            grads, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
            # Keras adds the replicas' up again, and finds nothing to clip.
            grads = [grad / context.num_replicas_in_sync for grad in grads]
        super().apply(grads, trainable_variables)

    def _summed(self, grads, variables):
        """The gradients' sums over the replicas, dense, and the variables that have one."""
        variables = list(variables or self._trainable_variables)
        self.build(variables)
        pairs = [(grad, v) for grad, v in zip(grads, variables, strict=True) if grad is not None]
        grads, variables = [tf.convert_to_tensor(grad) for grad, _ in pairs], [v for _, v in pairs]
        if context := _one_of_several():
            grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
        return grads, variables


@keras.saving.register_keras_serializable(package="keras_mt")
class AccumulatedAdam(ReplicatedAdam):
    """Adam that makes one update of `accumulate` batches, as if they were one.

    With `n[i]` real tokens in batch i and the gradient `g[i]`, the update takes
    `sum(n[i] * g[i]) / sum(n[i])`; Keras's `gradient_accumulation_steps` takes the mean of the
    `g[i]`. A `CountedCrossEntropy` of this optimizer tells it the numbers of tokens.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 0.001,
        accumulate: int = 1,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.accumulate = accumulate
        self.counted = False  # Whether a loss assigns `batch_tokens`.
        # Each replica assigns its own number, and all get the sum.
        self.batch_tokens = self.add_variable((), aggregation="sum", name="batch_tokens")
        self._tokens = self.add_variable((), name="tokens")
        self._batches = self.add_variable((), dtype="int", name="batches")

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if not self.built:
            super().build(variables)
            self._sums = self.add_optimizer_variables(variables, "gradient_sum")

    def apply(
        self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Adds the gradients of a batch; after `accumulate` batches makes the update."""
        if not self.counted:
            raise InputError(
                "AccumulatedAdam needs loss=CountedCrossEntropy(optimizer), which counts tokens."
            )
        # Out of the replicas, which cannot wait for each other within a `cond`.
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._add, tf.distribute.get_strategy(), *self._summed(grads, trainable_variables)
        )

    def _add(self, strategy, grads, variables):
        sums = [self._sums[self._get_variable_index(variable)].value for variable in variables]
        tokens, batches = self._tokens.value, self._batches.value

        def update(variable, function, *args):
            strategy.extended.update(variable, function, args=args, group=False)

        def update_weights():
            if tf.distribute.in_cross_replica_context():
                strategy.extended.call_for_each_replica(self._update, args=(sums, variables))
            else:
                self._update(sums, variables)
            for variable in (*sums, tokens, batches):
                update(variable, lambda each: each.assign(tf.zeros_like(each)))
            return 0

        def add(total, grad, count):
            return total.assign_add(tf.cast(grad, total.dtype) * tf.cast(count, total.dtype))

        for total, grad in zip(sums, grads, strict=True):
            update(total, add, grad, self.batch_tokens.value)
        update(tokens, add, 1, self.batch_tokens.value)
        update(batches, lambda count: count.assign_add(1))
        tf.cond(tf.equal(batches, self.accumulate), update_weights, lambda: 0)

    def _update(self, sums, variables):
        # Keras adds up the gradients of the replicas, but here each already has the sum.
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        share = tf.math.divide_no_nan(1.0, self._tokens.value * replicas)
        super().apply([total * tf.cast(share, total.dtype) for total in sums], variables)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "accumulate": self.accumulate}


@keras.saving.register_keras_serializable(package="keras_mt")
class CountedCrossEntropy(CrossEntropy):
    """`CrossEntropy` whose mean is over all replicas' tokens, which it counts for the optimizer."""

    def __init__(self, optimizer: AccumulatedAdam | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._optimizer = optimizer
        self._count = _Count(padding_id=self.padding_id, reduction="sum")
        if optimizer is not None:
            optimizer.counted = True

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        count = self._count(y_true, y_pred, sample_weight)
        if self._optimizer is not None:
            self._optimizer.batch_tokens.assign(count)
        return super().__call__(y_true, y_pred, sample_weight) * _share(count)


class CountedDivergence(SymmetricKLDivergence):
    """`SymmetricKLDivergence` whose mean is over the tokens of all replicas."""

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor) -> Tensor:
        divergence = super().__call__(y_true, y_pred, sample_weight)
        return divergence * _share(tf.reduce_sum(sample_weight))


def _share(count):
    """A replica's share of all tokens times the number of replicas, whose means Keras averages."""
    context = _one_of_several()
    if context is None:
        return 1.0
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, count)
    return tf.math.divide_no_nan(count * context.num_replicas_in_sync, total)


def _one_of_several():
    """The context of a replica, if there are several; None while Keras builds a model, too."""
    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


class _Count(CrossEntropy):
    """The sum of the weights of the labels, with Keras's masks applied."""

    def call(self, y_true, y_pred):
        return ops.ones_like(y_true)
