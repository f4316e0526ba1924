"""Metrics of a translator that leave out padding."""

from typing import Any

import keras
from keras import ops

from keras_mt.layers.types import DType, Tensor
from keras_mt.losses import check_label_dtype, class_ids, cross_entropy, label_logits, token_weights

__all__ = ["Perplexity", "TokenAccuracy"]


class _TokenMetric(keras.metrics.Mean):
    """A mean over the labels that are not padding."""

    def __init__(
        self, padding_id: int = 0, name: str | None = None, dtype: DType = "float32"
    ) -> None:
        super().__init__(name=name or self._default_name, dtype=check_label_dtype(dtype))
        self.padding_id = padding_id

    def values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The value of each label `[batch, length]`; those at padding do not count."""
        raise NotImplementedError

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        # Converted as in the loss, so that TensorFlow computes what both need only once.
        y_true = ops.convert_to_tensor(y_true, dtype=self.dtype)
        y_pred = ops.convert_to_tensor(y_pred, dtype=self.dtype)
        weight = token_weights(y_true, self.padding_id, sample_weight, self.dtype)
        # Flattened, since Mean first averages over each sample, and batches differ in length.
        values = ops.reshape(self.values(class_ids(y_true, self.padding_id), y_pred), (-1,))
        super().update_state(values, sample_weight=ops.reshape(weight, (-1,)))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "padding_id": self.padding_id}


@keras.saving.register_keras_serializable(package="keras_mt")
class TokenAccuracy(_TokenMetric):
    """The share of the labels, padding left out, that have the highest logit.

    A label that ties for the highest counts: close logits are equal in half precision.

    Args:
        padding_id: The label that does not count.
        name: Name of the metric; None for `"token_accuracy"`.
        dtype: Dtype of the computation, `"float32"` or `"float64"`.

    Call arguments:
        y_true, y_pred, sample_weight: As in `keras_mt.losses.CrossEntropy`.

    Raises:
        ValueError: If the dtype would round labels.

    Example:

    >>> accuracy = TokenAccuracy()
    >>> accuracy.update_state(np.array([[1, 2, 0]]), np.array([[[0., 1, 0], [1, 0, 0], [0, 0, 1]]]))
    >>> float(accuracy.result())
    0.5
    """

    _default_name = "token_accuracy"

    def values(self, labels: Tensor, logits: Tensor) -> Tensor:
        # Cheaper than argmax: the loss already has the maximum and the label's logit.
        return ops.cast(label_logits(labels, logits) >= ops.max(logits, axis=-1), self.dtype)


@keras.saving.register_keras_serializable(package="keras_mt")
class Perplexity(_TokenMetric):
    """`exp(mean(-log p[y]))` over the labels `y` that are not padding, without label smoothing.

    Args:
        padding_id, dtype: As in `TokenAccuracy`.
        name: Name of the metric; None for `"perplexity"`.

    Call arguments:
        y_true, y_pred, sample_weight: As in `TokenAccuracy`.

    Raises:
        ValueError: If the dtype would round labels.

    Example:

    >>> perplexity = Perplexity()
    >>> perplexity.update_state(np.array([[1, 2, 0]]), np.zeros((1, 3, 8)))
    >>> round(float(perplexity.result()), 4)
    8.0
    """

    _default_name = "perplexity"

    def values(self, labels: Tensor, logits: Tensor) -> Tensor:
        return cross_entropy(labels, logits)

    def result(self) -> Tensor:
        return ops.exp(super().result())
