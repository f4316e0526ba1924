"""Metrics of a translator that leave padding out."""

import keras
from keras import ops

from keras_mt.losses import CrossEntropy, check_holds_labels, classes, label_logits, real_tokens


class _TokenMetric(keras.metrics.Mean):
    """A mean over the labels that are not padding."""

    def __init__(self, padding_id=0, name=None, dtype="float32"):
        super().__init__(name=name, dtype=check_holds_labels(dtype))
        self.padding_id = padding_id

    def values(self, y_true, y_pred):
        raise NotImplementedError

    def update_state(self, y_true, y_pred, sample_weight=None):
        # As the loss converts them, so that TensorFlow computes but once what both need.
        y_true = ops.convert_to_tensor(y_true, dtype=self.dtype)
        y_pred = ops.convert_to_tensor(y_pred, dtype=self.dtype)
        weight = real_tokens(y_true, self.padding_id, sample_weight, self.dtype)
        # Flat, since Mean averages over each sample first: batches differ in length.
        values = ops.reshape(self.values(y_true, y_pred), (-1,))
        super().update_state(values, sample_weight=ops.reshape(weight, (-1,)))

    def get_config(self):
        return {**super().get_config(), "padding_id": self.padding_id}


@keras.saving.register_keras_serializable(package="keras_mt")
class TokenAccuracy(_TokenMetric):
    """The share of the labels, padding left out, that have the highest logit.

    A label that shares it with others counts: logits of half precision tie where they are close.

    Args:
        padding_id: The label that does not count.
        name: Name of the metric.
        dtype: Dtype of the computation.

    Raises:
        ValueError: If the dtype does not hold every label.

    Example:

    >>> accuracy = TokenAccuracy()
    >>> accuracy.update_state(np.array([[1, 2, 0]]), np.array([[[0., 1, 0], [1, 0, 0], [0, 0, 1]]]))
    >>> float(accuracy.result())
    0.5
    """

    def __init__(self, padding_id=0, name="token_accuracy", dtype="float32"):
        super().__init__(padding_id, name, dtype)

    def values(self, y_true, y_pred):
        # Cheaper than argmax: the loss has the maximum and the label's logit already.
        own = label_logits(classes(y_true, self.padding_id), y_pred)
        return ops.cast(own >= ops.max(y_pred, axis=-1), self.dtype)


@keras.saving.register_keras_serializable(package="keras_mt")
class Perplexity(_TokenMetric):
    """Exponential of the mean cross-entropy, without smoothing, of the labels that are not padding.

    Args:
        padding_id: The label that does not count.
        name: Name of the metric.
        dtype: Dtype of the computation.

    Raises:
        ValueError: If the dtype does not hold every label.

    Example:

    >>> perplexity = Perplexity()
    >>> perplexity.update_state(np.array([[1, 2, 0]]), np.zeros((1, 3, 8)))
    >>> round(float(perplexity.result()), 4)
    8.0
    """

    def __init__(self, padding_id=0, name="perplexity", dtype="float32"):
        super().__init__(padding_id, name, dtype)
        self._cross_entropy = CrossEntropy(padding_id=padding_id, reduction="none", dtype=dtype)

    def values(self, y_true, y_pred):
        return self._cross_entropy.call(y_true, y_pred)

    def result(self):
        return ops.exp(super().result())
