"""Additions to `fit`: R-Drop and several replicas."""

from typing import Any

import keras

from keras_mt.layers.types import Tensor
from keras_mt.losses import SymmetricKLDivergence, token_weights


class Fitting:
    """A mixin for Keras models from source and target to logits, with more of `fit`.

    `compile_for_translation` sets the attributes. Private names: Keras's `_compile_loss`,
    `_aggregate_additional_loss`, `_distribute_strategy`, `_maybe_symbolic_build`; TensorFlow's
    `_in_multi_worker_mode`.
    """

    rdrop_weight: float = 0.0
    divergence: keras.losses.Loss = SymmetricKLDivergence()

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """As `keras.Model.fit`, without its warning that a dataset is not shuffled anew.

        Variables that are trainable when it is first called are those that the optimizer knows.
        """
        if hasattr(x, "element_spec"):
            kwargs.setdefault("shuffle", False)
        alone = getattr(self, "_distribute_strategy", None) is None  # Else it has a scope.
        if alone and self.built and self.compiled and not self.optimizer.built:
            # In the first step it would make variables, for which TensorFlow traces the step twice.
            self.optimizer.build(self.trainable_variables)
        return super().fit(x, *args, **kwargs)

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """As `keras.Model.compute_loss`, with R-Drop in training."""
        loss = self._sum_of_losses(x, y, y_pred, sample_weight, training)
        if not (training and self.rdrop_weight):
            return loss
        other = self(x, training=True)
        loss += self._sum_of_losses(x, y, other, sample_weight, training)
        real = token_weights(y, self.padding_id, sample_weight)
        return (loss + self.rdrop_weight * self.divergence(y_pred, other, real)) / 2

    def _sum_of_losses(self, x, y, y_pred, sample_weight, training):
        if self._compile_loss is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        # What layers add is taken first: replicas wait for each other in the loss, and afterwards
        # the layers, which they share, hold another replica's.
        added = [self._aggregate_additional_loss(loss) for loss in self.losses]
        return sum(added, self._compile_loss(y, y_pred, sample_weight))

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync > 1:  # Keras adds up the replicas' batches, which fails.
            for _, _, batches in iterator or ():
                data_batch = keras.tree.map_structure(
                    lambda value: strategy.experimental_local_results(value)[0], next(batches)
                )
                break
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def train_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._logs_of_workers(super().train_step(*args, **kwargs))

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._logs_of_workers(super().test_step(*args, **kwargs))

    def _logs_of_workers(self, logs):
        """The logs, with an axis where there are several workers: Keras takes the mean over it."""
        strategy = getattr(self, "distribute_strategy", None)
        if strategy is None or not strategy.extended._in_multi_worker_mode():
            return logs
        return {name: keras.ops.expand_dims(value, 0) for name, value in logs.items()}
